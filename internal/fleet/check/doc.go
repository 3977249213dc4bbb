// Package check verifies the assumptions on which the promises of a fleet rest.
//
// # The problem
//
// A fleet keeps its promises only under assumptions: each server comes back fenced from a
// restart, evicts nothing, and is copied by a replica on another machine; the directory
// survives a crash; an agent runs; each tag has one home. A new machine, a changed file or a
// silent agent ends one of them unnoticed, until a server dies.
//
// # The mechanism
//
// [Run] asks all servers at the same time for reports about themselves, and reads the
// map, the log and the ages of snapshots. Then each check compares these facts:
//
//	check        finds                                       cannot see
//	state        partitions without a master                 earlier losses of data
//	members      members that do not serve                   a server that answers, and is slow
//	boot-fence   members that came back without it           the command line, before a restart
//	settings     eviction, stopped writes, broken copies     the machine's: overcommit, huge pages
//	replication  replicas of a wrong master, late, or not    the next link
//	             counted by the map's addresses
//	directory    ways to lose the map or confirm an old one  servers that the URL does not name
//	nodes        two members on one machine, uneven masters  machines behind other names
//	snapshots    none, old or failed ones                    whether a file can be restored
//	versions     replicas older than masters, mixtures       the versions of clients and agents
//	agents       no leader, changes that stand still         agents that wait for their turn
//	clocks       members whose clock differs                 a clock that runs fast
//	tags         tags with two homes, or none; stray keys    tags that were not looked up
//
// The last one takes a sample, or all tags. It reads keys where they are, from masters. A tag
// is sound if the partitions that clients ask lead to the one partition that says the tag is
// there, and no other one has its keys:
//
//	keys of partition 3 ──▶ tag ──▶ its record in 3 ──▶ "3": the records of its owners, the
//	                                      │                  newest first, must lead to 3
//	                                      └───────────▶ "5": no key of it may be in 3
//
// So two homes are found at the one to which the records do not lead, without a list of all
// tags. While a tag is moved or forgotten its records have marks, and it is only counted.
//
// # Guarantees
//
//   - Nothing is written.
//   - A server that does not answer within two seconds is a note of its checks. It delays no
//     other one.
//   - A pass over all keys works at most half of the time, in steps of 1,000 keys.
//
// # The wrinkle
//
// A finding describes one moment. A sample of 1,000 tags finds damage to one tag in a hundred
// almost surely, and to one in a million hardly ever.
//
// Keys that are written to each partition by itself, such as counters over several servers,
// have no record. They are reported only if a tag has the same name.
//
// # When not to use it
//
// To be alerted at once: metrics show states, lags and ages each second.
package check
