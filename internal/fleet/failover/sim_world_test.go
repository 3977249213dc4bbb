package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
)

// world is a whole fleet in memory: servers, a directory, clients, agents, and the
// network between them. It runs on the clock of a synctest bubble. The events are
// drawn from the seed: a schedule can be run again.
//
// The agents are the real ones. Everything that they and the clients do to others
// goes through carry, which is the network.
type world struct {
	schedule

	mu        sync.Mutex
	rng       *rand.Rand // for the schedule's own goroutine
	start     time.Time
	hosts     int
	drawn     map[[2]int]uint64 // how often something was drawn for two hosts
	cuts      map[[2]int]bool
	held      []*call // calls that a cut holds up
	events    []event
	wrong     []string
	servers   []*server
	byName    sync.Map // the same servers
	dir       *simDirectory
	agents    []*agency
	clients   []*client
	working   sync.WaitGroup // agents and clients
	ledger    ledger
	turned    map[int]turn          // by partition
	calm      bool                  // no more faults
	calmed    time.Time             // since when
	over      bool                  // nothing is started any more
	promoters []*process            // the processes that had a member lead, in order
	healed    time.Duration         // how long it took until all was well
	forgets   bool                  // an agent died when the power was lost, with the beats that it knew
	files     int                   // that a person has chosen
	dark      map[int]time.Duration // when partitions lost more members than a confirmed write needs
}

// schedule is the plan of a run.
type schedule struct {
	seed      uint64
	store     store         // of the directory
	confirmed int           // how many replicas clients wait for
	replicas  int           // of each partition
	parts     int           // partitions
	spares    int           // servers of each partition that are no members yet
	every     time.Duration // how often agents look
	settings  directory.Settings
	faults    int
	only      []fault  // those that it draws from; nil for all
	restores  bool     // the directory may be restored from an old file
	free      bool     // masters take writes without replicas, too
	busy      bool     // clients are often held up
	leaders   bool     // all agents lead while there are faults
	step      *step    // the fault of the first agent at one of its calls
	sabotage  sabotage // the protections that are taken out
	script    func(w *world)
	person    bool // a person decides about partitions that wait for that
}

// event is an entry of the history. It is formatted only if it is printed.
type event struct {
	at     time.Duration
	format string
	args   []any
}

func (w *world) say(format string, args ...any) {
	w.events = append(w.events, event{time.Since(w.start), format, args})
}

// fail notes that something is wrong.
func (w *world) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.wrong = append(w.wrong, text)
	w.say("WRONG: %s", text)
}

// history returns all that happened.
func (w *world) history() string {
	var b strings.Builder
	for _, e := range w.events {
		fmt.Fprintf(&b, "%12.6f  %s\n", e.at.Seconds(), fmt.Sprintf(e.format, e.args...))
	}
	return b.String()
}

// host is a process on the network: a server, the directory, an agent, a client.
type host struct {
	id      int
	net     int // where it is on the network
	name    string
	down    bool
	paused  bool
	slow    time.Duration // how much longer answers take at most
	kills   []int         // the hosts that ended all others' connections, in order
	queue   []*call       // the calls that came while it was paused
	trouble time.Time     // when it last was not well
}

func (w *world) newHost(name string) host {
	w.hosts++
	return host{id: w.hosts, net: w.hosts, name: name}
}

// draw returns a number below n that depends on the seed, on two hosts and on how
// often it was drawn for them, and not on the order in which goroutines run.
func (w *world) draw(from, to *host, n int64) int64 {
	key := [2]int{from.id, to.id}
	w.drawn[key]++
	x := w.seed*0x9e3779b97f4a7c15 ^ uint64(from.id)<<48 ^ uint64(to.id)<<32 ^ w.drawn[key]
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int64((x ^ x>>31) >> 1 % uint64(n))
}

// delay is how long something is under way.
func (w *world) delay(from, to *host) time.Duration {
	d := 100*time.Microsecond + time.Duration(w.draw(from, to, int64(400*time.Microsecond)))
	switch odd := w.draw(from, to, 1000); {
	case odd < 3:
		d += time.Duration(w.draw(from, to, int64(150*time.Millisecond)))
	case odd < 30:
		d += time.Duration(w.draw(from, to, int64(20*time.Millisecond)))
	}
	if slow := max(from.slow, to.slow); slow > 0 {
		d += time.Duration(w.draw(from, to, int64(slow)))
	}
	return d
}

// Errors that the network returns to a caller.
var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset")
	errSilent  = errors.New("no answer")
)

