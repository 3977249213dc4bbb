package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/redis/replicas"
)

// MemoryOfWaiting is how the names of figures begin that measure the memory of messages.
const MemoryOfWaiting = "fairqueue memory of a message of "

// LifeMessages is how many messages are written where their whole life or memory is measured.
const LifeMessages = 20_000

// ownQueueFigures are those of queues on servers of their own, or beside asynq.
func ownQueueFigures() []Figure {
	figures := []Figure{
		{What: "fairqueue whole life, write one by one and consume, 50 handlers", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: queueLife},
		}},
		limitFigure("a weight", fairqueue.OwnLimits{Weight: new(2.0)}),
		limitFigure("a limit of deliveries", fairqueue.OwnLimits{MaxInFlight: new(1000)}),
		limitFigure("a rate", fairqueue.OwnLimits{Rate: new(1e6)}),
		limitFigure("a limit of waiting messages", fairqueue.OwnLimits{MaxWaiting: new(1000)}),
		limitFigure("all kinds of limits", fairqueue.OwnLimits{
			Weight: new(2.0), MaxInFlight: new(1000), Rate: new(1e6), MaxWaiting: new(1000),
		}),
		{What: MemoryOfWaiting + "100 bytes that waits", Unit: "bytes", Sides: []Side{
			{Name: "fairqueue", Measure: Memory(LifeMessages, 1, writeMessages(100))},
			{Name: "stream", Goal: AtMost(2.8), Measure: Memory(LifeMessages, 1, writeEntries(100))},
		}},
		{What: MemoryOfWaiting + "1 kB that waits", Unit: "bytes", Sides: []Side{
			{Name: "fairqueue", Measure: Memory(LifeMessages, 1, writeMessages(1000))},
			{Name: "stream", Goal: AtMost(1.4), Measure: Memory(LifeMessages, 1, writeEntries(1000))},
		}},
	}
	return slices.Concat(figures, durable("AOF everysec", withAOF), durable("a replica", withReplica), slowFigures(), partsFigures())
}

// durable are figures of throughput on servers that persist their data.
func durable(kind string, start func(context.Context, *B)) []Figure {
	figures := must.Get(Choose("queue_cycle", "queue_backlog"))
	for i := range figures {
		f := &figures[i]
		f.Name, f.What = "", f.What+", "+kind
		for j, side := range f.Sides {
			f.Sides[j].Measure = func(ctx context.Context, b *B) float64 {
				start(ctx, b)
				return side.Measure(ctx, b)
			}
		}
	}
	return figures
}

// queueLife writes messages one by one, has handlers that do nothing work them off, and
// returns messages a second of both together.
func queueLife(ctx context.Context, b *B) float64 {
	q, n, body := b.queue(b.Client, fairqueue.Config{}), max(100, b.Scaled(LifeMessages)), make([]byte, BodySize)
	start := time.Now()
	must.Do(Deal(ctx, n, func(ctx context.Context, i int) error {
		_, err := q.Write(ctx, fairqueue.Draft{Tenant: tenant(i), Body: body})
		return err
	}))
	handled := 0
	consume(ctx, q, func(string) bool { handled++; return handled == n })
	return float64(n) / time.Since(start).Seconds()
}

// limitFigure measures the cost of limits that hold nothing back.
func limitFigure(name string, limits fairqueue.OwnLimits) Figure {
	return Figure{What: "fairqueue write, read, ack one by one, each of 100 tenants with " + name, Unit: "messages/s", Sides: []Side{
		{Name: "limits", Measure: func(ctx context.Context, b *B) float64 {
			q := b.queue(b.Client, fairqueue.Config{})
			for i := range tenants {
				must.Do(q.Limits().Set(ctx, tenant(i), limits))
			}
			return cycles(ctx, b, 1, func(int) *fairqueue.Queue { return q })
		}},
		{Name: "none", Goal: AtLeast(0.9), Measure: queueCycles(1)},
	}}
}

// start starts a server, which is stopped at the end.
func (b *B) start(ctx context.Context, cfg redisproc.Config) *redisproc.Proc {
	proc := must.Get(redisproc.Start(ctx, cfg))
	b.Cleanup(func(context.Context) error { return proc.Stop() })
	return proc
}

// moveTo has the side work on another server.
func (b *B) moveTo(proc *redisproc.Proc) {
	b.Open = func() (rueidis.Client, error) { return dial.Redis(context.Background(), proc.URL()) }
	b.Client = must.Get(b.Open())
	b.closeAfter(b.Client)
}

