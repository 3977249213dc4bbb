// Package policy knows which servers may evict keys.
//
// # The problem
//
// Some structures promise to keep their data. They keep it under keys without a Redis TTL,
// which no volatile-* policy evicts. Under an allkeys-* policy a full server evicts any key,
// and the promise breaks. The policy may change while a program runs. So each call that makes
// such a promise must know the policy, at no cost, even if a server hangs.
//
// # The mechanism
//
// A [Watch] keeps a state for each node, from the node's last answer. The verdict is the
// worst state of all, since data may come to lie on any node.
//
//	unknown     no answer yet
//	safe        a replica, no memory limit, noeviction, volatile-*
//	unsaid      its answer does not contain the policy: logged as a warning
//	evictable   allkeys-*: calls are refused
//
// With [Config.Volatile] keys with a TTL are at risk as well, and volatile-* is evictable.
//
// A refresh probes all nodes at the same time with ROLE, and masters with INFO memory. It
// does not use CONFIG, which managed services deny. Refreshes run in the background, one at
// a time, and only while calls come, since structures are never closed:
//
//	         ┌─ missing, or two minutes old ─▶ refresh, and wait for it
//	verdict ─┼─ a minute old ────────────────▶ refresh, and use the old one
//	         └─ fresh ───────────────────────▶ use it
//
// A call waits at most half a second, and not for a node that was silent the last time.
// While calls come, only the first one waits.
//
// A silent node keeps its state. A probe ends after 10 seconds, and begins again after a
// pause that doubles from one second to 15. A refresh probes new nodes and forgets removed
// ones.
//
// # The wrinkle
//
// Between two refreshes a policy may change and evict data: the verdict refuses new
// promises, it does not keep old ones.
//
// Nodes that are unsaid or have never answered count as safe: a call that needs such a node
// fails by itself, and other calls must not. When such a node answers again, calls may reach
// it before its probe counts, for 15 seconds at most.
package policy
