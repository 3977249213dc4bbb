package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
)

// soundFailover is a performance of the failover scene in which all went well. Of
// what waited for nobody the killed master took two writes along, which its replica
// was not known to have.
func soundFailover() *failoverPlay {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	p := &failoverPlay{start: start, writing: 5 * time.Second}
	for id := range p.victims {
		p.victims[id] = &victim{
			partition: id, server: devfleet.Server{Addr: fmt.Sprint("old-", id)},
			whole:    map[string]time.Time{"new": at(600), "other": at(700)},
			accident: at(1000), elected: "new", led: at(2000), after: 1200 * time.Millisecond,
			back: true, has: 3, want: 3,
		}
		for _, confirmed := range []bool{true, false} {
			b := &book{partition: id, confirmed: confirmed, began: start}
			b.tag = b.kind()
			for _, ms := range []int{500, 650, 1001, 2100} {
				b.note(fmt.Sprint(ms), func() time.Time { return at(ms) }, nil)
			}
			b.note("unknown", time.Now, millrace.ErrUncertain)
			p.books = append(p.books, b)
		}
	}
	p.books[0].settle(map[string]bool{"500": true, "650": true, "1001": true, "2100": true, "unknown": true})
	p.books[1].settle(map[string]bool{"500": true, "2100": true})
	p.books[2].settle(map[string]bool{"500": true, "650": true, "1001": true, "2100": true})
	p.books[3].settle(map[string]bool{"500": true, "650": true, "1001": true, "2100": true})
	return p
}

func TestEachCheckOfTheFailoverSceneCanFail(t *testing.T) {
	t.Parallel()
	lose := func(b *book, i int) { b.lost = append(b.lost, b.done[i]) }
	for _, test := range []struct {
		check string // none when empty
		spoil func(p *failoverPlay)
	}{
		{"", func(*failoverPlay) {}},
		{"writes_go_on", func(p *failoverPlay) { p.victims[0].after = 0 }},
		{"writes_go_on", func(p *failoverPlay) { p.victims[1].after = 0 }},
		{"confirmed_is_there", func(p *failoverPlay) { lose(p.books[0], 1) }},
		{"confirmed_is_there", func(p *failoverPlay) { p.books[2].done = nil }},
		{"loss_in_its_window", func(p *failoverPlay) { lose(p.books[1], 0) }}, // which the new master had
		{"loss_in_its_window", func(p *failoverPlay) { lose(p.books[3], 3) }}, // which the new master took
		{"loss_in_its_window", func(p *failoverPlay) { p.books[3].done = nil }},
		{"back_in_step", func(p *failoverPlay) { p.victims[0].back = false }},
		{"back_in_step", func(p *failoverPlay) { p.victims[1].has-- }},
		{"back_in_step", func(p *failoverPlay) { p.victims[1].has, p.victims[1].want = 0, 0 }},
	} {
		p := soundFailover()
		test.spoil(p)
		wantFailed(t, p.judge().Checks, test.check)
	}
}

func TestFiguresOfTheFailoverScene(t *testing.T) {
	t.Parallel()
	got := map[string]any{}
	for _, f := range soundFailover().judge().Figures {
		got[f.Key] = f.Value
	}
	want := map[string]any{
		"partitions":       int64(2),
		"confirmed_writes": [2]int{4, 4}, "confirmed_pause_ms": [2]int{1099, 1099}, "confirmed_uncertain": [2]int{1, 1},
		"confirmed_window": [2]int{0, 0}, "confirmed_lost": [2]int{0, 0},
		"plain_writes": [2]int{4, 4}, "plain_pause_ms": [2]int{1099, 1099}, "plain_uncertain": [2]int{1, 1},
		"plain_window": [2]int{2, 2}, "plain_lost": [2]int{2, 0},
		"refused": int64(0), "writing_ms": int64(5000),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

// A member that is not known to have anything may lack all that was acknowledged
// before it led.
func TestWindowOfAMemberThatNobodySaw(t *testing.T) {
	t.Parallel()
	p := soundFailover()
	p.victims[0].whole = nil
	if got, want := p.window(p.books[1]), 3; got != want {
		t.Errorf("window = %d, want %d", got, want)
	}
}

func TestABookNotesWhatBecameOfWrites(t *testing.T) {
	t.Parallel()
	b := &book{began: time.Now()}
	for _, err := range []error{
		nil, millrace.ErrUncertain.Errorf("so"), fmt.Errorf("%w", context.DeadlineExceeded), fleet.ErrReadOnly.Errorf("so"), fleet.ErrUnavailable, errors.New("NOREPLICAS"),
	} {
		b.note("x", time.Now, err)
	}
	if done, uncertain := b.counts(); done != 1 || uncertain != 2 || b.refused != 3 {
		t.Errorf("done, uncertain, refused = %d, %d, %d, want 1, 2, 3", done, uncertain, b.refused)
	}
}

// A fleet without agents stays without masters, and the scene says so.
func TestWritesThatDoNotGoOnAreFound(t *testing.T) {
	t.Parallel()
	p := soundFailover()
	for _, v := range p.victims {
		v.after, v.elected, v.led = 0, "", time.Time{}
	}
	seen := p.judge()
	if got, want := len(seen.Failures), 2; got < want || !strings.Contains(seen.Failures[0], "had no other master") {
		t.Errorf("failures = %q, want one for each partition", seen.Failures)
	}
}
