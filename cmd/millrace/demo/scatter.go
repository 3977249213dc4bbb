package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/screen"
	"github.com/millrace/millrace/scatter"
)

const (
	// shards is how many servers the events are scattered over, and eventWriters how
	// many goroutines write them.
	shards       = 4
	eventWriters = 8

	// eventCounters is how many counters an event counts up; it is also put on a list of
	// the newest eventsKept.
	eventCounters = 30
	eventsKept    = 20

	// scatterTimeout is for how long one server is waited for. A pause is longer.
	scatterTimeout = 250 * time.Millisecond
)

// scatterScene shows events that are written to one server each and read from all,
// while one server is paused.
func scatterScene() scene {
	return scene{
		name:    "scatter",
		shows:   "each event goes to one of four servers; a reading that misses one says so, and later none is missing; one is left",
		load:    1500 * time.Millisecond,
		private: true,
		play:    playScatter,
	}
}

// scatterPlay is one performance of the scene.
type scatterPlay struct {
	*stage
	servers []*redisproc.Proc
	sc      *scatter.Scatter

	written   atomic.Int64 // events that were reported as written
	uncertain atomic.Int64 // events of which nobody knows

	missing  []string // servers that the reading in the pause named
	partial  int64    // what it counted
	partialE error    // what it said
	behind   int64    // events on the paused server
	begun    int64    // events that any server may have had when the reading ended

	sum     []int64 // of each counter, in the end
	apart   []int64 // of the first counter, by server
	newest  []scatter.Entry
	reading time.Duration // how long the last reading took

	left []scatter.Left // when a server was drained
}

func playScatter(ctx context.Context, st *stage) (seen Scene, err error) {
	binary, err := st.find()
	if errors.Is(err, redisproc.ErrNotFound) {
		seen.Skipped = "it pauses a redis-server of its own, and none is on PATH"
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	p := &scatterPlay{stage: st}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.start(ctx, binary); err != nil {
		return seen, fmt.Errorf("start servers to scatter over: %w", err)
	}
	st.screen.Say("  (on %d servers of its own)", shards)
	if err := p.perform(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return seen, err
	}
	return p.judge(), nil
}

func (p *scatterPlay) start(ctx context.Context, binary string) error {
	for range shards {
		proc, err := redisproc.Start(ctx, redisproc.Config{Binary: binary, TCP: true})
		if err != nil {
			return err
		}
		p.servers = append(p.servers, proc)
	}
	var err error
	p.sc, err = scatter.New(p.list(-1), scatter.Config{Timeout: scatterTimeout})
	return err
}

// list returns all servers, of which one may be drained.
func (p *scatterPlay) list(drained int) []scatter.Server {
	servers := make([]scatter.Server, len(p.servers))
	for i, proc := range p.servers {
		servers[i].Name, servers[i].Drain = strconv.Itoa(i), i == drained
		servers[i].Option.InitAddress = []string{proc.Addr()}
	}
	return servers
}

func (p *scatterPlay) stop() error {
	if p.sc != nil {
		p.sc.Close()
	}
	var errs []error
	for _, proc := range p.servers {
		errs = append(errs, proc.Stop())
	}
	return errors.Join(errs...)
}

// perform is the story from the first event to the last reading.
func (p *scatterPlay) perform(ctx context.Context) error {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var writing sync.WaitGroup
	defer writing.Wait()
	for range eventWriters {
		writing.Go(func() { p.write(loading) })
	}
	if err := p.watch(ctx, p.duration/2, "all servers answer"); err != nil {
		return err
	}
	if err := p.pauseOne(ctx); err != nil {
		return err
	}
	if err := p.watch(ctx, p.duration/2, "all servers answer again"); err != nil {
		return err
	}
	stop()
	writing.Wait()
	if err := p.count(ctx); err != nil {
		return err
	}
	return p.leave(ctx)
}

// write writes events until ctx ends. One that was begun is brought to its end: it
// is the same request, so that a repeat doubles nothing.
func (p *scatterPlay) write(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		event := p.sc.Session(strconv.Itoa(n) + p.name)
		for i := range eventCounters {
			event.Add(counterKey(i), 1)
		}
		event.Push(eventsKey, eventsKept, []byte(fmt.Sprintf("event %d", n)))
		if p.flush(context.WithoutCancel(ctx), event) != nil {
			p.uncertain.Add(1)
			continue
		}
		p.written.Add(1)
	}
}

