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
	if !slices.ContainsFunc(seen.Checks, func(c Check) bool { return c.Name == "all_handled" && !c.OK }) {
		t.Errorf("all_handled did not fail: %+v", seen.Checks)
	}
	if got, want := strings.Join(seen.Failures, "\n"), fmt.Sprintf("message %d was written as", forgotten); !strings.HasPrefix(got, want) || len(seen.Failures) != 1 {
		t.Errorf("failures = %q, want one that begins with %q", got, want)
	}
	wantEmpty(t, server.Client(t))
}

// soundQueue is a performance of the queue scene in which all went well: two messages of
// the slow tenant and one of a quiet one beside them, two of the flood, and one of a quiet
// tenant, whose worker was killed, beside that. Numbers are in the order of their writes,
// at 10, 20, ... ms.
func soundQueue() *queuePlay {
	p := &queuePlay{stage: &stage{}, ledger: newLedger(), kills: 1, loading: time.Second}
	l := p.ledger
	for i, m := range []struct {
		tenant string
		act    act
	}{{dawdler, dawdles}, {dawdler, dawdles}, {"quiet 1", dawdles}, {importer, floods}, {importer, floods}, {"quiet 2", floods}} {
		_, notes := l.begin(m.tenant, m.act, 1)
		l.wrote(notes, []fairqueue.Written{{ID: fmt.Sprint("id", i)}})
	}
	l.hear([]byte(`a runtime that prints what it likes`))
	tell := func(on side, number, delivered, now int, more string) {
		l.hear(fmt.Appendf(nil, `{"side":%q,"number":%d,"now":%d,"id":"id%d","written":%d,"delivered":%d%s}`,
			on, number, now*1000, number, 10_000*(number+1), delivered*1000, more))
	}
	done := func(on side, number, now int) {
		l.hear(fmt.Appendf(nil, `{"side":%q,"number":%d,"now":%d,"done":true}`, on, number, now*1000))
	}
	for number, delivered := range []int{100, 110, 31, 100, 200, 101} {
		tell(fair, number, delivered, delivered, "")
		if number == 5 { // the first worker was killed
			tell(fair, number, 0, delivered+3000, `,"again":true`)
		}
		done(fair, number, delivered+10)
		tell(line, number, 300+number, 300+number, "")
		done(line, number, 310+number)
	}
	p.last = map[side]fairqueue.Stats{fair: {Counters: fairqueue.Counters{Written: 6, Delivered: 8, Acked: 6, Reclaimed: 1, Returned: 1}}, line: {}}
	return p
}

