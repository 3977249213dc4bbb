// Package restored handles the losses of a partition that goes on with older data:
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
// mr:fleet:restored there. It lists the finished steps; as long as it exists, some agent
// does the rest:
//
//	promotion     epoch
//	afterwards, by a Job of any agent:
//	  here        the tags that the partition has are marked
//	  with:N      the tags are compared with the records of partition N: a second time if the
//	              first one had to change something
//	the end       an agent finishes the moves of which the old data has marks
//
// Only the elected master of a partition counts, in the run that the map names. A partition
// without one is silent, and its step waits. [BeforeUse] does a part of the work before clients
// write: it gives tags back to partitions that are sure to have them.
//
// # Which state gives which result
//
// A tag was moved from F to T. Then one of them went back, to a time before the move or in the
// middle of it, or both did.
//
//	         T has the tag                     T has not got it
//	F says   nothing is to be done             T went back. The tag is in T, without data, and
//	that it                                    marked. If F still has the keys, since the move was
//	is in T                                    not finished, the tag is in F again, and marked
//	F has    F went back, or both did. It is   F, and perhaps T, went back to before the move. The
//	the tag  in T: F gives it up, and it is    tag is in F. T's record of the unfinished copy is
//	         marked                            removed
//
// If T has the tag and did not go back since, F's keys are deleted. If T went back as well, F's
// keys stay as strays, of which fleet check reports the tag: T's data may be older. If it is F
// that has the tag by a later move and T by an older one, T went back, and gives it up.
//
// If both went back and both have the tag, nothing tells which data is newer. The tag stays in
// the partition to which a move must have brought it: one that clients would not ask, before
// the ring's owners, before older owners. The other one gives it up, and only that one's job
// does so.
//
// If F and T send the tag to each other, the one that went back has the tag, without data. If both
// did, it is the one where it would have stayed.
//
// If T's record leads to a third partition that has the tag, T has moved it on, and F's mark is an old
// one: the tag stays there. Marks of a giving up that the old data has, or that a killed job left, are
// taken off before anything is compared.
//
// A record by which clients are led to a tag may be lost, too. The comparison of the partition
// that lost it with the one that has the tag writes it again. A record of a third partition that
// leads to where the tag is no more is corrected by the comparison of the one that has the tag.
//
// The job of the partition that went back repairs each of these, and if both did, the job of
// either. Each change is one compare-and-set. A job that was killed in the middle leaves both
// records as before, or one changed; the next comparison of the same two finds that state among
// those above. Writers of a tag that is being given up may have to wait until then. If the partition
// goes back once more, its list is empty again, and all is compared anew.
//
// To mark a tag means to add it to an Ick (package ick) that the setting RestoredIck names:
// consumers of that Ick bring these tags in line. Without the setting nothing is marked.
//
// A step that was cut off is done again. A repeat marks tags twice, which is harmless: an Ick
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
//     silent, or went back as well, it is used here until it is compared. Writes made here
//     are then not used any more, and the tag is marked behind the last such write.
//   - No key and no record is deleted because a partition that went back has a tag. Agents
//     delete its remains elsewhere when that partition is compared with all others.
//
// # The wrinkle
//
// Tags that were first placed in the partition itself after the time of the data have no record
// any more. Only the application can find them. The same holds for tags whose records were in
// several partitions that all went back, and for tags that were used here because their partition
// was silent, if this one goes back once more before the two are compared.
//
// A restart alone does not show which writes were lost. So a partition whose master was restarted
// is marked as a whole even if its append-only file had everything. Replicas avoid that: one
// that was not restarted is elected.
//
// If no agent has ever seen a master, a restart of that master is not noticed.
//
// The Ick's own tag may be among the marks, and the Ick may be in the partition that went
// back. Marks that it had had before are then as old as the rest.
//
// Until all partitions have answered, no tag moves from the partition or to it.
//
// A pass reads all keys of each partition once, in pieces.
package restored
