package fleet

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestConnections: one for all pipelined calls, at servers in use and at no others, with any
// number of CPUs and of goroutines; one more for each call that waits; and no PINGs.
func TestConnections(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 1, calm)
	cfg := Config{Option: slowly}
	cfg.Option.ClientName = "under-test"
	f := tf.open(cfg)
	option := f.view.Load().partitions[0].master().option
	if option.PipelineMultiplex >= 0 {
		t.Error("the number of connections depends on that of CPUs")
	}
	if option.Dialer.KeepAlive < 5*time.Second {
		t.Errorf("idle connections are sent a PING each %v", option.Dialer.KeepAlive)
	}
	first := f.Partitions()[0]
	var working sync.WaitGroup
	for i := range 50 {
		working.Go(func() {
			for range 20 {
				must(t, set(t.Context(), first, fmt.Sprint(i), "x"))
			}
		})
	}
	working.Wait()
	connections := func(s *redistest.Server) int {
		c := s.Client(t)
		list, err := c.Do(t.Context(), c.B().ClientList().Build()).ToString()
		must(t, err)
		return strings.Count(list, " name=under-test ")
	}
	for name, server := range map[string]struct {
		*redistest.Server

		want int
	}{
		"the master in use": {tf.masters[0], 1}, "its replica": {tf.copies[0][0], 0}, "another master": {tf.masters[1], 0}, "its own": {tf.copies[1][0], 0},
	} {
		if n := connections(server.Server); n != server.want {
			t.Errorf("%s has %d connections, want %d", name, n, server.want)
		}
	}
	blocked := make(chan error, 1)
	go func() { blocked <- first.Do(t.Context(), first.B().Blpop().Key("l").Timeout(0).Build()).Error() }()
	whileBlocked(t, tf.masters[0], func() {
		if n := connections(tf.masters[0]); n != 2 {
			t.Errorf("the master has %d connections while a call waits, want 2", n)
		}
		must(t, first.Do(t.Context(), first.B().Rpush().Key("l").Element("x").Build()).Error())
		must(t, <-blocked)
	})
}

// TestASilentServerIsGivenUp although no client sends it PINGs: calls that wait for it fail,
// and so do later ones.
func TestASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, calm)
	f := tf.open(Config{})
	must(t, put(t.Context(), f.Client(), "{a}", "x"))
	tf.masters[0].Pause()
	defer tf.masters[0].Resume()
	began := time.Now()
	for range 2 {
		if got, err := get(t.Context(), f.Client(), "{a}"); err == nil {
			t.Errorf("GET from a server that is silent = %q", got)
		}
	}
	if took := time.Since(began); took > 2*pingInterval/3 {
		t.Errorf("two reads from a silent server took %v, want some %v each", took, memberTimeout)
	}
}

// TestDedicatedAfterClose is refused.
func TestDedicatedAfterClose(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, 0, calm).open(Config{})
	f.Close()
	err := f.Client().Dedicated(func(d rueidis.DedicatedClient) error {
		return d.Do(t.Context(), d.B().Set().Key("{a}").Value("x").Build()).Error()
	})
	wantError(t, err, ErrClosed)
}
