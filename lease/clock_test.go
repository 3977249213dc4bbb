package lease

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// TestFencesWhenTheClockIsBehind says exactly when a fence is larger than an earlier one: if the
// server has the lease's key, or its clock has passed the moment at which the earlier one was given.
func TestFencesWhenTheClockIsBehind(t *testing.T) {
	t.Parallel()
	start := func() (*miniredis.Miniredis, *Locker) {
		server := miniredis.RunT(t)
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return server, openOn(t, client, Config{})
	}
	const name = "name"
	noon := time.Date(2040, time.January, 1, 12, 0, 0, 0, time.UTC)
	server, l := start()
	clock := noon
	set := func(at time.Time) { clock = at; server.SetTime(at) }
	pass := func(d time.Duration) { set(clock.Add(d)); server.FastForward(d) }

	set(noon)
	first := hold(t, l, name, "a")
	if first != noon.UnixMicro() {
		t.Fatalf("the fence is %d, want the clock, %d", first, noon.UnixMicro())
	}
	set(noon.Add(-time.Hour)) // while the lease is held
	release(t, l, name, "a")
	var last int64
	for i := range 8 { // until the clock has passed the first fence
		pass(10 * time.Minute)
		fence := hold(t, l, name, "b")
		if fence <= max(first, last) {
			t.Errorf("%d minutes after the release the fence is %d, want more than %d and %d", 10*(i+1), fence, first, last)
		}
		last = fence
		release(t, l, name, "b")
	}
	pass(time.Minute)
	if server.Exists(baseKey(name)) {
		t.Error("a released lease stays for more than a minute")
	}

	replica, l := start() // it has lost the key, as after a failover
	replica.SetTime(noon.Add(-time.Microsecond))
	if fence := hold(t, l, "behind", "c"); fence >= first {
		t.Errorf("the fence of a clock that is behind is %d: this shows nothing", fence)
	}
	replica.SetTime(noon.Add(time.Microsecond))
	if fence := hold(t, l, name, "c"); fence <= first {
		t.Errorf("the fence of a clock that has passed the first is %d, want more than %d", fence, first)
	}
}
