// Package grow creates fleets and adds partitions to them.
//
// # The problem
//
// Clients must agree on where a new tag belongs while the ring changes under them, servers that
// do not come back fenced from a restart must not become members, and the command may die at any
// step.
//
// # The mechanism
//
// [Init] and [Add] examine the servers, prove the boot fence of each by one restart, and set them
// up as masters and replicas. Then Add announces the partitions in the map. From there on agents
// (package failover) do the rest, and Add only watches:
//
//	look-up   clients look for tags in the new partitions, and place none there
//	   │      until no client uses an older map, and all masters have a copy of a map that
//	   │      names the new partitions
//	open      the old masters refuse to place tags for older maps; new tags may go to the
//	          new partitions
//
// A call that was cut off before that can be repeated: it finds its own changes and goes on.
//
// # Guarantees
//
//   - Adding moves no data, and stops only the placing of new tags, for some milliseconds.
//   - A tag has one place, whatever map its writers know.
//   - A server that has data, or is a member of another fleet, is refused unchanged.
package grow
