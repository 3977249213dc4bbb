package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/scatter"
)

// eventCounters is how many counters an event counts up: the seed's.
const eventCounters = 30

// away is how far off distant servers are.
const away = 5 * time.Millisecond

func scatterFigures() []Figure {
	figures := func(what, unit string, sides ...Side) Figure {
		return Figure{What: what, Unit: unit, Sides: sides}
	}
	return []Figure{
		figures("scatter, events of 30 counters over 4 servers, 50 goroutines", "events/s",
			Side{Name: "session", Measure: eventsBySession},
			Side{Name: "each counter to its own server", Goal: AtLeast(0.7), Measure: eventsByKey(4)},
			Side{Name: "bare pipeline to one server", Measure: eventsByKey(1)}),
		figures("scatter, a server's CPU for an event of 30 counters", "us",
			Side{Name: "session", Measure: cpuOf(eventsOfOne)},
			Side{Name: "30 INCRBY in a script", Goal: AtMost(1.8), Measure: cpuOf(incrementsOfOne)}),
		figures("scatter, a reading of 30 counters, servers 5 ms away", "ms",
			Side{Name: "8 servers", Measure: readingOf(8)},
			Side{Name: "one server", Goal: AtMost(1.5), Measure: readingOf(1)}),
	}
}

// plain are servers for one side.
type plain struct {
	options []rueidis.ClientOption
	closers []io.Closer
}

// several starts servers.
func several(ctx context.Context, n int) (*plain, error) {
	p := &plain{}
	for range n {
		server, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
		if err != nil {
			p.close()
			return nil, err
		}
		p.closers = append(p.closers, server)
		option, _, err := connect.Options(server.URL)
		if err != nil {
			p.close()
			return nil, err
		}
		p.options = append(p.options, option[0])
	}
	return p, nil
}

func (p *plain) close() {
	for _, c := range p.closers {
		_ = c.Close()
	}
}

// scattered returns a group of the servers, each reached as change says.
func (p *plain) scattered(cfg scatter.Config, change func(*rueidis.ClientOption)) (*scatter.Scatter, error) {
	var servers []scatter.Server
	for i, option := range p.options {
		change(&option)
		servers = append(servers, scatter.Server{Name: strconv.Itoa(i), Option: option})
	}
	return scatter.New(servers, cfg)
}

// clients connects to all servers.
func (p *plain) clients() (all []rueidis.Client, err error) {
	for _, option := range p.options {
		c, err := rueidis.NewClient(option)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		p.closers = append(p.closers, closing(c.Close))
	}
	return all, nil
}

type closing func()

func (c closing) Close() error { c(); return nil }

func counter(i int) string { return "count:" + strconv.Itoa(i) }

func eventsBySession(ctx context.Context, at Place) (float64, error) {
	p, err := several(ctx, 4)
	if err != nil {
		return 0, err
	}
	defer p.close()
	sc, err := p.scattered(scatter.Config{Shard: scatter.RoundRobin()}, func(*rueidis.ClientOption) {})
	if err != nil {
		return 0, err
	}
	defer sc.Close()
	return at.Rate(ctx, func(ctx context.Context, _ int) error { return event(ctx, sc) })
}

func event(ctx context.Context, sc *scatter.Scatter) error {
	session := sc.Session("")
	for i := range eventCounters {
		session.Add(counter(i), 1)
	}
	return session.Flush(ctx)
}

// cpuOf is how much of a server's CPU one of the calls costs that write makes, one after
// the other.
func cpuOf(write func(ctx context.Context, p *plain) (func(context.Context) error, error)) Measure {
	return func(ctx context.Context, at Place) (float64, error) {
		p, err := several(ctx, 1)
		if err != nil {
			return 0, err
		}
		defer p.close()
		one, err := write(ctx, p)
		if err != nil {
			return 0, err
		}
		watchers, err := p.clients()
		if err != nil {
			return 0, err
		}
		if err := one(ctx); err != nil { // so that all is there
			return 0, err
		}
		before, err := cpu(ctx, watchers[0])
		if err != nil {
			return 0, err
		}
		calls := 0
		for start := time.Now(); time.Since(start) < at.Time; calls++ {
			if err := one(ctx); err != nil {
				return 0, err
			}
		}
		after, err := cpu(ctx, watchers[0])
		return (after - before) * 1e6 / float64(calls), err
	}
}

