// Package millracetest is for tests of programs that use Millrace: a Redis for each test, a clock
// that a test moves, runs that handle all messages and return, and checks with readable failures.
//
// # The problem
//
// A test of a handler starts a Redis, writes, consumes in the background, waits until it is
// probably over, and looks at the rest. Such a test is slow, and fails on a busy machine. A
// retry comes after seconds, a lease ends after minutes.
//
// # The mechanism
//
// [Start] gives a test a Redis of its own, a real server if one is installed and otherwise
// miniredis, an imitation inside the process. [RunUntilEmpty] runs a real consumer until nothing is
// left to do. Time in Millrace is the server's, so [Server.Advance] moves it for all.
//
//	Start ──▶ Server.Client ──▶ your program
//	            │                  │ writes
//	            │ Advance          ▼
//	            └──────────────▶ queue ──▶ RunUntilEmpty(handler) ──▶ Result
//	                               └─────▶ WantCounts, WantMessage
//
// # A test of a producer
//
// Call it, and look at the queue. WantMessage returns the message for checks of your own:
//
//	s := millracetest.Start(t, millracetest.Any)
//	shop := newShop(s.Client)
//	shop.order(t.Context(), "acme", "nuts")
//	msg := millracetest.WantMessage(t, shop.queue, millracetest.Match{Tenant: "acme", Body: order{Item: "nuts"}})
//
// # A test of a handler
//
// Write the messages that it should get, and let it run:
//
//	got := millracetest.RunUntilEmpty(t, queue, shop.handle, millracetest.RunConfig{})
//	if len(got.Handled) != 1 { ... }
//	millracetest.WantCounts(t, queue, millracetest.Counts{}) // nothing is left
//
// # A test of a retry
//
// Retries come later. With Within the run goes on to them; with a [Mini] it takes no time, because
// the run moves the clock:
//
//	s := millracetest.Start(t, millracetest.Mini)
//	got := millracetest.RunUntilEmpty(t, queue, alwaysFails, millracetest.RunConfig{Within: time.Hour, Clock: s})
//	// len(got.Failed) is the attempts, and got.Dead[0].Reason says why
//
// # A test of a schedule
//
// A run of a day handles the messages of all ticks of that day, in no time:
//
//	err := queue.Schedules().Set(ctx, fairqueue.Schedule{Name: "report", Spec: nightly, Draft: draft})
//	got := millracetest.RunUntilEmpty(t, queue, makeReport, millracetest.RunConfig{Within: 24 * time.Hour, Clock: s})
//
// # A test of an Ick
//
// [RunUntilClean] does the same for an Ick or a channel, and [WantDirty] compares the dirty members.
//
// # A test of a lease
//
// [WantHeld] and [WantFree] look at it. To see another process take over, advance the clock past
// the TTL; to see [lease.Locker.Once] run again, past the period.
//
// # Guarantees
//
//   - Each Start gives an empty Redis that no other test sees, also in parallel.
//   - It ends with the test. On Linux the kernel ends a real server whose test binary was killed;
//     elsewhere that server stays.
//   - RunUntilEmpty uses [fairqueue.Queue.Consume], and so has its semantics.
//   - After the first Advance the clock of a Mini stands still until the next.
//
// # The wrinkle
//
// Only the clock of miniredis can be moved. Data in Redis ends by it. A context of this process,
// such as that of a lease, ends by real time.
//
// # When not to use it
//
// Miniredis has no memory limit and no eviction, no persistence and restart, no replicas, no Cluster, and it
// is slower. Its scripts run in another Lua. To test a program while Redis is full, restarts
// or fails over, use a server of your own that you can fill and kill. Measure no speed with it.
package millracetest
