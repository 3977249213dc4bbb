package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/internal/redis/retry"
)

// kitchen is a cache under load: two processes fetch values that run out again and
// again. Every caller gets the right value, and one process at a time computes a value
// under a lease that no failover could lose.
type kitchen struct {
	caches [2]*fetch.Cache
	dishes []*wanted
}

func newKitchen(t *testing.T, on running, now *storm) *kitchen {
	t.Helper()
	k := &kitchen{caches: caches(t, on, fetch.Config{TTL: 100 * time.Millisecond, Early: -1})} // so that values do run out
	for i := range 4 {
		k.dishes = append(k.dishes, &wanted{t: t, now: now, key: fmt.Sprint("key", i), outcomes: map[fetch.Outcome]int{}})
	}
	return k
}

func (k *kitchen) begin(ctx context.Context, working *sync.WaitGroup) {
	for _, w := range k.dishes {
		for _, c := range []*fetch.Cache{k.caches[0], k.caches[1], k.caches[1]} {
			working.Go(func() { w.fetch(ctx, c) })
		}
	}
}

// goesOn wants each value to be found and computed.
func (k *kitchen) goesOn() func() bool {
	type counts struct{ hits, misses int }
	waiting := map[*wanted]counts{}
	for _, w := range k.dishes {
		hits, misses := w.count()
		waiting[w] = counts{hits, misses}
	}
	return func() bool {
		maps.DeleteFunc(waiting, func(w *wanted, before counts) bool {
			hits, misses := w.count()
			return hits > before.hits+3 && misses > before.misses+3
		})
		return len(waiting) == 0
	}
}

func (k *kitchen) check() {
	for _, w := range k.dishes {
		w.check()
	}
}

// wanted is a value that many fetch.
type wanted struct {
	t   *testing.T
	now *storm
	key string

	mu       sync.Mutex
	outcomes map[fetch.Outcome]int
	runs     []interval // computations under leases that no failover could lose
}

// interval is the time from the beginning to the end of something.
type interval struct{ began, ended time.Time }

// fetch fetches the value again and again until ctx ends.
func (w *wanted) fetch(ctx context.Context, c *fetch.Cache) {
	for retry.Sleep(ctx, pace) {
		asked, run := w.now.Load(), interval{}
		value, r, err := fetch.Get(ctx, c, w.key, func(ctx context.Context) (string, error) {
			run.began = time.Now()
			retry.Sleep(ctx, 2*time.Millisecond)
			run.ended = time.Now()
			return "value of " + w.key, nil
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil || value != "value of "+w.key {
			w.t.Errorf("Get = %+v, %v, want the value", r, err)
		}
		w.mu.Lock()
		w.outcomes[r.Outcome]++
		if r.Outcome == fetch.Miss && asked != inStorm && asked == w.now.Load() {
			w.runs = append(w.runs, run)
		}
		w.mu.Unlock()
	}
}

// count returns how often the value was found, and how often computed under a
// lease.
func (w *wanted) count() (hits, misses int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outcomes[fetch.Hit], w.outcomes[fetch.Miss]
}

// check checks that no two computations ran at once.
func (w *wanted) check() {
	w.t.Helper()
	slices.SortFunc(w.runs, func(a, b interval) int { return a.began.Compare(b.began) })
	overlaps := 0
	for i := 1; i < len(w.runs); i++ {
		if w.runs[i].began.Before(w.runs[i-1].ended) {
			overlaps++
		}
	}
	want(w.t, "computations of "+w.key+" that began during another", overlaps, 0, nil)
}
