// Package steal runs upkeep in idle moments of a program's existing workers, instead of in a
// daemon.
//
// # The problem
//
// Every structure needs upkeep: fields that expired, messages whose reader died, parked marks that
// are due. The usual solution is a process of its own or a cron job. It must be deployed and
// watched, it may be down, it works in bursts, and its capacity does not follow the load.
//
// The workers that make the garbage are many, are watched already, and grow with the load. And
// they have idle moments: a read that found nothing, a hit in a cache. A few of those moments
// suffice for the upkeep. Jim Nelson of the Internet Archive named it work stealing: a web worker
// with a hit is recruited, does a small slice, and leaves the rest to the next recruit.
//
// # The mechanism
//
// A [millrace.Job] is divided into slices: small, bounded, independent pieces of work.
// [Recruiter.Install] gives a job a rate, its probability at each moment: 0.003 is three moments
// in a thousand. [Recruiter.SetRate] changes it and [Recruiter.Remove] removes the job at any
// time. Code with an idle moment calls [Recruiter.Enlist], which draws one random number. Nearly
// always no job is drawn, and the call has cost nanoseconds. Otherwise the caller is recruited: it
// runs one slice of the drawn job.
//
//	        Enlist ──▶ draw ──▶ dismissed: no work, no count
//	                    │
//	                    ▼ drawn
//	Run ─────────▶ recruited ──┬─ the breaker is open ──▶ aborted{breaker}
//	  a job has not            ├─ no slot is free ──────▶ aborted{busy}
//	  run for Floor            ▼
//	                  ┌────▶ slice ────┬─ fails ─────────▶ aborted{error, timeout, panic}
//	                  │        │       ├─ finds nothing ─▶ idle
//	                  └────────┘       └─ finds work ────▶ worked
//	             full, and time is left
//
// With T moments a second, rate r and k items a slice, the upkeep does up to rTk items a second,
// and at half of that the next slice is about 1/(rT) seconds away. A slice that returns full is
// repeated up to 20 times, for bursts. Slices should take the longest due items from an index.
// Slices that pick a victim at random need a multiple of the rate, and never catch up with a
// victim that makes more than its share of garbage.
//
// A job that is drawn every 10 s on average waits over a minute once in a thousand times, and
// without traffic forever. So [Recruiter.Run] is a floor: it runs a job that has not run for
// [Config.Floor].
//
// # Guarantees
//
//   - An enlistment is one draw. A job of rate 0 is never drawn, one of rate 1 always, and no job
//     hides another.
//   - A dismissed enlistment takes nanoseconds, allocates nothing, and writes no counter that
//     processors contend for.
//   - A recruit gets a context that ends after [Config.Budget], or with the caller's. Nothing is
//     retried.
//   - The caller gets no errors of slices: errors, timeouts and panics are counted, and logged at
//     most once every 10 s for each job and kind. Panics of hooks are recovered.
//   - A process runs at most [Config.PerJob] slices of a job and [Config.PerProcess] slices in all
//     at once. Further recruits are dismissed as busy and do not queue. A slice that takes more than
//     twice the budget hangs: it no longer counts in the process, but in its job, and [JobStats]
//     shows it. So jobs that hang stop only themselves, and their goroutines are bounded.
//     [Recruiter.Run] logs them.
//   - Enlistments within a slice do nothing.
//   - A job that fails five times in a row pauses for 1 s, then 2 s, up to 30 s. A successful slice
//     ends that.
//   - recruited = worked + idle + aborted, in every [Stats].
//
// # After the response
//
// A slice within an HTTP handler delays the response of one client in a few hundred. [Middleware]
// runs it after the response. It cannot simply run the slice after the wrapped handler: net/http
// sends the rest of a response, and the end of a chunked one, only when the outermost handler has
// returned. Flushing before would make every small response chunked, and hijacking would end the
// connection. So the middleware draws once when the handler has returned, and a recruit runs in a
// goroutine, whose context has the request's values but not its end. It starts one only if a slot
// is free, so slots limit their number, and [Recruiter.Close] waits for them.
//
// All enlistments of a request are one moment. Otherwise a page with a thousand cache hits would
// always be recruited.
//
// # The wrinkle
//
// The budget is a context. A slice that ignores it keeps its caller, or its goroutine, as long as
// it likes, and so do clients that retry by themselves. Its job does not run meanwhile.
//
// Slices of one job run in many processes at once. A job that must be alone takes a lock without
// waiting, and returns an error or idle if it does not get it.
//
// Rates count moments as callers define them. Enlist where work ended early, not where it is
// urgent.
//
// # When not to use it
//
// When something must happen at a certain time, use a timer: this package makes upkeep certain,
// not punctual. When one unit of work is long and cannot be divided, use a queue. And late upkeep
// must not be visible: readers must not see due items before they are removed.
package steal