// cpu returns how many seconds of CPU a server has used.
func cpu(ctx context.Context, c rueidis.Client) (sum float64, err error) {
	info, err := c.Do(ctx, c.B().Info().Section("cpu").Build()).ToString()
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			x, wrong := strconv.ParseFloat(value, 64)
			sum, err = sum+x, errors.Join(err, wrong)
		}
	}
	return sum, err
}

func eventsOfOne(_ context.Context, p *plain) (func(context.Context) error, error) {
	sc, err := p.scattered(scatter.Config{}, func(*rueidis.ClientOption) {})
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, closing(sc.Close))
	return func(ctx context.Context) error { return event(ctx, sc) }, nil
}

// increments is the least that a script does that counts up what it is given.
var increments = rueidis.NewLuaScript(`for i = 1, #ARGV, 2 do redis.call('INCRBY', ARGV[i], ARGV[i + 1]) end return 'done'`)

func incrementsOfOne(_ context.Context, p *plain) (func(context.Context) error, error) {
	clients, err := p.clients()
	if err != nil {
		return nil, err
	}
	var args []string
	for i := range eventCounters {
		args = append(args, counter(i), "1")
	}
	return func(ctx context.Context) error {
		return increments.Exec(ctx, clients[0], []string{counter(0)}, args).Error()
	}, nil
}

// eventsByKey is the seed's first stab: every counter has its own of n servers, so that
// an event goes to all of them. With one server it is what that does without a token.
func eventsByKey(n int) Measure {
	return func(ctx context.Context, at Place) (float64, error) {
		p, err := several(ctx, n)
		if err != nil {
			return 0, err
		}
		defer p.close()
		clients, err := p.clients()
		if err != nil {
			return 0, err
		}
		return at.Rate(ctx, func(ctx context.Context, _ int) error { return eventToAll(ctx, clients) })
	}
}

func eventToAll(ctx context.Context, clients []rueidis.Client) error {
	pipelines := make([]rueidis.Commands, len(clients))
	for i := range eventCounters {
		to := scatter.JavaHash(counter(i), len(clients))
		pipelines[to] = append(pipelines[to], clients[to].B().Incrby().Key(counter(i)).Increment(1).Build())
	}
	var sending sync.WaitGroup
	errs := make(chan error, len(clients))
	for to, pipeline := range pipelines {
		sending.Go(func() { errs <- FirstError(clients[to].DoMulti(ctx, pipeline...)) })
	}
	sending.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// readingOf is how long it takes to read all counters of so many distant servers.
func readingOf(n int) Measure {
	return func(ctx context.Context, at Place) (float64, error) {
		p, err := several(ctx, n)
		if err != nil {
			return 0, err
		}
		defer p.close()
		sc, err := p.scattered(scatter.Config{Shard: scatter.RoundRobin()}, func(o *rueidis.ClientOption) {
			dial := o.DialCtxFn
			o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
				conn, err := dial(ctx, addr, d, t)
				if err != nil {
					return nil, err
				}
				return newDistant(conn), nil
			}
		})
		if err != nil {
			return 0, err
		}
		defer sc.Close()
		for range n {
			if err := event(ctx, sc); err != nil {
				return 0, err
			}
		}
		var readings int
		start := time.Now()
		for ; time.Since(start) < at.Time; readings++ {
			g := sc.Gather()
			for i := range eventCounters {
				g.Int(counter(i))
			}
			if err := g.Read(ctx); err != nil {
				return 0, err
			}
		}
		return time.Since(start).Seconds() * 1000 / float64(readings), nil
	}
}

// distant is a connection over a longer wire: what comes is delivered later.
type distant struct {
	net.Conn

	come chan delivery
	rest []byte
}

type delivery struct {
	data []byte
	due  time.Time
	err  error
}

func newDistant(conn net.Conn) *distant {
	d := &distant{Conn: conn, come: make(chan delivery, 1000)}
	go func() {
		for {
			buffer := make([]byte, 16<<10)
			n, err := conn.Read(buffer)
			d.come <- delivery{buffer[:n], time.Now().Add(away), err}
			if err != nil {
				return
			}
		}
	}()
	return d
}

// Read delivers what has come, when it is due.
func (d *distant) Read(b []byte) (int, error) {
	if len(d.rest) == 0 {
		p := <-d.come
		time.Sleep(time.Until(p.due))
		if p.err != nil {
			d.come <- p // for the next one who asks
			return 0, p.err
		}
		d.rest = p.data
	}
	n := copy(b, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}
