// Package shrink removes partitions from fleets.
//
// # The problem
//
// A partition without tags is still needed: it owns a part of the ring, so clients place and
// forward new tags by its records, and its records say where tags are that were moved away.
// Clients must agree on the new owners while the ring changes under them, every record must be
// found by its next owner, and the command may die at any step.
//
// # The mechanism
//
// [Remove] takes the partition with the highest number, N, closed and without tags. It is the
// reverse of adding one (package grow), in four maps:
//
//	yielding   reads also look for tags at O, the owner without N; writes as before
//	   │       wait until no client uses an older map; raise the floor on all masters
//	yielded    all look at N, then at O; new tags are placed at O
//	   │       wait until no client places by N
//	   │       move away what came to N meanwhile; hand the records of N over to O, and make
//	   │       records elsewhere that name N name what N's say (rebalance.HandOver)
//	removed    N has no points: nobody looks there
//	   │       wait until no client uses N; clear its servers, and fence them
//	 (gone)    the map has one partition less
//
// Each step can be repeated, and is decided by the phase in the map. [Finish], which agents
// call, completes a removal that was cut off.
//
// # Why that is safe
//
// N is of the newest generation, so where it is a candidate it is the first one. Each tag that
// was created since N is on the ring has its record there, and any other has none.
//
// While some use the map before yielding or yielding, and others yielded, the floor keeps the
// former from placing: masters refuse them. So a tag is created at N before, or at O after, and
// all who may create look at N first. What N has wins over what O has: O may have an old record
// of a tag that was forgotten and created again. That is why writes do not ask O before yielded,
// and why the handover replaces such a record.
//
// While some use yielded and others removed, O has a record of each tag that N had, and N has
// none any more: both find the same.
//
// Without a record at N, an old record at O leads along the moves of the tag to where it is, or,
// if it was forgotten, to where all place it again.
//
// # Guarantees
//
//   - A tag has one place at any time, and is found by every client that may act.
//   - Reads go on. Placing new tags stops for some milliseconds, and so do the writers of a tag
//     while its record is handed over.
//   - A partition with tags, or with keys that belong to none, is refused unchanged.
//
// # The wrinkle
//
// It takes one pass over the keys of all partitions: records elsewhere may name N. Only the
// highest number can be removed, because numbers are places in a list for all who use the map
// (docs/decisions). Members can be moved between machines, so which number goes does not matter
// for machines.
//
// A later partition gets the number again. Archived snapshots of both have it.
package shrink
