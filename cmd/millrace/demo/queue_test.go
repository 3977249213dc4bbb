package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/shuffleshard"
)

// The checks can fail: a worker that leaves work out is found out.
func TestAForgottenMessageIsFound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	cfg := testConfig(server.URL(), queueScene())
	cfg.child = self(forgetful)
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if report.OK {
		t.Error("report is OK")
	}
	seen := report.Scenes[0]
	// Other checks compare times, which a busy machine spoils: they are judged on what is
	// recorded, in TestEachCheckOfTheQueueSceneCanFail.
	if !slices.ContainsFunc(seen.Checks, func(c Check) bool { return c.Name == "all_handled" && !c.OK }) {
		t.Errorf("all_handled did not fail: %+v", seen.Checks)
	}
	if got, want := strings.Join(seen.Failures, "\n"), "message 7 was written as"; !strings.HasPrefix(got, want) || len(seen.Failures) != 1 {
		t.Errorf("failures = %q, want one that begins with %q", got, want)
	}
	wantEmpty(t, server.Client(t))
}

// soundQueue is a performance of the queue scene in which all went well: a
// message of the flood, and one of a quiet tenant whose worker was killed.
func soundQueue() *queuePlay {
	p := &queuePlay{stage: &stage{}, ledger: newLedger(), kills: 1, dropped: 1, loading: time.Second}
	l := p.ledger
	l.begin(1, false)
	l.begin(1, true)
	l.wrote([]int{0, 1}, []fairqueue.Written{{ID: "1-0.3"}, {ID: "2-0.70"}})
	l.ahead = floodAhead
	for _, line := range []string{
		`a runtime that prints what it likes`,
		`{"side":"fair","worker":10,"number":0,"id":"1-0.3","stream":3,"waited":5000000}`,
		`{"side":"fair","worker":10,"number":0,"done":true}`,
		`{"side":"fair","worker":11,"number":1,"id":"2-0.70","stream":70,"waited":1000000}`,
		`{"side":"fair","worker":10,"number":1,"id":"2-0.70","stream":70,"again":true,"waited":9000000}`,
		`{"side":"fair","worker":10,"number":1,"done":true}`,
		`{"side":"fifo","worker":10,"number":0,"waited":6000000}`,
		`{"side":"fifo","worker":10,"number":0,"done":true}`,
		`{"side":"fifo","worker":10,"number":1,"waited":7000000}`,
		`{"side":"fifo","worker":10,"number":1,"done":true}`,
	} {
		l.hear([]byte(line))
	}
	l.bury(11)
	p.last.StreamCount = 48
	p.last.Counters = fairqueue.Counters{Written: 2, Delivered: 3, Acked: 2, Reclaimed: 1}
	return p
}

func TestEachCheckOfTheQueueSceneCanFail(t *testing.T) {
	t.Parallel()
	waits := func(on side, ms ...time.Duration) func(*queuePlay) {
		for i := range ms {
			ms[i] *= time.Millisecond
		}
		return func(p *queuePlay) { p.ledger.waited[on][true] = ms }
	}
	for _, test := range []struct {
		check string // none when empty
		spoil func(p *queuePlay)
	}{
		{"", func(*queuePlay) {}},
		{"all_handled", func(p *queuePlay) { p.ledger.messages[1].done[fair] = 0 }},
		{"all_handled", func(p *queuePlay) { p.ledger.messages[1].told = "2-1.70" }},
		{"nothing_stranded", func(p *queuePlay) { p.last.Waiting = 1 }},
		{"nothing_stranded", func(p *queuePlay) { p.last.InFlight = 1 }},
		{"nothing_stranded", func(p *queuePlay) { p.last.Delayed = 1 }},
		{"nothing_stranded", func(p *queuePlay) { p.last.Dead = 1 }},
		{"only_from_the_killed", func(p *queuePlay) { delete(p.ledger.killed, 11) }},
		{"quiet_do_not_wait", waits(fair)},
		{"quiet_do_not_wait", waits(fair, 3)},
		{"quiet_do_not_wait", waits(fair, 1, 1, 1, 8, 8)},
		{"quiet_do_not_wait", waits(fifo, 2)},
		{"resized", func(p *queuePlay) { p.last.StreamCount = 80 }},
		{"resized", func(p *queuePlay) { p.ledger.streams = 64 }},
		{"resized", func(p *queuePlay) { p.dropped = 0 }},
		{"counted", func(p *queuePlay) { p.last.Counters.Written++ }},
		{"counted", func(p *queuePlay) { p.last.Counters.Acked-- }},
		{"counted", func(p *queuePlay) { p.last.Counters.Reclaimed++ }},
	} {
		p := soundQueue()
		test.spoil(p)
		wantFailed(t, p.judge().Checks, test.check)
	}
}