// silence is after how long a connection is given up on which nothing is answered,
// as the real client does.
const silence = 2 * time.Second

// call is something that is sent to a host and done there.
type call struct {
	from, to *host
	kills    int // of the host, when it was sent
	do       func() error
	over     bool
	err      error
	done     chan struct{} // nil if no caller waits
}

func (c *call) answer(err error) {
	c.over, c.err = true, err
	if c.done != nil {
		close(c.done)
	}
}

// killed reports whether another host ended the connection.
func (c *call) killed() bool {
	for _, by := range c.to.kills[c.kills:] {
		if by != c.from.id {
			return true
		}
	}
	return false
}

// carry has a host do something and brings back the error. A caller that gives up
// does not stop a call under way: it may be done later.
func (w *world) carry(ctx context.Context, from, to *host, do func() error) error {
	w.mu.Lock()
	c := &call{from: from, to: to, kills: len(to.kills), do: do}
	out, back := w.delay(from, to), w.delay(from, to)
	w.mu.Unlock()
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > silence {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, silence, errSilent)
		defer cancel()
	}
	sent := time.Now()
	if !retry.Sleep(ctx, out) {
		w.later(out-time.Since(sent), func() { w.arrive(c) })
		return context.Cause(ctx)
	}
	w.mu.Lock()
	w.arrive(c)
	if !c.over {
		c.done = make(chan struct{})
	}
	over := c.over
	w.mu.Unlock()
	if !over {
		select {
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	w.mu.Lock()
	lost := w.isCut(from, to)
	w.mu.Unlock()
	if lost {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if !retry.Sleep(ctx, back) {
		return context.Cause(ctx)
	}
	return c.err
}

// later does something after a while, with the world to itself.
func (w *world) later(d time.Duration, do func()) {
	time.AfterFunc(max(d, 0), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	})
}

// arrive is a call at the end of its way.
func (w *world) arrive(c *call) {
	switch {
	case w.isCut(c.from, c.to):
		w.held = append(w.held, c)
	case c.to.down:
		c.answer(errRefused)
	case c.killed():
		c.answer(errReset)
	case c.to.paused:
		c.to.queue = append(c.to.queue, c)
	default:
		c.answer(c.do())
	}
}

func pair(a, b *host) [2]int { return [2]int{min(a.net, b.net), max(a.net, b.net)} }

func (w *world) isCut(a, b *host) bool { return w.cuts[pair(a, b)] }

// cut lets nothing through between two hosts.
func (w *world) cut(a, b *host) {
	w.cuts[pair(a, b)] = true
	a.trouble, b.trouble = time.Now(), time.Now()
}

// mend lets new calls through, and some of those that were held up.
func (w *world) mend(a, b *host) {
	if !w.isCut(a, b) {
		return
	}
	delete(w.cuts, pair(a, b))
	a.trouble, b.trouble = time.Now(), time.Now()
	var still []*call
	for _, c := range w.held {
		switch {
		case pair(c.from, c.to) != pair(a, b):
			still = append(still, c)
		case w.draw(a, b, 2) == 0:
			w.later(time.Duration(w.draw(a, b, int64(300*time.Millisecond))), func() { w.arrive(c) })
		}
	}
	w.held = still
}

// pause stops a host; calls to it wait there.
func (w *world) pause(h *host) {
	if !h.down && !h.paused {
		h.paused, h.trouble = true, time.Now()
		w.say("%s is stopped", h.name)
	}
}

// resume lets it go on. It does everything that waited for it, one connection after
// the other, in no certain order.
func (w *world) resume(h *host) {
	if !h.paused {
		return
	}
	h.paused, h.trouble = false, time.Now()
	w.say("%s goes on, %d calls wait", h.name, len(h.queue))
	queue := h.queue
	h.queue = nil
	first := int(w.draw(h, h, 1<<20))
	for len(queue) > 0 {
		from := queue[first%len(queue)].from
		var rest []*call
		for _, c := range queue {
			if c.from == from {
				w.arrive(c)
			} else {
				rest = append(rest, c)
			}
		}
		queue = rest
	}
}

// kill ends a host. Connections to it are refused.
func (w *world) kill(h *host) {
	h.down, h.paused, h.trouble = true, false, time.Now()
	queue := h.queue
	h.queue = nil
	h.kills = append(h.kills, 0)
	for _, c := range queue {
		c.answer(errReset)
	}
}

// with does something while nothing else happens.
func (w *world) with(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}
