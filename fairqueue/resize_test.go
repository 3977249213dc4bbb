package fairqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
)

// TestResize: growing is used at once; after a shrink the old streams are read
// until they are empty and then dropped; a writer that knows the old number is
// told (Q1 to Q3 in docs/DEFECTS.md).
func TestResize(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	name := redistest.Name(t)
	q, stale := openOn(t, client, name, Config{Streams: 8, PerTenant: 2}), openOn(t, client, name, Config{Streams: 8, PerTenant: 2})
	for i := range 50 {
		write(t, stale, fmt.Sprintf("tenant%d:before", i))
	}
	if err := q.Resize(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		write(t, stale, fmt.Sprintf("tenant%d:after", i))
	}
	s := stats(t, q)
	if s.StreamCount != 2 || s.PerTenant != 2 || s.Waiting != 70 || len(s.Streams) < 6 {
		t.Errorf("stats = %+v, want the old streams still served", s)
	}
	for _, m := range read(t, q, 100) {
		if string(m.Body) == "after" && m.Stream > 1 {
			t.Errorf("a message written after the shrink is in stream %d", m.Stream)
		}
		ack(t, q, m)
	}
	read(t, q, 1)
	if n, err := do(t, client, "HGET", baseKey(name), "span").AsInt64(); err != nil || n != 2 {
		t.Errorf("streams that are served in the end = %d, %v, want 2", n, err)
	}
	if err := q.Resize(t.Context(), 16, 4); err != nil {
		t.Fatal(err)
	}
	used := map[int]bool{}
	for i := range 100 {
		write(t, stale, fmt.Sprintf("tenant%d:x", i))
	}
	for _, m := range read(t, q, 100) {
		used[m.Stream] = true
	}
	if len(used) < 12 {
		t.Errorf("%d streams are used after growing to 16", len(used))
	}
	if err := q.Resize(t.Context(), 3, 0); err != nil {
		t.Fatal(err)
	}
	if s := stats(t, q); s.PerTenant != 3 {
		t.Errorf("streams a tenant has = %d, want them clamped to 3", s.PerTenant)
	}
}

// TestResizeUnderLoad resizes up and down while writers of both versions and
// readers run: each message is acknowledged exactly once. MILLRACE_SOAK makes it
// 100 rounds.
func TestResizeUnderLoad(t *testing.T) {
	t.Parallel()
	rounds := 10
	if os.Getenv("MILLRACE_SOAK") != "" {
		rounds = 100
	}
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	q := openOn(t, client, "x", Config{})
	var acked sync.Map
	var written, done atomic.Int64
	writing, stop := context.WithCancel(t.Context())
	reading, end := context.WithCancel(t.Context())
	var writers, readers sync.WaitGroup
	for w := range 4 {
		mine := openOn(t, client, "x", Config{Streams: 8 + w}) // each with its own idea
		writers.Go(func() {
			for i := 0; writing.Err() == nil; i++ {
				if _, err := mine.Write(t.Context(), Draft{Tenant: fmt.Sprint("tenant", rand.IntN(50)), Body: fmt.Append(nil, w, "-", i)}); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				written.Add(1)
			}
		})
	}
	for range 2 {
		mine := openOn(t, client, "x", Config{})
		readers.Go(func() {
			_ = mine.Consume(reading, ConsumeConfig{Concurrency: 4}, func(_ context.Context, m Message) error {
				if _, twice := acked.LoadOrStore(string(m.Body), true); twice || m.Attempt != 1 {
					t.Errorf("%s was delivered twice, at attempt %d", m.Body, m.Attempt)
				}
				done.Add(1)
				return nil
			})
		})
	}
	for range rounds {
		goal := written.Load() + 200
		redistest.Eventually(t, "more is written", func() bool { return written.Load() >= goal || t.Failed() })
		if err := q.Resize(t.Context(), 1+rand.IntN(100), 0); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	writers.Wait()
	redistest.Eventually(t, "all is done", func() bool { return done.Load() == written.Load() })
	redistest.Eventually(t, "all is acknowledged", func() bool { return stats(t, q).Counters.Acked == written.Load() })
	end()
	readers.Wait()
	wantSizes(t, q, 0, 0, 0, 0)
	t.Logf("%d messages, %d resizes", written.Load(), rounds)
}
