// Package policy knows what the servers may evict.
//
// # The problem
//
// Some structures promise that what they hold stays until its time. They keep
// it under keys without a Redis TTL, which no volatile-* policy touches. Under an
// allkeys-* policy a server that runs out of memory evicts any key, and such a
// promise is a lie. The policy may change while a program runs. So each call that
// makes a promise must know it, at no cost, and though one of the servers hangs.
//
// # The mechanism
//
// A [Watch] keeps a state for each node, from the last answer that the node gave. The
// verdict is the worst state of all: what is promised may come to lie on any node.
//
//	unknown     no answer yet
//	safe        a replica, no memory limit, noeviction, volatile-*
//	unsaid      it answers, and does not say: logged as a warning
//	evictable   allkeys-*: calls are refused
//
// With [Config.Volatile] keys with a TTL are at stake as well, and volatile-* counts
// as evictable.
//
// A refresh probes all nodes at the same time: it asks for ROLE, and masters for INFO
// memory. It does not use CONFIG, which managed services deny. It runs in the
// background, one at a time, and only while calls come, since nobody closes a
// structure:
//
//	         ┌─ there is none, or it is two minutes old ──▶ refresh, and wait for it
//	verdict ─┼─ it is a minute old ───────────────────────▶ refresh, and go by the old one
//	         └─ it is fresh ──────────────────────────────▶ go by it
//
// A call that waits does so for half a second at most, and not for a node that was
// silent the last time. While calls come, none but the first waits.
//
// A node that is silent keeps its state. A probe of it ends after 10 seconds, and
// begins again after a pause that doubles from one second to 15. A refresh takes the
// nodes that the client knows by then: new ones are probed, and those that have left
// are forgotten.
//
// # The wrinkle
//
// Between two refreshes a policy may change and take what was promised: the verdict
// refuses new promises, it does not keep old ones.
//
// A node that does not say is taken for safe, and so is one that has never answered:
// a call that needs it learns of the trouble by itself, and others must not suffer.
// When such a node answers again, calls may reach it before its answer to the probe
// counts: for a moment if a probe waits for it already, for 15 seconds at most if not.
package policy
