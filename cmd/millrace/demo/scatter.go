package demo

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/scatter"
)

const (
	scatterServers  = 4
	scatterWriters  = 4
	scatterCounters = 30 // that an event counts up
	scatterKept     = 20 // events that the list keeps
	scatterVictim   = 1  // the server that has the accident

	// plainCounters is a sabotage in tests: the server does not remember writes, so that
	// one whose reply was lost counts twice.
	plainCounters = "plain counters"
)

func scatterScene() chaos.Scene {
	return chaos.Scene{
		Name:  "scatter",
		Shows: "counters over four servers are exact, and a sum that misses a server says so",
		Load: "4 goroutines write events, each to one of 4 servers: 30 counters and a list in one call. " +
			"Sums are read from all servers.",
		Accident: "A proxy drops replies, so that writes are repeated. One server is killed with SIGKILL and restarted; " +
			"on miniredis it falls silent instead.",
		Duration: 2 * time.Second,
		Play:     playScatter,
	}
}

// scatterPlay is one performance. The ledger counts events by server.
type scatterPlay struct {
	*chaos.Play

	servers   []*chaos.OwnServer
	proxies   []*chaos.Proxy
	sc        *scatter.Scatter
	next      atomic.Int64
	begun     [scatterServers]atomic.Int64
	written   [scatterServers]atomic.Int64
	uncertain atomic.Int64
}

func playScatter(ctx context.Context, play *chaos.Play) {
	p := &scatterPlay{Play: play}
	var list []scatter.Server
	for i := range scatterServers {
		srv := p.OwnServer(ctx, redisproc.Config{TCP: true, AOF: true})
		proxy := must.Get(chaos.NewProxy(srv.Addr))
		p.Defer(func(context.Context) error { return proxy.Close() })
		p.servers, p.proxies = append(p.servers, srv), append(p.proxies, proxy)
		list = append(list, scatter.Server{Name: strconv.Itoa(i), Option: rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}})
	}
	p.sc = must.Get(scatter.New(list, scatter.Config{Shard: scatter.JavaHash, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)}))
	p.Close(p.sc)

	loading, stop := context.WithCancel(ctx)
	defer stop()
	wait := p.Repeat(loading, scatterWriters, chaos.Every(time.Millisecond/4), p.write)
	p.Repeat(loading, 1, chaos.Every(p.Duration/20), func(context.Context) error {
		p.proxies[rand.IntN(scatterServers)].DropReplies(1)
		return nil
	})
	p.load(ctx, p.Duration/2, "writing; replies are dropped")
	back := sync.OnceValue(p.strike(ctx))
	defer func() { _ = back() }()
	low := p.total(&p.written, scatterVictim)
	without, partial := p.readWithout(ctx)
	high := p.total(&p.begun, scatterVictim)
	must.Do(back())
	p.load(ctx, p.Duration/2, "writing; all servers are back")
	stop()
	wait()
	p.judge(ctx, without, partial, low, high)
}

// total adds up a count over all servers but one.
func (p *scatterPlay) total(of *[scatterServers]atomic.Int64, without int) (sum int64) {
	for i := range of {
		if i != without {
			sum += of[i].Load()
		}
	}
	return sum
}

// load shows sums for a while, and at least until every server has events.
func (p *scatterPlay) load(ctx context.Context, d time.Duration, doing string) {
	until := time.Now().Add(d)
	p.Watch(ctx, func(ctx context.Context) bool {
		sums, _, _ := p.read(ctx)
		p.Show(doing, p.total(&p.written, -1), "events written", sums[0].Value, "read")
		all := true
		for i := range p.written {
			all = all && p.written[i].Load() > 0
		}
		return all && time.Now().After(until)
	})
}

// read reads all counters and the list. On a busy machine any server may be late: then it
// is not whole.
func (p *scatterPlay) read(ctx context.Context) (sums []*scatter.Result[int64], newest []scatter.Entry, whole bool) {
	g := p.sc.Gather()
	for i := range scatterCounters {
		sums = append(sums, g.Int("count:"+strconv.Itoa(i)))
	}
	list := g.List("events", scatterKept)
	err := g.Read(ctx)
	if !errors.Is(err, millrace.ErrPartial) {
		must.Do(err)
	}
	return sums, list.Value, err == nil
}

// write writes one event, and tries again until it is written: it is the same session, so
// that a repeat counts nothing twice.
func (p *scatterPlay) write(ctx context.Context) error {
	id := p.Name + strconv.FormatInt(p.next.Add(1), 10)
	srv := scatter.JavaHash(id, scatterServers)
	p.begun[srv].Add(1)
	session := p.sc.Session(id)
	for i := range scatterCounters {
		session.Add("count:"+strconv.Itoa(i), 1)
	}
	session.Push("events", scatterKept, []byte(id))
	flush := session.Flush
	if p.Sabotage == plainCounters {
		flush = func(ctx context.Context) error { return p.writePlainly(ctx, srv) }
	}
	for began := time.Now(); ; {
		err := flush(ctx)
		if err == nil {
			p.written[srv].Add(1)
			return nil
		}
		if time.Since(began) > 8*time.Second || !retry.Sleep(ctx, 10*time.Millisecond) {
			p.uncertain.Add(1)
			return nil
		}
	}
}