// withAOF starts a server that writes an append-only file and syncs it each second.
func withAOF(ctx context.Context, b *B) {
	b.moveTo(b.start(ctx, redisproc.Config{AOF: true, Args: []string{"--appendfsync", "everysec"}}))
}

// replicaTimeout bounds how long a replica takes to follow a server without data.
const replicaTimeout = 20 * time.Second

// withReplica starts a server with a replica that is in sync.
func withReplica(ctx context.Context, b *B) {
	master := b.start(ctx, redisproc.Config{TCP: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
	b.start(ctx, redisproc.Config{TCP: true, Args: []string{"--replicaof", strings.ReplaceAll(master.Addr(), ":", " ")}})
	b.moveTo(master)
	ctx, cancel := context.WithTimeoutCause(ctx, replicaTimeout, errors.New("the replica does not follow"))
	defer cancel()
	for have := 0; have < 1; {
		var err error
		_, have, err = replicas.Confirm(ctx, b.Client, "first", 1, 100*time.Millisecond)
		must.Do(errors.Join(err, context.Cause(ctx)))
	}
	must.Do(b.unlink(ctx, []string{replicas.Key("first")}))
}

// Memory returns by how many bytes the memory of a server that has nothing else grows for
// each part of n things that write writes.
func Memory(n, parts int, write func(ctx context.Context, b *B, url string, n int) error) Measure {
	return func(ctx context.Context, b *B) float64 {
		proc, n := b.start(ctx, redisproc.Config{}), b.Scaled(n)
		b.moveTo(proc)
		before := Info(ctx, b.Client, "memory", "used_memory")
		must.Do(write(ctx, b, proc.URL(), n))
		return (Info(ctx, b.Client, "memory", "used_memory") - before) / float64(n*parts)
	}
}

func writeMessages(size int) func(context.Context, *B, string, int) error {
	return func(ctx context.Context, b *B, _ string, n int) error {
		q, body := must.Get(fairqueue.New(b.Client, "bench", fairqueue.Config{})), make([]byte, size)
		return Deal(ctx, n, func(ctx context.Context, i int) error {
			_, err := q.Write(ctx, fairqueue.Draft{Tenant: tenant(i), Body: body})
			return err
		})
	}
}

func writeEntries(size int) func(context.Context, *B, string, int) error {
	return func(ctx context.Context, b *B, _ string, n int) error {
		body := strings.Repeat("x", size)
		return Deal(ctx, n, func(ctx context.Context, _ int) error {
			return b.Client.Do(ctx, b.Client.B().Xadd().Key("bench").Id("*").FieldValue().FieldValue("b", body).Build()).Error()
		})
	}
}

func memoryFigures() []Figure {
	return []Figure{
		memoryFigure("expiry memory, 400 hashes of 1000 fields", 400, 1000),
		memoryFigure("expiry memory, 2000 hashes of 100 fields", 2000, 100),
	}
}

// memoryFigure compares the memory of a field.
func memoryFigure(what string, hashes, fields int) Figure {
	all := make(map[string][]byte, fields)
	for i := range fields {
		all[fieldName(i)] = []byte(fieldValue)
	}
	bare := func(commands func(c rueidis.Client, name string) rueidis.Commands) Measure {
		return Memory(hashes, fields, func(ctx context.Context, b *B, _ string, n int) error {
			return Deal(ctx, n, func(ctx context.Context, i int) error {
				return firstError(b.Client.DoMulti(ctx, commands(b.Client, hashName(i))...))
			})
		})
	}
	return Figure{What: what, Unit: "bytes a field", Sides: []Side{
		{Name: "expiry", Measure: Memory(hashes, fields, func(ctx context.Context, b *B, _ string, n int) error {
			h := must.Get(expiry.Open(ctx, b.Client, "bench", expiry.Config{}))
			return Deal(ctx, n, func(ctx context.Context, i int) error {
				_, err := h.SetMany(ctx, hashName(i), all, expiry.SetConfig{TTL: ttl})
				return err
			})
		})},
		{Name: "plain hash", Measure: bare(func(c rueidis.Client, name string) rueidis.Commands {
			hset := c.B().Hset().Key(name).FieldValue()
			for field := range all {
				hset = hset.FieldValue(field, fieldValue)
			}
			return rueidis.Commands{hset.Build()}
		})},
		{Name: "key with TTL", Measure: bare(func(c rueidis.Client, name string) (sets rueidis.Commands) {
			for field := range all {
				sets = append(sets, c.B().Set().Key(name+":"+field).Value(fieldValue).Px(ttl).Build())
			}
			return sets
		})},
	}}
}
