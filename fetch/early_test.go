package fetch

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// put stores a value that cost something to compute and has so long to live.
func put(t *testing.T, c *Cache, key, value string, cost, left time.Duration) {
	t.Helper()
	e := entry{kind: valueKind, ttl: time.Hour, cost: cost, payload: []byte(value)}
	if _, err := c.keys.Set(t.Context(), key, e.seal(), left, setAny); err != nil {
		t.Fatal(err)
	}
}

// TestEarly: a reader that is drawn triggers one new computation, and no reader waits.
func TestEarly(t *testing.T) {
	t.Parallel()
	c := open(t, Config{TTL: time.Hour})
	c.random = func() float64 { return 0.9 }
	put(t, c, "k", "old", time.Minute, 2*time.Minute)
	s, release := blocked(t, "new")
	for range 3 {
		want(t, c, "k", s, "old", Hit, nil)
	}
	<-s.begun
	want(t, c, "k", s, "old", Hit, nil)
	other := openOn(t, redistest.Shared(t).Client(t), c.name, c.cfg)
	other.random = c.random
	unwanted := &source{value: "other's"}
	want(t, other, "k", unwanted, "old", Hit, nil) // drawn as well, but it is being computed
	redistest.Eventually(t, "the other gives up", func() bool { return other.Stats().Early == 1 && other.callers() < 0 })
	release()
	redistest.Eventually(t, "the load is over", func() bool { return c.callers() < 0 }) // a reader that looked before could begin another
	redistest.Eventually(t, "the new value is there", func() bool {
		value, r, err := Get(t.Context(), c, "k", s.load)
		return err == nil && r.Outcome == Hit && value == "new"
	})
	wantLoads(t, s, 1)
	wantLoads(t, unwanted, 0)
	if got := c.Stats(); got.Early != 1 || got.Loads != 1 || got.Misses != 0 {
		t.Errorf("Stats = %+v, want one load, begun early", got)
	}
}

// TestEarlyFails: a load that fails early leaves the value, and is not tried again by the
// next reader.
func TestEarlyFails(t *testing.T) {
	t.Parallel()
	c := open(t, Config{TTL: time.Hour, Errors: time.Minute})
	c.random = func() float64 { return 0.9 }
	put(t, c, "k", "old", time.Hour, 20*time.Minute)
	s := &source{err: errLoad}
	want(t, c, "k", s, "old", Hit, nil)
	redistest.Eventually(t, "it has failed", func() bool { n, _ := s.counts(); return n == 1 && c.callers() < 0 })
	for range 3 {
		want(t, c, "k", s, "old", Hit, nil)
	}
	wantLoads(t, s, 1)
}

// TestDrawn compares how often readers are drawn with the formula.
func TestDrawn(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	c := &Cache{cfg: Config{Early: 1}, random: random.Float64}
	const stale, draws = time.Minute, 20_000
	for _, tc := range []struct {
		left time.Duration // until it is old
		want float64
	}{
		{time.Second, math.Exp(-0.5)}, {2 * time.Second, math.Exp(-1)}, {10 * time.Second, math.Exp(-5)},
		{60 * time.Second, 0}, {100 * time.Second, 0},
	} {
		n := 0
		for range draws {
			if c.drawn(entry{ttl: 2 * time.Minute, stale: stale, cost: 2 * time.Second, left: tc.left + stale}) {
				n++
			}
		}
		if got := float64(n) / draws; math.Abs(got-tc.want) > 0.015 {
			t.Errorf("%v before it is old %.3f of the readers are drawn, want %.3f", tc.left, got, tc.want)
		}
	}
	near := entry{ttl: time.Hour, cost: time.Hour, left: time.Nanosecond}
	first := entry{ttl: time.Hour, cost: 100 * time.Hour, left: 31 * time.Minute}
	resting := entry{ttl: time.Hour, cost: time.Hour, left: time.Minute, retry: time.Second}
	c.random = func() float64 { return 0.999 }
	if !c.drawn(near) || c.drawn(first) || c.drawn(resting) || c.drawn(entry{ttl: time.Hour, left: 1}) {
		t.Error("drawn in the first half of a value's time, while a failure is remembered, or without a cost")
	}
	c.cfg.Early = -1
	if c.drawn(near) {
		t.Error("drawn though Early is off")
	}
}

// TestJitter: a value is fresh for nine tenths of TTL at least, and for no more than TTL.
func TestJitter(t *testing.T) {
	t.Parallel()
	c := open(t, Config{TTL: 1000 * time.Second})
	for random, ttl := range map[float64]time.Duration{0: 1000 * time.Second, 0.5: 950 * time.Second, 0.9999: 900 * time.Second} {
		c.random = func() float64 { return random }
		if got := c.jittered(); got < ttl || got > ttl+time.Second {
			t.Errorf("TTL at %v = %v, want %v", random, got, ttl)
		}
	}
	c.random = func() float64 { return 0.9999 }
	want(t, c, "k", &source{value: "v"}, "v", Miss, nil)
	if _, left, err := c.keys.Get(t.Context(), "k"); err != nil || left > 901*time.Second {
		t.Errorf("the value has %v left, %v, want about 900 s", left, err)
	}
	c.cfg.Jitter = -1
	if got := c.jittered(); got != c.cfg.TTL {
		t.Errorf("TTL without jitter = %v", got)
	}
}
