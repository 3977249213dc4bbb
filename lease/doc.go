// Package lease provides locks with a deadline in Redis: at most one holder at a
// time, for as long as it asked for and no longer, so that a holder that died
// blocks nobody for ever.
//
// # The problem
//
// The usual lock is SET with NX and PX. It has three flaws.
//
//   - It is evicted. A key with a TTL is what every volatile-* policy evicts
//     first, and volatile-ttl takes the shortest first: when memory is full, the
//     locks go, and two holders work at once. Managed services often come with
//     volatile-lru.
//   - Its holder does not know. A process that was paused for longer than the TTL
//     goes on as if nothing had happened.
//   - What it writes then cannot be told from what the next holder writes.
//
// # The mechanism
//
// A lease is a text without a TTL. Its deadline is part of it, and every script
// compares it with the server's clock: a lease whose deadline has come is free,
// whatever is stored. A release gives the key a TTL, and so frees it.
//
//	        Acquire                 Refresh
//	free ────────────▶ held ──────────────────┐
//	 ▲ ▲                │ │ ▲                  │
//	 │ │    Release     │ │ └──────────────────┘
//	 │ └────────────────┘ │ deadline
//	 │                    ▼
//	 │  reaped         expired ───────────▶ held by another,
//	 └─────────────────            Acquire  with a larger fence
//
// Each acquisition has a random token, which the holder shows when it refreshes
// and releases, and a fence, a number that only grows. The fence is the server's
// time in microseconds, or one more than the last fence if that is larger.
//
// The holder counts, too: [Lease.Context] ends at the deadline, counted from
// before the request was sent and less a margin for clocks that run at different
// speeds, and as soon as the server says that the lease is lost. With
// [Options.MaxHold] a goroutine refreshes the lease each third of its time; it
// shrugs off errors until the deadline, and it stops at the cap, because a holder
// that is stuck looks just like one that is busy.
//
// # The index
//
// Names of leases come by the million, and nobody goes round them all. An index in 64
// sorted sets, mr:leases:{S}, has when to look at each: a minute after its holder last
// entered it.
//
//	        acquire, refresh                        held: after its deadline
//	holder ───────────────────▶ index ─ due ─▶ reaper ─────────────▶ index
//	  │      twice a minute       ▲              │ gone, or abandoned: removed
//	  └── released after long ────┘              ▼
//
// A lease that is released within 10 ms never gets there, and one that is taken again and
// again is entered twice a minute, so that the index costs next to nothing. The reaper
// takes what is due in one call, which gives it ten seconds, visits the leases, and puts
// back or removes only those that nobody has entered since.
//
// # What is guaranteed
//
//   - At any time of the server's clock there is at most one holder, and it keeps
//     the lease until its deadline or its release. Memory pressure does not end
//     a lease under noeviction and every volatile-* policy; a server with an
//     allkeys-* policy is refused with [millrace.ErrEvictable], because it can promise
//     nothing. What it may evict is read from INFO, in the background after the
//     first call; if it does not say, a warning is logged.
//   - A lease that expired even once is lost: no refresh brings it back.
//   - Fences grow with each acquisition of a name.
//   - Every call may be repeated after a lost reply: an acquire with the same
//     token adopts what the first one acquired, with the same fence.
//   - When Redis is full, acquiring fails with millrace.ErrFull and changes nothing;
//     refresh, release and the reaping work.
//
// # The wrinkle
//
// A lease cannot stop its holder. Between the deadline and the moment in which a
// paused process notices lies whatever it was about to do. So where two holders
// would do harm, let the resource check the fence: keep the largest seen, refuse
// smaller ones. Without that a lease saves double work, and no more. A machine
// that is suspended may also stop the clock that the local deadline runs by.
//
// The guarantees are those of one server that keeps its data. A failover may
// lose an acquisition that was not replicated yet, and a restart without an
// append-only file may lose them all; then two may hold the lease. The next fence
// is larger still, provided that the new server's clock is not behind the last
// fence: run NTP. The same holds for what a release leaves: the text with its
// fence stays for a minute, by a Redis TTL, since it is no lease any more, and
// after that fences come from the clock alone. So names may come and go without
// leaving garbage. Only an abandoned lease stays; [Locker.ReapJob] removes it a
// minute after its deadline. Until then [List] finds them, too.
//
// Both know leases from an index, which holders write in the background: a holder that
// is killed within some 20 ms of acquiring may leave a lease that is not there. It is
// entered when anybody finds it held, and by `millrace doctor --scan`; otherwise it stays
// until somebody takes that name.
//
// A lease remembers up to 64 processes that wait for it, and a release tells all of them.
// Each wakes one of its waiters, and all that wait for what the holder makes
// ([Options].Unless). A process waits for all of its leases over one connection. Who is
// not woken looks again each second or at the holder's deadline. Waiters are not served in
// order.
//
// # When not to use it
//
// When the work can be made idempotent, or the resource can compare and set by
// itself, it needs no lock. For handing out many pieces of work use a queue. What a
// few may hold at once is as many leases, see the example of Acquire. A lease that
// must survive the loss of the server needs a quorum, which is not built here.
package lease
