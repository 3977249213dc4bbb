package directory

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
)

// TestLostReply loses the reply of a change that was made: it is repeated, succeeds
// and is stored once.
func TestLostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	d := dial(t, proxy.Addr())
	change(t, d, 0, sample(t, 1))
	lost := proxy.DropReply(isChange)
	next := sample(t, 2)
	next.Settings.MaxFill = 50
	change(t, d, 1, next)
	if lost.Count() != 1 {
		t.Errorf("%d replies were lost, want 1", lost.Count())
	}
	if got, want := server.Info("commandstats")["cmdstat_hset"], "calls=2,"; len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("HSET of two changes: %s", got)
	}
	m, err := d.Confirm(t.Context(), 1)
	wantMap(t, "Confirm", m, err, next)
	// Whoever asks again, with the same map, is told that it is stored.
	change(t, d, 1, next)
	// The connection of a confirmation may be lost, too. Who asks next has a new one.
	proxy.Cut()
	redistest.Eventually(t, "the map is confirmed on a new connection", func() bool {
		m, err := d.Confirm(t.Context(), 2)
		return m == nil && err == nil
	})
}

// TestOneWins has several change the same map at the same time, over a network that
// loses replies.
func TestOneWins(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	random := rand.New(rand.NewPCG(1, 2))
	changers := make([]*Redis, 4)
	for i := range changers {
		changers[i] = dial(t, proxy.Addr())
	}
	lost := proxy.DropReplyWhen(func(cmd []string) bool { return isChange(cmd) && random.IntN(8) == 0 })
	const rounds = 50
	for epoch := range int64(rounds) {
		errs := make([]error, len(changers))
		var all sync.WaitGroup
		for i, d := range changers {
			next := sample(t, epoch+1)
			next.Fleet = strconv.Itoa(i)
			all.Go(func() { errs[i] = d.Change(t.Context(), epoch, next) })
		}
		all.Wait()
		m, err := dial(t, server.Addr()).Load(t.Context())
		if err != nil || m.Epoch != epoch+1 {
			t.Fatalf("round %d: Load = %+v, %v", epoch, m, err)
		}
		for i, err := range errs {
			if strconv.Itoa(i) == m.Fleet {
				wantError(t, "Change of the one whose map is stored", err, nil)
			} else {
				wantError(t, "Change of another", err, ErrConflict)
			}
		}
	}
	if lost.Count() == 0 {
		t.Error("no reply was lost")
	}
}
