// Package restored deals with what a partition has lost when it goes on with older data:
// from an archived file, or because its master was restarted and no replica had more.
//
// # The problem
//
// A fleet knows its tags by records (package fleet), and they are part of a partition's
// data. A partition that goes back in time forgets the tags that came since, has the ones
// back that were moved away, and has old values for the others. The application can compute
// many of these again, from its database: but it must know which, and that must not depend
// on a process that may die in the middle, or on partitions that happen to be down.
//
// # The mechanism
//
// The script that promotes a restarted master (package failover) stores the hash
// mr:fleet:restored there. It is a list of what was done; as long as it exists, some agent
// does the rest:
//
//	promotion     epoch
//	before clients write:
//	  BeforeUse   epoch, moved:1, moved:2 ...        of the partitions that answered
//	afterwards, by a Job of any agent:
//	  here        the tags that the partition has are marked
//	  moved:N     tags that partition N has too are given back to it, and marked
//	  named:N     tags that are here by a record of partition N, and not by the partition's
//	              own, are marked; if both send the tag to each other, that is corrected
//	the end       -
//
// To mark a tag means to add it to an Ick (package ick) that the setting RestoredIck names:
// consumers of that Ick bring these tags in line. Without the setting nothing is marked.
//
// A step that was cut off is done again. That marks tags twice, which is harmless: an Ick
// folds. Each step first marks and then changes records. It counts as done when replicas of
// the Ick's partition have the marks. A partition that goes back a second time meanwhile has
// another epoch, and starts over.
//
// # Guarantees
//
//   - Each tag that the partition has, or has by a record elsewhere, is marked after the
//     partition went back. Nothing but the loss of the Ick prevents that: it is done when the
//     partitions concerned answer, and when the Ick takes marks.
//   - A tag that was moved away is in use in one place: where it was moved to. If that was
//     silent, it is used here until it answers. What was written here is then lost, and the
//     tag is marked behind the last such write.
//
// # The wrinkle
//
// Tags that were first placed in the partition itself after the time of the data are known
// to nobody. Only the application can find them.
//
// A restart alone does not show what was lost. So a partition whose master was restarted is
// marked as a whole even if its append-only file had everything. Replicas avoid that: one
// that was not restarted is elected.
//
// If no agent has ever seen a master, a restart of that master is not noticed.
//
// The Ick's own tag may be among the marks, and the Ick may be in the partition that went
// back. Marks that it had had before are then as old as the rest.
//
// A pass reads all keys of each partition once, in pieces.
package restored
