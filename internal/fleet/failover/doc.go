// Package failover replaces masters of a fleet that fail, repairs members that come back,
// and carries out changes of members.
//
// # The problem
//
// A replica can replace a dead master. But a dead master looks like one that is slow,
// stopped or partitioned: it may still accept writes when another member is promoted,
// and all that it confirms after that is lost. Redis does not prevent this: a master that
// was stopped and resumes executes all pending commands, whatever min-replicas-to-write
// is.
//
// # The mechanism
//
// The clients of a fleet keep the fence (package fleet): they write only by a map that
// the directory confirmed a moment ago, and a late reply is not a success. So an agent
// that changes the map and waits for the Grace knows that no client writes any more. An
// [Agent] probes all members at an interval:
//
//	         three probes missed, or the
//	         master was restarted                Grace            the map names another
//	healthy ─────────────────────▶ read-only ──────────────▶ ... ───────────────────▶ healthy
//	  ▲   the map says so: epoch+1     ▲     fence all that answer            epoch+1
//	  │                                │     elect, promote                      │
//	  │                                └── nothing to elect: retry               │
//	  └──────── replicas follow, one at a time per node ◀────────────────────────┘
//
// Every server starts boot-fenced: as a replica of an address where no server listens. It
// refuses reads, since its data may be old, or gone. The map has, for each member, the
// run id in which it was last known to have all its data. A member in another run was
// restarted. If it is the master, it is fenced and examined, and elected if no member has
// more data; if it is a replica, it does not count for confirmed writes. Replicas log in
// to their master as a user that agents create for one run, so no replica copies a master
// that came back without its fence.
//
// The election chooses the member with the highest offset in the master's history (its
// replication id), of those that were not restarted. Offsets in other histories mean nothing.
// A restarted member has the data of its disk: the leading agent writes a beat, an epoch and a
// count, into each master every second, and data with the newer beat is newer, in an append-only
// file as in a dump. If the newest data of members that answer is more beats behind the newest
// known beat than Settings.MaxAge, the partition waits until a person has chosen a member ([Restore]).
// The choice may be a file that the member loads first. The map has the replication id that the
// member gets with it, and only a member with that id is elected: so an agent needs to know
// nothing of the file, and a load that was cut off is no election. See decision 039.
//
// One function decides, step (step.go and task.go): it gets the map, the newest reports of all
// members, this agent's actions since the partition has its epoch, and the time, and returns
// one change of the map, one action on a server, or nothing. It has no effect of its own. A
// reconciler executes that, looks at the members again, and asks for the next step. So a killed
// agent leaves nothing half done: the next one decides by the present state, with an epoch of
// its own, and its waits begin again.
//
// Several agents can run. One leads, by a lease in the directory. The lease only avoids
// duplicate work: for safety every change is a compare-and-set on the epoch, so an agent
// that was stopped in the middle fails at its last step.
//
// # Tasks
//
// The map also holds planned changes: a partition's [directory.Task]. Agents make one step
// at a time while the partition is healthy, and each step is one change of the map. So an
// agent can die at any moment, a failover can come between two steps, and the next agent
// goes on.
//
//	 Add                                     Remove
//	  │ follows the master, copies            │ another member leads, if it is the master;
//	  │                                       │ enough others are in step
//	  ▼ has all data                          ▼
//	Replicas ◀──────────────────────────── Leaving   new partition epoch
//	           the election finds that it     │ a Grace; then all replicas that are up
//	           has more than the others       │ have the master's data of then
//	                                          ▼
//	                                        dropped, fenced, without identity
//
// The rule behind it: clients count the replicas of their map for WaitReplicas, so elections
// must count all members that a client may count. Of n replicas that confirm writes by k,
// n-k+1 must answer.
//
//   - A member that joins is in no client's map. Elections ignore it. Once it is in a map,
//     elections need one answer more. If the directory has lost its newest maps, it may have
//     been in one of them: then it counts.
//   - A member that leaves is in older maps. Elections count it, and may elect it: then it is
//     a member again, and its removal starts over. After a Grace no client counts it, except
//     by a call that has blocked since: the new epoch of the partition ends those. The
//     master has all that was confirmed until then. When min(k, n) of the remaining n
//     replicas have that too, each election among them finds a member that has it. If the
//     master was replaced meanwhile, the epoch is another one, and the wait starts over.
//   - A dead member can leave in the same way: its removal needs no answer of it. It is fenced
//     if it answers. Without its identity it is not elected even if the directory returns to
//     an old map.
//   - Masters move by a planned switch, and nothing is lost: the master refuses writes first, by
//     asking for more replicas than there are, and a replica receives all its writes. So no Grace
//     has to pass, and writes wait for a tenth of a second, or until clients have the new map.
//
// Restarts come after that: replicas one by one, the master last, after a switch. A restart
// begins only if each member of the fleet is up, in its run, and in step, and it needs a
// turn of the whole fleet. So a partition lacks one copy at most, and a member that does not
// come back, or dies again with its new version, stops all restarts. The member is shut down
// as its supervisor does it: with save points it saves its data before, and may need no full
// copy after that; without them it comes back empty, and copies. It is done when the map has
// its new run. Last, the member that Task.Master names becomes the master.
//
// A member that has been dead for Settings.ReplaceAfter gets such a task from the leading agent, with a spare that joins: one
// in the fleet at a time. See spare.go.
//
// Partitions that were added are not used until agents have opened them: by then all clients look
// for tags there, all masters have a copy of a map that names them, and no client can place a
// tag by an older one. See growth.go.
//
// The log of the directory has each step, and after a while the reason why a task waits. A task
// can be taken out of the map at any time; a member that is leaving then still leaves.
//
// # Guarantees
//
//   - Writes never succeed on two servers of a partition at the same time.
//   - A write that was confirmed by WaitReplicas is not lost, for as many replicas as
//     Settings.Confirmed says, 1 by default: if too few replicas answer to be sure, the
//     partition stays read-only.
//   - Without WaitReplicas, writes that the elected member had not received are lost.
//   - Read-only ends by itself when a member with the data answers, after any crash.
//   - When all members lose power, the newest of their files leads. Without a person's
//     decision, no data is served that is more than Settings.MaxAge behind.
//   - A member that lost its data is never promoted, and never copied.
//   - All this holds while members join, leave, and are restarted.
//   - The data that a member had on its disk is not served before it was examined.
//   - By a map that is older than one that an agent has seen, or that a member holds, agents
//     change nothing but the map itself: the newest one wins, see package recovery.
//   - An agent that was suspended, or that misses more than half of the members that are up by the
//     map, replaces no master: the fault may be its own. It says so in the log. A person who knows
//     better chooses a member.
//
// # The wrinkle
//
// A task may wait for ever: for a new member that does not answer, for replicas that are
// down, for one that lags by more than a probe's interval. Agents of a build that knows no
// tasks would drop them from the map, so all must be updated before the first one.
//
// Three probes, a Grace and a promotion take some three seconds by the defaults, half of
// it the Grace. A shorter ViewTTL is faster, and more sensitive to pauses of the
// directory.
//
// A member that comes back without its boot fence can be read, and written, until the
// next probe, by programs that do not use the fleet's client. Such writes are lost.
//
// The directory learns the newest beats every ten seconds. If the agent that knew more is
// lost with all members, data may seem up to ten beats newer than it is.
//
// An agent that is partitioned from a master that clients can reach replaces it. Nothing
// is lost by that; writes wait for a moment.
//
// # When not to use it
//
// If a majority should decide: Redis Cluster, or Sentinel, whose failovers lose writes
// that the old master confirmed meanwhile.
package failover
