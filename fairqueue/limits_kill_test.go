package fairqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestLimitsWhenWorkersAreKilled kills worker processes with their hands full: a tenant never
// has more in flight than its limit, counts equal the messages in flight,
// the messages come back, and in the end all counts are zero. It takes 2 s;
// MILLRACE_SOAK makes it half a minute.
func TestLimitsWhenWorkersAreKilled(t *testing.T) {
	t.Parallel()
	lasts := 2 * time.Second
	if os.Getenv("MILLRACE_SOAK") != "" {
		lasts = 30 * time.Second
	}
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	spec := fmt.Sprint(server.URL(), " x {x}starts")
	want(t, "limits", nil, nil, q.Limits().Set(t.Context(), "", OwnLimits{MaxInFlight: new(2)}))
	want(t, "limits", nil, nil, q.Limits().Set(t.Context(), "p", OwnLimits{MaxInFlight: new(1)}))

	var written atomic.Int64
	writing, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := 0; writing.Err() == nil; i++ {
			if n, err := q.Len(t.Context()); err != nil || n > 200 {
				<-time.After(2 * time.Millisecond) // the workers are behind
				continue
			}
			drafts := make([]Draft, 40)
			for j := range drafts {
				drafts[j] = Draft{Tenant: liveTenants[rand.IntN(len(liveTenants))], Body: fmt.Append(nil, i, "-", j)}
			}
			if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
				t.Errorf("write: %v", err)
				return
			}
			written.Add(int64(len(drafts)))
		}
	})
	defer writers.Wait()
	defer stop()

	look := func() {
		t.Helper()
		flying := flights(t, q)
		for of, n := range flying {
			most := 2
			if of == "p" {
				most = 1
			}
			if n > most {
				t.Errorf("%d messages of %+v are in flight, at most %d", n, of, most)
			}
		}
		if diff := miscounted(t, q); diff != "" {
			t.Errorf("deliveries by tenant (-in flight +counted):\n%s", diff)
		}
	}
	killed := map[int]bool{}
	for start := time.Now(); time.Since(start) < lasts && !t.Failed(); {
		one, two := redistest.StartChild(t, workerEnv+"="+spec), redistest.StartChild(t, workerEnv+"="+spec)
		for range 4 {
			one.Lines(1 + rand.IntN(20))
			two.Lines(1 + rand.IntN(5))
			look()
		}
		for _, p := range []*redistest.Child{one, two} {
			p.Kill()
			killed[p.PID()] = true
		}
		look()
	}
	stop()
	writers.Wait()
	last := redistest.StartChild(t, workerEnv+"="+spec)
	go last.Lines(1 << 30) // it must not block on a full pipe
	drained(t, q)
	look()
	checkStarts(t, q, int(written.Load()), killed)
	last.Kill()
	wantSizes(t, q, 0, 0, 0, 0)
	for _, of := range []string{"", "p"} {
		want(t, "clear", nil, nil, q.Limits().Clear(t.Context(), of))
	}
	awaitRest(t, q)
}
