// Package settings changes the settings of a fleet that is in use.
//
// # The problem
//
// The settings are promises between processes that do not talk to each other. A client that
// may write for three seconds is safe only beside agents that wait for three seconds. After a
// change some use the old map and some the new one, in either direction one of them is wrong:
//
//	ViewTTL, ReplyTimeout, PlacementTTL   longer: clients may do more than old waits allow for
//	                                      shorter: agents wait less than old clients may do
//	Confirmed                             more: elections rely on copies that earlier writes
//	                                      do not have
//
// # The mechanism
//
// [Change] publishes two maps. Between them both settings are in force, and everybody keeps
// to the stricter of the two (Map.Permissions, Map.Waits in package directory):
//
//	map 0     present                clients: present         agents: present
//	announce  present, next          clients: the shorter     agents: the longer times
//	   │                             writers: more replicas   elections: fewer
//	   │      wait, see below
//	complete  next                   clients: next            agents: next
//
// The wait has up to three parts:
//
//   - The Grace of both settings, and after a failover of the directory its SettleTime: then
//     no client acts by map 0, and no write that began by it can succeed.
//   - PlacementTTL, if it becomes shorter: then no client remembers a place by map 0. Also if
//     ReplyTimeout becomes longer: who forgets or moves tags by map 0 waits for one last write
//     to a remembered place, and by then that has been.
//   - If Confirmed grows to k: until k replicas of each partition, or all if there are fewer,
//     have all that was written before. The map of complete has the same replicas: one that
//     joins meanwhile may lag. So may one that leaves, and elections count it until then.
//
// # Why that is safe
//
// An agent acts by the map that it published, or read after all that it waits for had begun.
// Call that map W, and the map by which a client acts C.
//
// A client's time: if C is W or one of the same settings, they agree. If C is map 0 and W the
// announcement, W has the longer time. C cannot be map 0 when W is complete, by the wait. If C
// is the announcement, it has the shorter time, and no W has less. If C is complete and W map
// 0, then what W waits for began while map 0 could still be used, which is before complete was
// published, and so before C permitted anything. The same holds from one change to the next.
//
// An election: writers that wait for fewer than k replicas are refused from the announcement
// on. What they had confirmed before is on k replicas by the time of complete, like all that
// is confirmed later; and only by complete elections rely on k. If Confirmed becomes less,
// elections are stricter from the announcement on, and writers may wait for less from complete
// on.
//
// MaxTags and MaxFill are no promises: each client may use its own.
//
// TestHistories computes all of this for random changes, changes that are cut off, taken back
// or followed by others at once, and shows what goes wrong without each part of the wait.
//
// # Guarantees
//
//   - The promises of package fleet hold before, during and after a change.
//   - A change that was cut off is finished by the same call, or by an agent ([Finish]). Until
//     then the stricter of both settings are in force.
//   - A change can be taken back at any time before it is complete.
//
// # The wrinkle
//
// A higher Confirmed waits for replicas that are down. Meanwhile clients with a smaller
// WaitReplicas, other than 0, have errors.
//
// Processes of a version before this one do not know announcements: update them first.
package settings