func TestEachCheckOfTheQueueSceneCanFail(t *testing.T) {
	t.Parallel()
	// flood has so many messages delivered while one of a quiet tenant waits.
	flood := func(tenant string, in act, n int) func(*queuePlay) {
		return func(p *queuePlay) {
			_, notes := p.ledger.begin(tenant, in, n)
			quiet := p.ledger.messages[2]
			if in == floods {
				quiet = p.ledger.messages[5]
			}
			for _, m := range notes {
				*m.trips[fair] = trip{handled: 1, delivered: quiet.trips[fair].delivered}
			}
			p.last[fair] = fairqueue.Stats{Counters: fairqueue.Counters{Written: int64(6 + n), Delivered: int64(6 + n), Acked: int64(6 + n)}}
		}
	}
	stats := func(on side, spoil func(*fairqueue.Stats)) func(*queuePlay) {
		return func(p *queuePlay) {
			s := p.last[on]
			spoil(&s)
			p.last[on] = s
		}
	}
	for _, test := range []struct {
		check string // none when empty
		spoil func(p *queuePlay)
	}{
		{"", func(*queuePlay) {}},
		{"", flood(importer, floods, turnsAtMost-2)}, // two were there before
		{"", flood(dawdler, dawdles, slowAhead)},
		{"all_handled", func(p *queuePlay) { p.ledger.messages[1].trips[fair].handled = 0 }},
		{"all_handled", func(p *queuePlay) { p.ledger.messages[1].trips[fair].id = "other" }},
		{"nothing_stranded", stats(fair, func(s *fairqueue.Stats) { s.Waiting = 1 })},
		{"nothing_stranded", stats(fair, func(s *fairqueue.Stats) { s.InFlight = 1 })},
		{"nothing_stranded", stats(fair, func(s *fairqueue.Stats) { s.Delayed = 1 })},
		{"nothing_stranded", stats(line, func(s *fairqueue.Stats) { s.Dead = 1 })},
		{"quiet_have_their_turn", flood(importer, floods, turnsAtMost-1)},
		{"quiet_have_their_turn", func(p *queuePlay) { p.ledger.messages[5].trips[fair].delivered = 0 }},
		{"quiet_do_not_wait_for_the_slow", flood(dawdler, dawdles, slowAhead+1)},
		{"quiet_do_not_wait_for_the_slow", func(p *queuePlay) { p.ledger.messages[2].trips[fair].delivered = 0 }},
		{"slow_has_its_share", func(p *queuePlay) {
			for _, m := range p.ledger.messages[:2] {
				m.trips[fair].ended = 0
			}
		}},
		{"only_from_the_killed", func(p *queuePlay) { p.kills = 0 }},
		{"counted", stats(fair, func(s *fairqueue.Stats) { s.Counters.Written++ })},
		{"counted", stats(fair, func(s *fairqueue.Stats) { s.Counters.Acked-- })},
		{"counted", stats(fair, func(s *fairqueue.Stats) { s.Counters.Delivered++ })},
	} {
		p := soundQueue()
		test.spoil(p)
		for _, m := range p.ledger.messages[6:] { // of a flood that is sound but for its turns
			m.id = m.trips[fair].id
		}
		wantFailed(t, p.judge().Checks, test.check)
	}
}

// A tenant that is slow has as many handlers at once as overlap, and one that ends when
// another begins does not.
func TestHandlersAtOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want  int
		times [][2]int64
	}{
		{0, nil},
		{0, [][2]int64{{1, 0}}}, // it never ended
		{1, [][2]int64{{1, 5}, {5, 9}}},
		{3, [][2]int64{{1, 9}, {2, 4}, {3, 5}, {6, 8}}},
	} {
		l := newLedger()
		_, notes := l.begin(dawdler, dawdles, len(test.times))
		for i, at := range test.times {
			*notes[i].trips[fair] = trip{begun: at[0], ended: at[1]}
		}
		if got := l.mostAtOnce(fair, dawdler); got != test.want {
			t.Errorf("at once in %v = %d, want %d", test.times, got, test.want)
		}
	}
	p := soundQueue()
	_, notes := p.ledger.begin(dawdler, dawdles, slowAtMost+1)
	for _, m := range notes {
		*m.trips[fair] = trip{handled: 1, begun: 1, ended: 2}
	}
	p.last[fair] = fairqueue.Stats{Counters: fairqueue.Counters{Written: 13, Delivered: 13, Acked: 13}}
	wantFailed(t, p.judge().Checks, "slow_has_its_share")
}

func TestFiguresOfTheQueueScene(t *testing.T) {
	t.Parallel()
	got := map[string]any{}
	for _, f := range soundQueue().judge().Figures {
		got[f.Key] = f.Value
	}
	want := map[string]any{
		"messages": int64(6), "flood": int64(2), "slow": int64(2), "quiet": int64(2),
		"quiet_ahead_median": int64(2), "quiet_ahead_most": int64(2), "line_quiet_ahead_median": int64(5), "line_quiet_ahead_most": int64(5),
		"slow_handlers": int64(1), "line_slow_handlers": int64(2),
		"kills": int64(1), "redelivered": int64(1), "handled_twice": int64(0), "loading_ms": int64(1000), "draining_ms": int64(0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestNotesCanBeRead(t *testing.T) {
	t.Parallel()
	if number, work, err := readNote(noteOf(42, slowWork)); number != 42 || work != slowWork || err != nil {
		t.Errorf("readNote = %d, %s, %v, want 42", number, work, err)
	}
	for _, note := range []string{"", "42", "x 1s", "1 x"} {
		if _, _, err := readNote([]byte(note)); err == nil {
			t.Errorf("readNote(%q) is no error", note)
		}
	}
}
