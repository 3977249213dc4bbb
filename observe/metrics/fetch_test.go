package metrics

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/metrics/fetchmetrics"
)

func newCache(t *testing.T, client rueidis.Client, name string, hook *hook) *fetch.Cache {
	t.Helper()
	c, err := fetch.Open(t.Context(), client, name, fetch.Config{Errors: -1, Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCacheCollector(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	c := newCache(t, redistest.Shared(t).Client(t), redistest.Name(t), hook)
	register(t, reg, fetchmetrics.Collector(c))
	samples := func(loads float64, calls map[string]float64) map[string]float64 {
		all := map[string]float64{"fetch_loads_total{cache=" + c.Name() + "}": loads, "fetch_early_total{cache=" + c.Name() + "}": 0}
		for _, outcome := range []string{"failed", "hit", "negative", "stale", "miss", "waited", "bypass", "remembered"} {
			all["fetch_calls_total{cache="+c.Name()+",outcome="+outcome+"}"] = calls[outcome]
		}
		return all
	}
	wantSamples(t, reg, "fetch_", samples(0, nil))

	odd := errors.New("odd")
	for i, failure := range []error{odd, nil, nil, nil} {
		_, _, err := fetch.Get(t.Context(), c, "key", func(context.Context) (string, error) { return "value", failure })
		if !errors.Is(err, failure) {
			t.Errorf("Fetch %d = %v, want %v", i, err, failure)
		}
	}
	wantSamples(t, reg, "fetch_", samples(2, map[string]float64{"failed": 1, "miss": 1, "hit": 2}))

	// The hook sees the computations as runs of a handler.
	handled := scrape(t, reg, "handled_total")
	for outcome, want := range map[string]float64{"ok": 1, "error": 1} {
		if got := handled["handled_total{outcome="+outcome+",structure=fetch}"]; got != want {
			t.Errorf("computations with outcome %s = %v, want %v", outcome, got, want)
		}
	}
}