func TestFiguresOfTheQueueScene(t *testing.T) {
	t.Parallel()
	got := map[string]any{}
	for _, f := range soundQueue().judge().Figures {
		got[f.Key] = f.Value
	}
	want := map[string]any{
		"messages": int64(2), "flood": int64(1), "ahead": int64(2000), "quiet": int64(1),
		"quiet_p50_ms": int64(1), "quiet_p99_ms": int64(1), "fifo_quiet_p50_ms": int64(7), "fifo_quiet_p99_ms": int64(7),
		"flood_p50_ms": int64(5), "flood_p99_ms": int64(5), "fifo_flood_p50_ms": int64(6), "fifo_flood_p99_ms": int64(6),
		"kills": int64(1), "redelivered": int64(1), "handled_twice": int64(0), "dropped": int64(1),
		"loading_ms": int64(1000), "draining_ms": int64(0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestWaitsAreNotComparedWithoutAFlood(t *testing.T) {
	t.Parallel()
	p := soundQueue()
	p.ledger.ahead = leastFlood - 1
	p.ledger.waited[fair][true] = []time.Duration{time.Minute}
	checks := p.judge().Checks
	wantFailed(t, checks, "")
	if !slices.ContainsFunc(checks, func(c Check) bool { return strings.HasPrefix(c.Sentence, "waits were not compared: 999") }) {
		t.Errorf("no check says that waits were not compared: %+v", checks)
	}
}

// The flood heeds the slower side, and counts a message that was handled twice
// once.
func TestTheFloodKeepsAhead(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.begin(floodAhead, false)
	for _, test := range []struct {
		on   side
		want int
	}{{fair, 0}, {fair, 0}, {fifo, floodAtOnce}} {
		l.hear(fmt.Appendf(nil, `{"side":%q,"worker":10,"number":0,"done":true}`, test.on))
		if got := l.floodDue(); got != test.want {
			t.Errorf("due when one was handled on the %s side, too = %d, want %d", test.on, got, test.want)
		}
	}
	if got, want := l.handled[fair], 1; got != want {
		t.Errorf("handled = %d, want %d", got, want)
	}
}

// The scene needs a tenant who has streams among those that come, and among those
// that go.
func TestTheImporterIsResized(t *testing.T) {
	t.Parallel()
	count := func(streams int, in func(int) bool) (n int) {
		for _, s := range shuffleshard.Get(streams, fairqueue.PerTenantDefault, importer) {
			if in(s) {
				n++
			}
		}
		return n
	}
	if got := count(queueStreams[1], func(s int) bool { return s >= queueStreams[0] }); got == 0 {
		t.Errorf("%d of the importer's streams are new when the queue grows, want some", got)
	}
	if got, want := count(queueStreams[1], func(s int) bool { return s >= queueStreams[2] }), fairqueue.PerTenantDefault; got != want {
		t.Errorf("%d of the importer's streams are given up, want %d", got, want)
	}
}

func TestNotesCanBeRead(t *testing.T) {
	t.Parallel()
	if number, waited, err := readNote(noteNow(42)); number != 42 || waited > time.Minute || err != nil {
		t.Errorf("readNote = %d, %s, %v, want 42", number, waited, err)
	}
	for _, note := range []string{"", "42", "x 1", "1 x"} {
		if _, _, err := readNote(note); err == nil {
			t.Errorf("readNote(%q) is no error", note)
		}
	}
}
