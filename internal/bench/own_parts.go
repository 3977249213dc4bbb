package bench

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/parts"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/redisproc"
)

// partsFigures are those of one queue over several servers. The servers and this process share
// the machine, so the second figure estimates the rate of servers on cores of their own.
func partsFigures() (figures []Figure) {
	for _, f := range []struct {
		what, unit string
		perCPU     bool
	}{
		{"fairqueue/parts, write in batches and consume, 50 handlers", "messages/s", false},
		{"fairqueue/parts, the same for each second of CPU of the busiest server", "messages/s", true},
	} {
		figure := Figure{What: f.what, Unit: f.unit, Once: true}
		for i, name := range []string{"four servers", "two servers", "one server"} {
			figure.Sides = append(figure.Sides, Side{Name: name, Measure: partsLife(4>>i, f.perCPU)})
		}
		figures = append(figures, figure)
	}
	return figures
}

// partsLife writes messages of 100 tenants in batches and has 50 handlers that do nothing work
// them off.
func partsLife(servers int, perCPU bool) Measure {
	return func(ctx context.Context, b *B) float64 {
		clients := make([]rueidis.Client, servers)
		for i := range clients {
			proc := b.start(ctx, redisproc.Config{})
			clients[i] = must.Get(dial.Redis(ctx, proc.URL()))
			b.closeAfter(clients[i])
		}
		cfg := parts.Config{Parts: parts.Across("bench", clients...)}
		if servers == 1 {
			cfg.PerTenant = 1
		}
		q := must.Get(parts.New(cfg))
		n, body := max(1000, b.Scaled(5*LifeMessages)), make([]byte, BodySize)
		start := time.Now()
		must.Do(Deal(ctx, n/100, func(ctx context.Context, _ int) error {
			drafts := make([]fairqueue.Draft, 100)
			for i := range drafts {
				drafts[i] = fairqueue.Draft{Tenant: tenant(i), Body: body}
			}
			_, err := q.WriteBatch(ctx, drafts...)
			return err
		}))
		ctx, cancel := context.WithCancel(ctx)
		var handled atomic.Int64
		_ = q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 50}, func(context.Context, fairqueue.Message) error {
			if handled.Add(1) == int64(n/100*100) {
				cancel()
			}
			return nil
		})
		took := time.Since(start).Seconds()
		if perCPU {
			took = 0
			for _, client := range clients {
				took = max(took, Info(context.Background(), client, "cpu", "used_cpu_user")+Info(context.Background(), client, "cpu", "used_cpu_sys"))
			}
		}
		return float64(n) / took
	}
}
