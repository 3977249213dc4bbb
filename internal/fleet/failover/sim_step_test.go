package failover_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// TestEveryStep kills and stops the leading agent at each of its calls while it does
// a failover: before the call, and after it has had its effect. Another agent goes
// on; a stopped agent resumes when that has finished, and does its call then.
func TestEveryStep(t *testing.T) {
	t.Parallel()
	kill := func(how int) func(w *world) {
		return func(w *world) {
			w.with(func() { w.servers[0].die(false) })
			time.Sleep(3 * time.Second)
			w.with(func() { w.servers[0].rise(how, true) })
		}
	}
	for _, tc := range []struct {
		name string
		do   func(w *world)
	}{
		{"the master is killed, and comes back from a snapshot", kill(fromSnapshot)},
		{"the master is killed, and comes back empty", kill(empty)},
		{"the master is stopped, and goes on", func(w *world) {
			w.with(func() { w.pause(&w.servers[0].host) })
			time.Sleep(3 * time.Second)
			w.with(func() { w.resume(&w.servers[0].host) })
		}},
		{"the agents are cut off from the master", func(w *world) {
			w.with(func() {
				for _, a := range w.agents {
					w.cut(&a.now.host, &w.servers[0].host)
				}
			})
			time.Sleep(3 * time.Second)
		}},
	} {
		for confirmed := range 2 {
			for _, store := range stores {
				t.Run(fmt.Sprintf("%s, %d confirmed, %s", tc.name, confirmed, store), func(t *testing.T) {
					t.Parallel()
					everyStep(t, tc.do, 8, schedule{
						seed: 2, store: store, replicas: 2, parts: 1, every: 300 * time.Millisecond, confirmed: confirmed,
						settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond, Confirmed: cmp.Or(confirmed, lenient)},
					})
				})
			}
		}
	}
}

// everyStep runs a schedule without a step, and then with each; with one of so many if
// there is less time.
func everyStep(t *testing.T, do func(w *world), stride int, s schedule) {
	t.Helper()
	var first, last int
	s.script = func(w *world) {
		w.with(func() { w.servers[2].lag = 600 * time.Millisecond; first = w.agents[0].now.calls + 1 })
		do(w)
		time.Sleep(3 * time.Second)
		w.with(func() { last = max(last, w.agents[0].now.calls) })
	}
	if w := run(t, s); len(w.wrong) > 0 {
		t.Fatalf("without a step: %s\n%s", w.wrong[0], w.history())
	}
	stride *= slow
	if soak() {
		stride = 1
	}
	from, to, runs := first, last, 0
	for call := from + s.confirmed; call <= to; call += stride {
		for _, step := range []step{
			{call: call},
			{call: call, after: true},
			{call: call, freeze: 4 * time.Second},
			{call: call, freeze: 4 * time.Second, after: true},
		} {
			one := s
			one.step = &step
			if w := run(t, one); len(w.wrong) > 0 {
				t.Fatalf("%+v: %s\n%s", step, w.wrong[0], w.history())
			}
			runs++
		}
	}
	t.Logf("%d calls, %d runs", to-from, runs)
}
