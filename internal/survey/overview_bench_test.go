package survey

import (
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// BenchmarkOverview measures the reads of the overview page, the names of all structures and
// their numbers, with 100 queues and 100 Icks in a Redis without other keys, and in one with
// 200,000 keys of others, or 5,000,000 with MILLRACE_SOAK.
func BenchmarkOverview(b *testing.B) {
	foreign := 200_000
	if os.Getenv("MILLRACE_SOAK") != "" {
		foreign = 5_000_000
	}
	for _, n := range []int{0, foreign} {
		server := redistest.Start(b, redistest.Options{})
		client := server.Client(b)
		redistest.Fill(b, client, n)
		for i := range 100 {
			q, err := fairqueue.New(client, fmt.Sprint("n", i), fairqueue.Config{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := q.Write(b.Context(), fairqueue.Draft{Tenant: "a"}); err != nil {
				b.Fatal(err)
			}
			k, err := ick.New(client, fmt.Sprint("n", i), ick.Config{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := k.AddNow(b.Context(), "a"); err != nil {
				b.Fatal(err)
			}
		}
		registry.Settle(b.Context(), client)
		s, err := New(Config{Client: client, Logger: discard})
		if err != nil {
			b.Fatal(err)
		}
		for _, part := range []struct {
			name string
			do   func() error
		}{
			{"names", func() error { s.list(b.Context()); return s.unlisted }},
			{"numbers", func() error { _, err := s.survey(b.Context()); return err }},
		} {
			b.Run(fmt.Sprintf("%s/foreign=%d", part.name, n), func(b *testing.B) {
				before := server.CPU()
				for b.Loop() {
					if err := part.do(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((server.CPU()-before)/float64(b.N), "server-us/op")
			})
		}
		if v := s.View(); len(v.Queues) != 100 || len(v.Icks) != 100 {
			b.Fatalf("%d queues and %d Icks, want 100 of each", len(v.Queues), len(v.Icks))
		}
	}
}
