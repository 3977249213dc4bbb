// Package lease provides locks with a deadline in Redis: at most one holder at a time, and
// only until its deadline, so that a dead holder does not block the others forever.
//
// # The problem
//
// The usual lock is SET with NX and PX. It has three flaws.
//
//   - It can be evicted. Every volatile-* policy evicts keys with a TTL first, and
//     volatile-ttl the shortest first: when memory is full, two holders work at once.
//     Managed services often use volatile-lru.
//   - The holder does not notice the end. A process that was paused for longer than the TTL
//     continues as if nothing had happened.
//   - The resource cannot distinguish its late writes from those of the next holder.
//
// # The mechanism
//
// A lease is a string without a TTL. It contains the deadline, and every script compares
// the deadline with the server's clock: an expired lease is free, whatever is stored. A
// release gives the key a TTL, which marks it as free.
//
//	        Acquire                 Refresh
//	free ────────────▶ held ──────────────────┐
//	 ▲ ▲                │ │ ▲                  │
//	 │ │    Release     │ │ └──────────────────┘
//	 │ └────────────────┘ │ deadline
//	 │                    ▼
//	 │  reaped         expired ───────────▶ held by another holder,
//	 └─────────────────            Acquire  with a larger fence
//
// Each acquisition has a random token, which authorizes refresh and release, and a fence: the
// server's time in microseconds, or the last fence plus one if that is larger. The server keeps the
// last fence until a minute after the release or the deadline, and at least until its clock has
// passed the fence.
//
// The holder counts, too: [Lease.Context] ends at the deadline, counted from before the
// request was sent and less a margin for clock drift, and as soon as the server reports
// that the lease is lost. With [AcquireConfig.MaxHold] a watchdog refreshes the lease after
// each third of its TTL. It ignores errors until the deadline and stops at MaxHold, because
// a stuck holder looks just like a busy one.
//
// Abandoned leases are found through an index: 64 sorted sets, mr:leases:{S}, with the time
// to visit each name.
//
//	        acquire, refresh                        held: after its deadline
//	holder ───────────────────▶ index ─ due ─▶ reaper ─────────────▶ index
//	  │      twice a minute       ▲              │ gone or abandoned: removed
//	  └── release after 10 ms ────┘              ▼
//
// A process enters a name at most twice a minute, and not at all if it is released within 10 ms.
// The reaper ([Jobs]) claims the due names of a shard for ten seconds, visits them, and moves or
// removes the entries that no holder has changed since.
//
// # Once in a period
//
// [Locker.Once] is for work that each of several replicas starts and one must do in each period: a
// nightly report. It runs under a lease. A success does not release the lease, but keeps it until
// the period ends, with a metadata that says so:
//
//	       Once                     success
//	free ────────▶ held, running ─────────────▶ held, done ───▶ free
//	 ▲                   │                             period ends
//	 └───────────────────┘
//	   failure, deadline
//
// The lease is renewed until the end of the next period, and for an hour at least, unless
// [Config.MaxHold] is set: work may take a whole period, and work that hangs blocks the others no
// longer than that.
//
// The record of a success is thus a lease: no policy evicts it, the server's clock ends it, and the
// reaper removes it.
//
// # Guarantees
//
//   - At any time of the server's clock there is at most one holder, and it keeps the lease
//     until its deadline or its release. Memory pressure does not end a lease under
//     noeviction and every volatile-* policy. A server with an allkeys-* policy is refused
//     with millrace.ErrEvictable. The policy comes from INFO, refreshed in the background; if the
//     server does not report it, a warning is logged.
//   - A lease that expired even once is lost: no refresh restores it.
//   - When the server's clock is set back, a holder keeps its lease, and a lease whose deadline
//     the clock wrote while it was ahead ends after its TTL: a lease has the time of its last
//     write in it, and the first caller that finds that in the future moves the deadline.
//   - A fence is larger than all before it of that name, also if the clock was set back, as long as
//     the server has the last one. Afterwards the next fence is the clock alone: it is larger than
//     those that were given before the moment that the clock shows.
//   - A period of [Locker.Once] gets at least one success if calls go on, and never a second one
//     that was stored: a process that lost its lease cannot store its success.
//   - Every call may be repeated after a lost reply: an acquire with the same token adopts
//     the first acquisition, with the same fence.
//   - When Redis is full, acquiring fails with millrace.ErrFull and changes nothing;
//     refresh, release and the reaper work.
//
// # The wrinkle
//
// A lease cannot stop its holder: a paused process may act after the deadline, before it
// notices. Where two holders would do harm, the resource must check the fence: keep the
// largest, refuse smaller ones. Without that a lease only saves double work. A suspended
// machine may also stop the clock of the local deadline.
//
// The guarantees are those of one server that keeps its data. A failover may lose an
// acquisition that was not replicated yet, and a restart without an append-only file may
// lose all of them; then two may hold the lease. A server that has lost the last fence of a name,
// or removed it, gives its clock as the next one. If that clock is behind by more than the time
// since the last acquisition of the name, the fence is smaller than the last one, and may equal an
// earlier one. This can happen after such a failover or restart, after the clock was set back when
// the last fence was gone, and after an eviction: a released lease has a Redis TTL, so names leave
// no garbage. Run NTP, and let a failover take longer than clocks differ. No record of the highest
// fence would help: the failover loses it, too. An abandoned lease has no TTL; the reaper removes
// it.
//
// The function of [Locker.Once] may run again after it succeeded, if its process died or lost the
// lease before the success was stored, or if the server lost the record. It should therefore use the
// fence, or do no harm when repeated.
//
// [List] and the reaper know only leases in the index, which holders write in the
// background. A holder killed within some 20 ms of acquiring may leave a lease outside the
// index, until another caller finds it held, `millrace doctor --scan` finds it, or the name
// is acquired again.
//
// A lease records up to 64 waiting processes, and a release notifies all of them. Each wakes one of
// its waiters, and all that use [AcquireConfig.Unless]. A process waits for all of its leases over
// one connection. Other waiters ask again each second and at the holder's deadline. Waiters are not
// served in order.
//
// # When not to use it
//
// Work that can be made idempotent, or a resource that can compare and set, needs no lock.
// To hand out many pieces of work use a queue. For N holders at once use N leases, see the
// example of Acquire. A lease that must survive the loss of the server needs a quorum,
// which is not built here.
package lease
