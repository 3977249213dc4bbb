// Package policy knows what the servers may evict.
//
// # The problem
//
// Some structures promise that what they hold stays until its time. They keep
// it under keys without a Redis TTL, which no volatile-* policy touches. Under an
// allkeys-* policy a server that runs out of memory evicts any key, and such a
// promise is a lie. The policy may change while a program runs.
//
// # The mechanism
//
//	unknown yet ──▶ well ◀──▶ evictable      each change is logged once
//	     │            ▲            ▲
//	     └────────────┴─▶ silent ◀─┘          the server does not say
//
// A [Watch] reads INFO memory of every server, and not CONFIG, which managed
// services deny. Its verdict holds for a minute; while one goroutine asks, the
// others wait for what it learns.
//
// # The wrinkle
//
// Between two looks a policy may change and take what was promised: the verdict
// refuses new promises, it does not keep old ones. A server that does not say is
// taken for well, with a warning. One that does not answer leaves no verdict: the
// call that wanted one learns of the trouble by itself.
package policy
