package survey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
)

// numbered returns that many names.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%03d", i)
	}
	return names
}

// TestRoundOfTheSilent: a round waits 2 s for a silent structure, for eight at a time, and 8 s
// for all; in the next round these come last, and the others are there.
func TestRoundOfTheSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := func(name string) bool { return name < "050" }
		last := &View{}
		for turn, wantOthers := range []int{0, 50} {
			var r round
			began := time.Now()
			answers := ask(&r, Queue, numbered(100), func(ctx context.Context, name string) (string, error) {
				if silent(name) {
					<-ctx.Done()
					return "", context.Cause(ctx)
				}
				return name, nil
			})
			r.run(t.Context(), last)
			if took := time.Since(began); took != surveyTimeout {
				t.Errorf("round %d took %s, want %s", turn, took, surveyTimeout)
			}
			got := answers()
			if len(got) != wantOthers || !slices.IsSorted(got) {
				t.Errorf("round %d: answers of %v, want %d", turn, got, wantOthers)
			}
			if got, want := len(r.troubles), 100-wantOthers; got != want {
				t.Errorf("round %d: %d troubles, want %d", turn, got, want)
			}
			last = &View{Troubles: slices.DeleteFunc(r.troubles, func(t Trouble) bool { return !silent(t.Name) })}
		}
	})
}

// TestRoundOfManyAnswers: at most eight structures are asked at the same time, and deleted
// ones are no trouble.
func TestRoundOfManyAnswers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asking, most := 0, 0
	var r round
	broken := errors.New("broken")
	failures := map[string]error{"003": errGone, "004": millrace.ErrNotFound, "005": millrace.ErrNotFound, "007": broken, "006": broken}
	answers := ask(&r, Ick, numbered(100), func(_ context.Context, name string) (string, error) {
		mu.Lock()
		asking++
		most = max(most, asking)
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			asking--
		}()
		return name, failures[name]
	})
	r.run(t.Context(), &View{})
	if got, want := len(answers()), 95; got != want {
		t.Errorf("%d answers, want %d", got, want)
	}
	if most > parallel {
		t.Errorf("%d were asked at the same time, want %d at most", most, parallel)
	}
	want := []Trouble{{Ick, "006", broken}, {Ick, "007", broken}}
	if diff := cmp.Diff(want, r.troubles, cmp.Comparer(sameError)); diff != "" {
		t.Errorf("troubles (-want +got):\n%s", diff)
	}
}