// writePlainly counts up all counters with INCRBY, through the proxy.
func (p *scatterPlay) writePlainly(ctx context.Context, srv int) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.proxies[srv].Addr()}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer client.Close()
	var batch rueidis.Commands
	for i := range scatterCounters {
		batch = append(batch, client.B().Incrby().Key("count:"+strconv.Itoa(i)).Increment(1).Build())
	}
	for _, reply := range client.DoMulti(ctx, batch...) {
		err = errors.Join(err, reply.Error())
	}
	return err
}

// strike lets one server have its accident. Back ends it.
func (p *scatterPlay) strike(ctx context.Context) (back func() error) {
	proc := p.servers[scatterVictim].Proc
	if proc == nil {
		p.Note("server %v does not answer", scatterVictim)
		speak := p.proxies[scatterVictim].Silence()
		return func() error { speak(); return nil }
	}
	p.Note("killed server %v with SIGKILL", scatterVictim)
	must.Do(proc.Kill())
	return func() error { return proc.Restart(ctx) }
}

// readWithout reads while a server is away, until only that one is missing: on a busy
// machine others may be late as well.
func (p *scatterPlay) readWithout(ctx context.Context) (missing []string, partial int64) {
	for range 20 {
		sums, _, _ := p.read(ctx)
		if missing, partial = sums[0].Missing, sums[0].Value; len(missing) <= 1 {
			break
		}
	}
	return missing, partial
}

// judge reads everything once more, and compares it with the ledger.
func (p *scatterPlay) judge(ctx context.Context, missing []string, partial, low, high int64) {
	var sums []*scatter.Result[int64]
	var newest []scatter.Entry
	var took time.Duration
	for try, whole := 0, false; try < 20 && !whole; try++ { // until all servers answer in time
		began := time.Now()
		sums, newest, whole = p.read(ctx)
		took = time.Since(began)
	}
	least, most := sums[0].Value, sums[0].Value
	for _, sum := range sums {
		least, most = min(least, sum.Value), max(most, sum.Value)
	}
	var dropped int64
	bySrv := make([]int64, scatterServers)
	exact := true
	for i, srv := range p.servers {
		dropped += p.proxies[i].Dropped()
		has := must.Get(srv.Client.Do(ctx, srv.Client.B().Get().Key("count:0").Build()).AsInt64())
		bySrv[i] = has
		if has < p.written[i].Load() || has > p.begun[i].Load() {
			exact = false
			p.Fail("server %v has %v events, and the ledger has %v to %v", i, has, p.written[i].Load(), p.begun[i].Load())
		}
	}
	written, uncertain := p.total(&p.written, -1), p.uncertain.Load()
	p.Check("partial_is_told", slices.Equal(missing, []string{strconv.Itoa(scatterVictim)}),
		"while server %v was away the sum said that it is partial, and which server it misses: %s", scatterVictim, strings.Join(missing, ", "))
	p.Check("partial_is_a_part", partial >= low && partial <= high,
		"that sum has all events of the other servers: %v, and the ledger has %v to %v", partial, low, high)
	p.Check("sum_is_exact", exact && least >= written && most <= written+uncertain && dropped > 0,
		"in the end each of %v counters has what was written: %v of %v, with %v replies dropped and %v writes uncertain",
		scatterCounters, least, written, dropped, uncertain)
	p.Check("whole_events", uncertain > 0 || least == most, "an event counts up all its counters or none: %v to %v", least, most)
	newestFirst := slices.IsSortedFunc(newest, func(a, b scatter.Entry) int { return b.At.Compare(a.At) })
	p.Check("one_list", len(newest) == scatterKept && newestFirst, "the newest %v events of all servers are one list, newest first", len(newest))

	p.Table("server 0", "server 1", "server 2", "server 3")
	p.Figure("events by server", "", chaos.List("by_server", bySrv...)...)
	p.Table()
	p.Figure("servers", "", chaos.N("servers", scatterServers))
	p.Figure("events written", chaos.Text("%v counters and a list each", scatterCounters), chaos.N("events", written))
	p.Figure("replies dropped", "the writer tries again", chaos.N("dropped", dropped))
	p.Figure("events uncertain", "", chaos.N("uncertain", uncertain))
	p.Figure("sum while a server was away", "of three servers", chaos.N("partial", partial))
	p.Figure("sum in the end", "of all four", chaos.N("read", least))
	p.Figure("time for that", chaos.Text("%v counters and a list, one round trip", scatterCounters), chaos.Us("reading_us", took))
}
