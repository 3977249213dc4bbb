// Package agent runs an agent of a fleet in a program of yours, as the command millrace fleet
// agent does.
//
// # The problem
//
// A fleet (package fleet) serves without agents, but nothing is repaired: a master that is
// lost is not replaced, a server that was restarted stays fenced, a move of tags that was cut
// off stays half done. So agents must run somewhere, for as long as the fleet is in use. The
// command needs a process, a supervisor and a deployment of its own. A program that runs on
// several machines already can do the work beside its own.
//
// # The mechanism
//
// [Run] opens the directory of a fleet that the program has opened, and works until its
// context ends. It has four tasks:
//
//	probes      every Interval: each member. Replaces masters that are lost, makes members
//	            that are back replicas again, carries out pending changes
//	moves       every 5 s: completes moves of tags whose command died
//	losses      every 5 s: finds the tags of a partition that went back in time, and marks
//	            them in the Ick that the fleet's setting restored-ick names
//	snapshots   with SnapshotInterval: the oldest first, one at a time on a node
//
// Any number of agents can run. For probes one of them leads, by a lease in the directory,
// and another one leads within six intervals when it dies, or at once when its Run ends. For
// the other tasks agents take turns, by the directory, too.
//
// An agent keeps nothing on disk, and nothing in memory that another one needs. All pending
// work is in the directory and on the members, so an agent may be killed at any time.
//
// # Guarantees
//
//   - Agents never let writes succeed on two servers of a partition, however many of them
//     run, are suspended or cut off. The lease only avoids double work: each change of the
//     map is a compare-and-set.
//   - Run ends by itself only before it has begun: its Config is wrong, or the directory has
//     no fleet that this version knows. While the directory or members do not answer it
//     tries again.
//   - The Fleet of the program is used only to find the directory. Its WaitReplicas, its
//     caches and its reads have no effect on the agent, and the agent none on them.
//
// docs/GUARANTEES.md has the promises of failovers, moves, restored partitions and snapshots.
//
// # The wrinkle
//
// An agent that shares a process with your program shares its pauses. If the process is
// suspended, or too busy to probe for two seconds, the agent does nothing for ten intervals,
// and another one may lead by then. So use a machine with CPU to spare, and run agents on at
// least two. A deploy that restarts all processes at once leaves the fleet without an agent
// for that long.
//
// An agent needs more rights on members than other clients: docs/SECURITY.md lists them.
//
// When the context ends during a move of tags, Run needs a second or two until the writers of
// these tags go on. Wait for it before the process exits.
//
// # When not to use it
//
// Where one more process does no harm, run the command: it is restarted alone, its log is its
// own, and its version does not depend on that of your program. A program that lives for
// seconds is no place for an agent.
package agent
