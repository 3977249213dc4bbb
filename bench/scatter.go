package main

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/scatter"
)

// eventCounters is how many counters an event counts up.
const eventCounters = 30

func scatterFigures() []bench.Figure {
	return []bench.Figure{
		{What: "scatter, a server's CPU for an event of 30 counters", Unit: "us", Sides: []bench.Side{
			{Name: "session", Measure: cpuOf(sessions)},
			{Name: "30 INCRBY in a script", Goal: bench.AtMost(1.8), Measure: cpuOf(increments)},
		}},
	}
}

func counterName(i int) string { return "count:" + strconv.Itoa(i) }

// sessions counts up all counters with one session each time.
func sessions(b *bench.B, url string) func(ctx context.Context) error {
	server := scatter.Server{Name: "0", Option: must.Get(dial.Options(url))}
	sc := must.Get(scatter.New([]scatter.Server{server}, scatter.Config{}))
	b.Close(sc)
	return func(ctx context.Context) error {
		session := sc.Session("")
		for i := range eventCounters {
			session.Add(counterName(i), 1)
		}
		return session.Flush(ctx)
	}
}

// increment is the least that a script does that counts up its arguments.
var increment = rueidis.NewLuaScript(`for i = 1, #ARGV, 2 do redis.call('INCRBY', ARGV[i], ARGV[i + 1]) end return 'done'`)

// increments counts up all counters with one script.
func increments(b *bench.B, _ string) func(ctx context.Context) error {
	var args []string
	for i := range eventCounters {
		args = append(args, counterName(i), "1")
	}
	return func(ctx context.Context) error {
		return increment.Exec(ctx, b.Client, []string{counterName(0)}, args).Error()
	}
}

// cpuOf is how much of a server's CPU, in microseconds, one call costs of those that
// prepare returns, one after the other.
func cpuOf(prepare func(b *bench.B, url string) func(context.Context) error) bench.Measure {
	return func(ctx context.Context, b *bench.B) float64 {
		server := moveTo(ctx, b, redisproc.Config{})
		used := func() float64 {
			return bench.Info(ctx, b.Client, "cpu", "used_cpu_sys") + bench.Info(ctx, b.Client, "cpu", "used_cpu_user")
		}
		call := prepare(b, server.URL())
		must.Do(call(ctx)) // so that all keys exist
		before, calls := used(), 0
		for start := time.Now(); calls == 0 || time.Since(start) < b.Time; calls++ {
			must.Do(call(ctx))
		}
		return (used() - before) * 1e6 / float64(calls)
	}
}
