package scatter

import (
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestServerIsLeft: a server that is drained is written no more and read until its
// buckets have ended, and then it is empty.
func TestServerIsLeft(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	sc := newScatter(t, servers, Config{Shard: RoundRobin()})
	bucket := Bucket{Every: time.Second, Keep: 2 * time.Second}
	began := time.Now()
	event := func(sc *Scatter) {
		t.Helper()
		flush(t, sc, func(s *Session) { s.In(bucket).Add("n", 1) })
	}
	for range 3 {
		event(sc)
	}
	list := []Server{
		{Name: "s0", Client: servers[0].Client(t)},
		{Name: "s1", Client: servers[1].Client(t), Drain: true},
		{Name: "s2", Client: servers[2].Client(t)},
	}
	leaving := scatterOver(t, list, Config{Shard: RoundRobin()})
	for range 6 {
		event(leaving)
	}
	lefts, err := leaving.Left(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, flushes := range []int64{4, 1, 4} {
		l := lefts[i]
		if l.Server != list[i].Name || l.Drain != list[i].Drain || l.Flushes != flushes || l.Forever || l.Empty ||
			l.Until.Before(began) || l.Until.After(time.Now().Add(bucket.Every+bucket.Keep)) {
			t.Errorf("server %d has %+v, want %d flushes and buckets that end", i, l, flushes)
		}
	}
	redistest.Eventually(t, "it is empty", func() bool {
		lefts, err = leaving.Left(t.Context())
		return err == nil && lefts[1].Empty
	})
	if keys := words(t, servers[1].Client(t), "KEYS", "n:*"); len(keys) > 0 {
		t.Errorf("an empty server has %v", keys)
	}
}

// TestLeft: remaining values are reported, a server without any is empty, and one that does not
// answer is named.
func TestLeft(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	list := append(nowhere(1), Server{Name: "it", Client: servers[0].Client(t)})
	sc := scatterOver(t, list, Config{Shard: func(string, int) int { return 1 }, Timeout: time.Second})
	for i, want := range []Left{
		{Server: "it", Empty: true},
		{Server: "it", Flushes: 1, Forever: true},
		{Server: "it", Flushes: 2, Forever: true},
	} {
		lefts, err := sc.Left(t.Context())
		wantMissing(t, err, "s0")
		if len(lefts) != 2 || lefts[0].Err == nil || lefts[0] != (Left{Server: "s0", Err: lefts[0].Err}) || lefts[1] != want {
			t.Errorf("after %d flushes %+v is left, want %+v", i, lefts, want)
		}
		flush(t, sc, func(s *Session) { s.Insert("users", "ann") })
	}
	must(t, servers[0].Client(t), "HSET", sc.base+":meta", "version", "2")
	_, err := sc.Left(t.Context())
	wantError(t, err, millrace.ErrVersion)
}

// TestAllDrained: there must be a server to write to.
func TestAllDrained(t *testing.T) {
	t.Parallel()
	list := nowhere(2)
	list[0].Drain, list[1].Drain = true, true
	s := scatterOver(t, list, Config{}).Session("x")
	s.Add("n", 1)
	wantError(t, s.Flush(t.Context()), millrace.ErrBadArgument)
}
