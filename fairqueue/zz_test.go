package fairqueue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redistest"
)

func cpu(s *redistest.Server) float64 {
	var a, b float64
	i := s.Info("cpu")
	fmt.Sscan(i["used_cpu_user"], &a)
	fmt.Sscan(i["used_cpu_sys"], &b)
	return a + b
}

func TestSpeed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	q, _ := New(client, "x", Config{})
	ctx := t.Context()
	const G, N = 50, 400
	body := make([]byte, 100)
	run := func(name string, f func(g, i int)) {
		c0 := cpu(server)
		t0 := time.Now()
		var wg sync.WaitGroup
		for g := range G {
			wg.Go(func() {
				for i := range N {
					f(g, i)
				}
			})
		}
		wg.Wait()
		d := time.Since(t0)
		t.Logf("%-30s %8.0f/s server %5.1f us", name, float64(G*N)/d.Seconds(), (cpu(server)-c0)*1e6/float64(G*N))
	}
	cycle := func(q *Queue) func(g, i int) {
		return func(g, i int) {
			if _, err := q.Write(ctx, Draft{Tenant: fmt.Sprint("t", i%50), Body: body}); err != nil {
				t.Error(err)
			}
			m, err := q.Read(ctx, ReadConfig{})
			if err != nil {
				return
			}
			if _, err := q.Ack(ctx, m[0].Receipt); err != nil {
				t.Error(err)
			}
		}
	}
	bare := func(c rueidis.Client) func(g, i int) {
		return func(g, i int) {
			c.Do(ctx, c.B().Xadd().Key("s").Id("*").FieldValue().FieldValue("b", string(body)).Build())
			r, err := c.Do(ctx, c.B().Xreadgroup().Group("g", "c").Count(1).Streams().Key("s").Id(">").Build()).AsXRead()
			if err != nil || len(r["s"]) == 0 {
				return
			}
			id := r["s"][0].ID
			c.Do(ctx, c.B().Xack().Key("s").Group("g").Id(id).Build())
			c.Do(ctx, c.B().Xdel().Key("s").Id(id).Build())
		}
	}
	client.Do(ctx, client.B().Arbitrary("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM").Build())
	for range 2 {
		run("bare one process", bare(client))
		run("millrace one process", cycle(q))
	}
	clients := make([]rueidis.Client, G)
	queues := make([]*Queue, G)
	for i := range clients {
		clients[i] = server.Client(t, func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1; o.DisableCache = true })
		queues[i], _ = New(clients[i], "x", Config{})
	}
	for range 2 {
		run("bare 50 clients", func(g, i int) { bare(clients[g])(g, i) })
		run("millrace 50 clients", func(g, i int) { cycle(queues[g])(g, i) })
	}
	// backlog consume
	var ds []Draft
	for i := range 20000 {
		ds = append(ds, Draft{Tenant: fmt.Sprint("t", i%50), Body: body})
	}
	t0 := time.Now()
	c0 := cpu(server)
	if _, err := q.WriteBatch(ctx, ds...); err != nil {
		t.Fatal(err)
	}
	t.Logf("batch write %8.0f/s server %.1f us", 20000/time.Since(t0).Seconds(), (cpu(server)-c0)*1e6/20000)
	var n atomic.Int64
	cctx, cancel := context.WithCancel(ctx)
	t0 = time.Now()
	c0 = cpu(server)
	start, _ := q.Len(ctx)
	_ = q.Consume(cctx, ConsumeConfig{Concurrency: 50}, func(context.Context, Message) error {
		if n.Add(1) == int64(start) {
			cancel()
		}
		return nil
	})
	t.Logf("consume %8.0f/s server %.1f us", float64(start)/time.Since(t0).Seconds(), (cpu(server)-c0)*1e6/float64(start))
	for range 20000 {
		client.Do(ctx, client.B().Xadd().Key("s").Id("*").FieldValue().FieldValue("b", string(body)).Build())
	}
	t0 = time.Now()
	var left atomic.Int64
	left.Store(20000)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				r, err := client.Do(ctx, client.B().Xreadgroup().Group("g", "c").Count(1).Streams().Key("s").Id(">").Build()).AsXRead()
				if err != nil || len(r["s"]) == 0 {
					return
				}
				id := r["s"][0].ID
				client.Do(ctx, client.B().Xack().Key("s").Group("g").Id(id).Build())
				client.Do(ctx, client.B().Xdel().Key("s").Id(id).Build())
			}
		})
	}
	wg.Wait()
	t.Logf("bare consume %8.0f/s", 20000/time.Since(t0).Seconds())
}