// flush flushes again and again, for some seconds.
func (p *scatterPlay) flush(ctx context.Context, event *scatter.Session) error {
	for began := time.Now(); ; {
		err := event.Flush(ctx)
		if err == nil || time.Since(began) > 3*time.Second || !retry.Sleep(ctx, 10*time.Millisecond) {
			return err
		}
	}
}

func counterKey(i int) string { return "count:" + strconv.Itoa(i) }

const eventsKey = "events"

// watch shows the sum for a while.
func (p *scatterPlay) watch(ctx context.Context, d time.Duration, what string) error {
	for start := time.Now(); ; {
		elapsed := min(time.Since(start), d)
		sum, err := p.read(ctx)
		if err != nil {
			return err
		}
		p.screen.Show(screen.Frame{
			Title: "scatter", Done: elapsed, Whole: d,
			Rows: [][]string{{grouped(p.written.Load()) + " events written", grouped(sum.Value) + " read", what}},
		})
		if elapsed == d {
			return nil
		}
		if !retry.Sleep(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// read reads the first counter from all servers.
func (p *scatterPlay) read(ctx context.Context) (*scatter.Result[int64], error) {
	g := p.sc.Gather()
	sum := g.Int(counterKey(0))
	err := g.Read(ctx)
	if errors.Is(err, millrace.ErrPartial) {
		return sum, nil
	}
	return sum, err
}

// paused is the server that is stopped.
const paused = 1

// pauseOne stops a server that has more events than are on their way, reads, and has
// it go on.
func (p *scatterPlay) pauseOne(ctx context.Context) error {
	for p.behind <= eventWriters {
		var err error
		if p.behind, err = p.readOne(ctx, paused); err != nil {
			return err
		}
		if err := p.watch(ctx, 10*time.Millisecond, "all servers answer"); err != nil {
			return err
		}
	}
	if err := p.servers[paused].Pause(); err != nil {
		return err
	}
	for {
		g := p.sc.Gather()
		sum := g.Int(counterKey(0))
		p.partialE = g.Read(ctx)
		p.partial, p.missing = sum.Value, sum.Missing
		p.begun = p.written.Load() + p.uncertain.Load() + eventWriters
		// On a busy machine others may be late, too: that reading was right, but shows little.
		if others := len(p.missing) > 1 && slices.Contains(p.missing, strconv.Itoa(paused)); !others || ctx.Err() != nil {
			break
		}
	}
	p.screen.Show(screen.Frame{
		Title: "scatter", Done: scatterTimeout, Whole: scatterTimeout,
		Rows: [][]string{{fmt.Sprintf("server %v does not answer", p.missing), grouped(p.partial) + " read, and it says that it is a part"}},
	})
	return p.servers[paused].Resume()
}

// readOne reads the first counter from one server.
func (p *scatterPlay) readOne(ctx context.Context, i int) (int64, error) {
	alone, err := scatter.New(p.list(-1)[i:i+1], scatter.Config{})
	if err != nil {
		return 0, err
	}
	defer alone.Close()
	var part *scatter.Result[int64]
	err = whole(ctx, func() error {
		g := alone.Gather()
		part = g.Int(counterKey(0))
		return g.Read(ctx)
	})
	if err != nil {
		return 0, err
	}
	return part.Value, nil
}

// whole reads again while servers are late, as they are on a busy machine.
func whole(ctx context.Context, read func() error) error {
	var stalled stall[bool]
	for {
		err := read()
		if !errors.Is(err, millrace.ErrPartial) || ctx.Err() != nil || stalled.lasts(true) {
			return err
		}
	}
}

// count reads everything when nobody writes any more.
func (p *scatterPlay) count(ctx context.Context) error {
	var sums []*scatter.Result[int64]
	var newest *scatter.Result[[]scatter.Entry]
	if err := whole(ctx, func() error {
		g := p.sc.Gather()
		sums = nil
		for i := range eventCounters {
			sums = append(sums, g.Int(counterKey(i)))
		}
		newest = g.List(eventsKey, eventsKept)
		defer func(began time.Time) { p.reading = time.Since(began) }(time.Now())
		return g.Read(ctx)
	}); err != nil {
		return err
	}
	for _, sum := range sums {
		p.sum = append(p.sum, sum.Value)
	}
	p.newest = newest.Value
	for i := range shards {
		part, err := p.readOne(ctx, i)
		if err != nil {
			return err
		}
		p.apart = append(p.apart, part)
	}
	return nil
}
