package bench

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/scatter"
)

// eventCounters is how many counters an event counts up: the seed's.
const eventCounters = 30

// away is how far off distant servers are.
const away = 5 * time.Millisecond

func scatterFigures() []Figure {
	return []Figure{
		{What: "scatter, events of 30 counters over 4 servers, 50 goroutines", Unit: "events/s", Sides: []Side{
			{Name: "session", Measure: rated(func(ctx context.Context, b *B) op {
				return events(b.scattered(b.several(ctx, 4)))
			})},
			{Name: "each counter to its own server", Goal: AtLeast(0.7), Measure: rated(eventsByKey(4))},
			{Name: "bare pipeline to one server", Measure: rated(eventsByKey(1))},
		}},
		{What: "scatter, a server's CPU for an event of 30 counters", Unit: "us", Sides: []Side{
			{Name: "session", Measure: cpuOf(func(b *B, servers []rueidis.ClientOption) op { return events(b.scattered(servers)) })},
			{Name: "30 INCRBY in a script", Goal: AtMost(1.8), Measure: cpuOf(incrementsOfOne)},
		}},
		{What: "scatter, a reading of 30 counters, servers 5 ms away", Unit: "ms", Sides: []Side{
			{Name: "8 servers", Measure: readingOf(8)},
			{Name: "one server", Goal: AtMost(1.5), Measure: readingOf(1)},
		}},
	}
}

// several starts servers, which are stopped at the end, and returns how to connect to them.
func (b *B) several(ctx context.Context, n int) (servers []rueidis.ClientOption) {
	for range n {
		servers = append(servers, must.Get(dial.Options(b.start(ctx, redisproc.Config{}).URL())))
	}
	return servers
}

// scattered returns a group of servers.
func (b *B) scattered(options []rueidis.ClientOption) *scatter.Scatter {
	var servers []scatter.Server
	for i, option := range options {
		servers = append(servers, scatter.Server{Name: strconv.Itoa(i), Option: option})
	}
	sc := must.Get(scatter.New(servers, scatter.Config{Shard: scatter.RoundRobin()}))
	b.closeAfter(sc)
	return sc
}

// connected connects to all servers until the end.
func (b *B) connected(options []rueidis.ClientOption) (clients []rueidis.Client) {
	for _, option := range options {
		c := must.Get(rueidis.NewClient(option))
		b.closeAfter(c)
		clients = append(clients, c)
	}
	return clients
}

func counterName(i int) string { return "count:" + strconv.Itoa(i) }

// events counts up all counters with one session each time.
func events(sc *scatter.Scatter) op {
	return func(ctx context.Context, _ int) error {
		session := sc.Session("")
		for i := range eventCounters {
			session.Add(counterName(i), 1)
		}
		return session.Flush(ctx)
	}
}

// eventsByKey has for every counter its own of n servers, so that an event goes to all
// of them. With one server it is the figure without a token.
func eventsByKey(n int) func(context.Context, *B) op {
	return func(ctx context.Context, b *B) op {
		clients := b.connected(b.several(ctx, n))
		return func(ctx context.Context, _ int) error {
			pipelines := make([]rueidis.Commands, n)
			for i := range eventCounters {
				to := scatter.JavaHash(counterName(i), n)
				pipelines[to] = append(pipelines[to], clients[to].B().Incrby().Key(counterName(i)).Increment(1).Build())
			}
			var sending sync.WaitGroup
			replies := make([]rueidis.RedisResult, n)
			for to, pipeline := range pipelines {
				sending.Go(func() {
					for _, reply := range clients[to].DoMulti(ctx, pipeline...) {
						if replies[to] = reply; reply.Error() != nil {
							return
						}
					}
				})
			}
			sending.Wait()
			return firstError(replies)
		}
	}
}

// cpuOf is how much of a server's CPU, in microseconds, one call costs of those that
// prepare returns, one after the other.
func cpuOf(prepare func(b *B, servers []rueidis.ClientOption) op) Measure {
	return func(ctx context.Context, b *B) float64 {
		servers := b.several(ctx, 1)
		c := b.connected(servers)[0]
		used := func() float64 { return Info(ctx, c, "cpu", "used_cpu_sys") + Info(ctx, c, "cpu", "used_cpu_user") }
		call := prepare(b, servers)
		must.Do(call(ctx, 0)) // so that all keys exist
		before, calls := used(), 0
		for start := time.Now(); time.Since(start) < b.Time; calls++ {
			must.Do(call(ctx, 0))
		}
		return (used() - before) * 1e6 / float64(calls)
	}
}

// increments is the least that a script does that counts up its arguments.
var increments = rueidis.NewLuaScript(`for i = 1, #ARGV, 2 do redis.call('INCRBY', ARGV[i], ARGV[i + 1]) end return 'done'`)

func incrementsOfOne(b *B, servers []rueidis.ClientOption) op {
	c := b.connected(servers)[0]
	var args []string
	for i := range eventCounters {
		args = append(args, counterName(i), "1")
	}
	return func(ctx context.Context, _ int) error {
		return increments.Exec(ctx, c, []string{counterName(0)}, args).Error()
	}
}

// readingOf is how many milliseconds it takes to read all counters of so many distant servers.
func readingOf(n int) Measure {
	return func(ctx context.Context, b *B) float64 {
		servers := b.several(ctx, n)
		for i := range servers {
			dial := servers[i].DialCtxFn
			servers[i].DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
				conn, err := dial(ctx, addr, d, t)
				if err != nil {
					return nil, err
				}
				return distantConn(conn), nil
			}
		}
		sc := b.scattered(servers)
		for range n {
			must.Do(events(sc)(ctx, 0))
		}
		readings, start := 0, time.Now()
		for ; time.Since(start) < b.Time; readings++ {
			g := sc.Gather()
			for i := range eventCounters {
				g.Int(counterName(i))
			}
			must.Do(g.Read(ctx))
		}
		return time.Since(start).Seconds() * 1000 / float64(readings)
	}
}

// distant is a connection over a longer wire: it delays all data from the server by the same
// time.
type distant struct {
	net.Conn

	arrived chan arrival // closed after an error
	rest    []byte       // of the arrival that is being delivered
}

// arrival is the result of one read of the real connection: data, or an error.
type arrival struct {
	data []byte
	err  error
	at   time.Time
}

// inFlight is how many arrivals the longer wire holds. Further ones wait in the real connection.
const inFlight = 1000

func distantConn(c net.Conn) net.Conn {
	d := &distant{Conn: c, arrived: make(chan arrival, inFlight)}
	go d.receive()
	return d
}

// receive reads the connection's data until it is closed.
func (d *distant) receive() {
	defer close(d.arrived)
	for {
		buffer := make([]byte, 4096)
		n, err := d.Conn.Read(buffer)
		if d.arrived <- (arrival{data: buffer[:n], at: time.Now()}); err != nil {
			d.arrived <- arrival{err: err, at: time.Now()}
			return
		}
	}
}

// Read delivers received data when it is due. It is for one goroutine.
func (d *distant) Read(b []byte) (int, error) {
	for len(d.rest) == 0 {
		a, open := <-d.arrived
		if !open {
			return 0, net.ErrClosed
		}
		if time.Sleep(time.Until(a.at.Add(away))); a.err != nil {
			return 0, a.err
		}
		d.rest = a.data
	}
	n := copy(b, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}
