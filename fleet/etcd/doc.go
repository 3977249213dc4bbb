// Package etcd keeps the map of a fleet in etcd.
//
// # The problem
//
// The map says which server is the master of a partition. If two clients follow different
// maps at the same time, data is lost. One Redis keeps the map safely, but without it the fleet
// is read-only, and a second one would lack the newest maps: Redis replicates asynchronously.
//
// # The mechanism
//
// etcd agrees on each change by a majority of its members before it answers. Package directory
// says which values a fleet has; those of the fleet NAME are keys below millrace/NAME/.
//
// A put compares the revision of a key and puts all values, in one transaction. A present read is
// linearizable: the member that is asked makes sure that a majority still follows the same leader,
// and that it has applied all that was committed when it was asked. So a member that was cut off
// confirms nothing. A confirmation reads one small key.
//
// Each member has a connection of its own. A call goes to the member that answered last;
// if that does not answer within 100 ms, the next one is asked as well.
//
// A name that is held is a key below hold/ with a lease of etcd, which ends by etcd's clock.
//
// # Guarantees
//
//   - After a change has succeeded, no confirmation that begins later confirms the former
//     map, whichever members are killed, frozen or cut off.
//   - Of two changes of the same map one succeeds, and the other is a conflict. A change
//     whose reply was lost is recognized when it is repeated.
//   - A successful change is not lost as long as a majority of the members keep their data.
//
// They need etcd 3.4.42, 3.5.28 or 3.6.9 or later: older ones may answer a linearizable read
// with old data. A fleet is not created on those.
//
// # The wrinkle
//
// While etcd elects a leader nothing is confirmed: one to two seconds with its default
// election timeout of a second. So Settings.ViewTTL should be at least 3 seconds, or the
// fleet is read-only for a moment whenever etcd changes its leader.
//
// A lease of etcd lasts whole seconds, at least 1.5 election timeouts. etcd has no clock
// that clients can read, so the times of events and snapshots are those of the agents that
// wrote them: keep their clocks in step, by NTP for example. No decision about the map
// depends on them.
//
// # When not to use it
//
// For development, and for small fleets that may be read-only while one server is away:
// docs/FLEET.md compares the two directories.
package etcd
