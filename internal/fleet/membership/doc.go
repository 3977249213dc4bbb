// Package membership changes the servers of a fleet that is in use: it adds, removes and
// moves replicas, replaces and drains nodes, and restarts members.
//
// # The problem
//
// Machines get old, and versions too. Each change of one member is short, but a node has
// dozens, a copy of each takes minutes, and the command that began may die. A change must not
// stay half done. And no step may leave a partition with fewer copies than writers
// count on, or all masters on the machines that were touched last.
//
// # The mechanism
//
// A [Request] is an operator's wish. [Make] turns it into a [Plan], which has a
// directory.Task for each partition concerned, and asks no server. [Publish] stores all
// tasks in one change of the map. From then on agents (package failover) carry them out,
// one step of a partition at a time:
//
//	command                      map                       agents
//	  │ Make, Examine, ask        │                           │
//	  │ Prove: restart new ones   │                           │
//	  │ Publish ────────────────▶ │ tasks of all partitions   │
//	  │                           │ ────────────────────────▶ │ the new member copies
//	  │ Wait ◀─ progress ──────── │ ◀─────────────────────────│ it is a replica
//	  │                           │ ◀─────────────────────────│ masters are switched
//	  │                           │ ◀─────────────────────────│ the old member leaves
//	  │ done ◀──────────────────  │ ◀─────────────────────────│ the task is gone
//
// [Config.Wait] runs Config.Agent, so that no other agent is needed. A command that was
// killed has lost nothing: agents continue, and the same request finds its tasks, by its
// [ID], and waits for them. [Cancel] drops the remaining tasks of a plan.
//
// The planner keeps masters even. For a node that is replaced or drained it chooses the
// master of each partition such that no two nodes differ by more than one, if the members
// that there are allow that, and with few switches (package plan).
//
// # Guarantees
//
//   - A partition never has two members on one machine, where it had none before.
//   - A partition keeps as many replicas as Settings.Confirmed, unless the request forces it.
//   - A member leaves when others have all its data, and a master when another one leads.
//   - A restart begins when all members are whole, so that one copy is away at most.
//   - No server is changed before the request was planned, and found to be possible.
//   - Either all partitions of a request have a task, or none has.
//
// # The wrinkle
//
// A plan is made for the map at that moment. If that changes before Publish such that the
// plan would be another one, Publish refuses it: the operator agreed to something else.
//
// A request that has been done cannot be told from one that was never made. So a repeated
// one has nothing to do, or finds no such member, or, for [Restart], restarts members once
// more.
//
// A plan waits for a member that it needs, for as long as that is away. Then Cancel it.
//
// # When not to use it
//
// To make room for more data add partitions (package grow). To move tags from one
// partition to another use package rebalance.
package membership
