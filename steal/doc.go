// Package steal has upkeep done by the idle moments of the workers that a
// program has anyway, instead of by a daemon.
//
// # The problem
//
// Every structure leaves something to tidy: fields that expired, messages whose
// reader died, marks whose rest is over. The usual answer is a janitor, a
// process of its own or a cron job. It has to be deployed and watched, it is one
// more thing that can be down, it works in bursts, and its strength does not
// follow the load: the program that makes ten times the garbage has the same
// janitor as before.
//
// The workers that make the garbage are many, are watched already, and grow with
// the load. And they have moments in which nobody would miss them: a read that
// found nothing, a hit in a cache. So let a few of those moments do the upkeep.
//
// # The mechanism
//
// A [Job] is cut into slices: small, bounded pieces of work that need to know
// nothing of each other. [Recruiter.Install] gives a job a rate, its chance at
// each moment: 0.003 is three moments in a thousand. [Recruiter.SetRate] changes it
// and [Recruiter.Remove] takes the job away while all is at work. Code that has a moment to
// spare calls [Recruiter.Enlist], which draws one random number. Nearly always
// nothing is drawn and the call has cost nanoseconds. Otherwise one job is drawn,
// and the caller is recruited to run one slice of it there and then.
//
//	        Enlist ──▶ draw ──▶ dismissed: nothing happens, nothing is counted
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
// How much is needed follows from arithmetic. With T moments a second, rate r and
// k items a slice, the upkeep does up to rTk items a second, and at half of that
// the next slice is about 1/(rT) seconds away. Repeating a slice that came back
// full, up to 20 times, takes care of bursts. Let the slices of a job take what is
// due longest, from an index: those that pick a victim at random need as many
// times the rate as there are victims, and never catch up with one that makes
// more than its share.
//
// Chance has no memory, so a job that is drawn every 10 s on average waits over a
// minute once in a thousand times, and at night, without traffic, it waits for
// ever. Therefore [Recruiter.Run] is a floor: a job that has not run for
// [Config.Floor] is run without any draw.
//
// # What is guaranteed
//
//   - An enlistment is one draw, and the draw is half-open: a job of rate 0 is
//     never drawn, one of rate 1 always is, and no job shadows another.
//   - A dismissed enlistment takes nanoseconds, allocates nothing, and writes no
//     counter that processors contend for.
//   - A recruit gets a context that ends after [Config.Budget], or when the
//     caller's does. Nothing is tried again.
//   - The caller never learns of a slice that fails: errors, timeouts and panics
//     are counted, logged at most once every 10 s a job and kind, and swallowed.
//     Nor does it learn of a hook that panics.
//   - A process runs at most [Config.PerJob] slices of a job and
//     [Config.PerProcess] slices in all at once. A recruit beyond that is
//     dismissed as busy and does not queue.
//   - What a slice does enlists nobody: upkeep does not recruit for upkeep.
//   - A job that fails five times in a row is left alone for 1 s, then 2 s, up
//     to 30 s. One slice that goes well ends that.
//   - recruited = worked + idle + aborted, in every [Stats].
//
// # After the response
//
// A slice that runs inside of an HTTP handler makes one client in a few hundred
// wait for the upkeep of all. [Middleware] moves it behind the response. It
// cannot simply run the slice after the wrapped handler: net/http sends what is
// left of a response, and the end of a chunked one, only when the outermost
// handler has returned. Flushing before would turn every small response into a
// chunked one, and hijacking would end the connection's reuse. So the middleware
// draws once when the handler has returned, and a draw that recruits starts a
// goroutine, whose context keeps the request's values and not its end. One is
// started only when a slot is free, so there are never more goroutines than slots,
// and [Recruiter.Close] waits for them.
//
// However often a request enlists on the way, it is one moment. Otherwise the
// page with a thousand cache hits would be recruited every time.
//
// # The wrinkle
//
// The budget is a context. A slice that does not look at it keeps its caller, or
// its goroutine, for as long as it likes, and so do clients that retry by
// themselves. A floor run that hangs holds up the floor of all jobs.
//
// Slices of one job run in many processes at once. A job that must be alone
// takes a lock, and a miss is not worth waiting for: report it as an error or as
// idle, whichever is to be counted.
//
// Rates are about moments, and moments are what callers say they are. Enlist
// where work ended early, not where it is in full swing.
//
// # When not to use it
//
// When something has to happen at a certain time, use a timer: this package
// makes upkeep likely and, with the floor, certain, but never punctual. When one
// unit of work takes long and cannot be cut, use a queue. And nothing may be
// wrong while upkeep is late: what is due must be invisible to readers before it
// is removed.
package steal
