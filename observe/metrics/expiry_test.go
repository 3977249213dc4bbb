package metrics

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/metrics/expirymetrics"
	"github.com/millrace/millrace/observe/metrics/pinnedmetrics"
	"github.com/millrace/millrace/pinned"
)

func newHashes(t *testing.T, client rueidis.Client, name string, hook *hook) *expiry.Hashes {
	t.Helper()
	h, err := expiry.Open(t.Context(), client, name, expiry.Config{Shards: 2, Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newKeys(t *testing.T, client rueidis.Client, name string, hook *hook) *pinned.Keys {
	t.Helper()
	k, err := pinned.Open(t.Context(), client, name, pinned.Config{Shards: 2, Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// unlabelled fills the samples of a structure up with zeros.
func unlabelled(prefix, label string, figures []string, nonzero map[string]float64) map[string]float64 {
	samples := map[string]float64{prefix + "up{" + label + "}": 1}
	for _, figure := range figures {
		samples[prefix+figure+"{"+label+"}"] = nonzero[figure]
	}
	return samples
}

func TestHashesCollector(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	name := redistest.Name(t)
	h := newHashes(t, redistest.Shared(t).Client(t), name, hook)
	register(t, reg, expirymetrics.Collector(h))
	want := func(nonzero map[string]float64) {
		t.Helper()
		wantSamples(t, reg, "hashes_", unlabelled("hashes_", "hashes="+name, []string{
			"with_deadlines", "overdue", "oldest_overdue_seconds", "shards", "deleted_total", "reaped_total", "repaired_total",
		}, nonzero))
	}
	want(nil) // it does not exist yet

	ctx := t.Context()
	for _, hash := range []string{"a", "b", "c"} {
		cfg := expiry.SetConfig{TTL: time.Hour}
		if hash == "c" {
			cfg.TTL = time.Millisecond
		}
		if _, err := h.SetMany(ctx, hash, map[string][]byte{"x": nil, "y": nil}, cfg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Remove(ctx, "a", "x"); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "a hash is overdue and says for how long", func() bool {
		samples := scrape(t, reg, "hashes_")
		return samples["hashes_overdue{hashes="+name+"}"] == 1 && samples["hashes_oldest_overdue_seconds{hashes="+name+"}"] > 0
	})
	if _, err := h.Jobs()[0].Slice(ctx); err != nil {
		t.Fatal(err)
	}
	want(map[string]float64{"with_deadlines": 2, "shards": 2, "deleted_total": 1, "reaped_total": 2})
}

func TestKeysCollector(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	name := redistest.Name(t)
	k := newKeys(t, redistest.Shared(t).Client(t), name, hook)
	register(t, reg, pinnedmetrics.Collector(k))
	want := func(there float64, nonzero map[string]float64) {
		t.Helper()
		samples := unlabelled("keys_", "keys="+name, []string{
			"oldest_overdue_seconds", "shards", "set_total", "deleted_total", "reaped_total",
		}, nonzero)
		samples["keys_values{keys="+name+",state=there}"] = there
		samples["keys_values{keys="+name+",state=overdue}"] = 0
		wantSamples(t, reg, "keys_", samples)
	}
	want(0, nil) // it does not exist yet

	ctx := t.Context()
	set := func(key string, ttl time.Duration) {
		t.Helper()
		if _, err := k.Set(ctx, key, nil, ttl, pinned.SetConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	set("a", time.Hour)
	set("b", time.Hour)
	if _, err := k.Remove(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	set("c", time.Millisecond) // the last: a later write would take it away
	state := func(state string) float64 {
		return scrape(t, reg, "keys_values")["keys_values{keys="+name+",state="+state+"}"]
	}
	redistest.Eventually(t, "a value is overdue", func() bool { return state("overdue") == 1 && state("there") == 1 })
	if _, err := k.Jobs()[0].Slice(ctx); err != nil {
		t.Fatal(err)
	}
	want(1, map[string]float64{"shards": 2, "set_total": 3, "deleted_total": 1, "reaped_total": 1})
}
