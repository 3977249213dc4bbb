package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/lease"
)

const (
	// firstCustomers is how many there are at first, and customerEvery is how often
	// another one comes.
	firstCustomers = 40
	customerEvery  = 20 * time.Millisecond

	// How many goroutines make work for customers, do it, and give out tickets, and
	// for how long each rests after a round, so that two CPUs are busy and no more.
	makeWorkers   = 5
	makeRest      = 8 * time.Millisecond
	serveWorkers  = 5
	serveRest     = 5 * time.Millisecond
	ticketWorkers = 2
	ticketRest    = 5 * time.Millisecond

	// turnFor is for how long a lease is taken: for longer than anything here lasts.
	turnFor = 5 * time.Minute

	// atOnce is how many goroutines settle and look at the end.
	atOnce = 16
)

// market is the scene's load: customers, who have one of each structure, and
// tickets, each of which is a lease under a name of its own. It works from two
// branches.
type market struct {
	branches [2]*branch
	tally    tally

	mu        sync.Mutex
	customers []*customer
	tickets   []*ticket
}

// branch is one who uses the fleet, with a client of its own. So there are two
// views of the fleet, of which either may be behind.
type branch struct {
	fleet  *fleet.Fleet
	client rueidis.Client
	locker *lease.Locker
}

// tally counts what all customers have and what became of it.
type tally struct {
	customers, tickets, marks, jobs, reads atomic.Int64

	turns atomic.Int64 // in which a customer was served
	away  atomic.Int64 // who came when it was not their turn
	twice atomic.Int64 // leases that two had at the same time
	lost  atomic.Int64 // leases that ended before their holder gave them back

	found atomic.Int64 // reads that found an entry
	over  atomic.Int64 // reads that came after its time and found nothing
	late  atomic.Int64 // what was found after its time
	early atomic.Int64 // what was missing, or another value, before its time

	mu       sync.Mutex
	failures []string // what exactly was twice, lost, late or early, the first few
}

// broke counts one of these.
func (t *tally) broke(count *atomic.Int64, format string, args ...any) {
	count.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failures) < maxFailures {
		t.failures = append(t.failures, fmt.Sprintf(format, args...))
	}
}

// ticket is one that was given out.
type ticket struct {
	held       *lease.Lease
	other      *branch // who did not get it
	asked, got time.Time
}

// newMarket opens the branches. Whoever calls it calls leave.
func newMarket(ctx context.Context, url string) (*market, error) {
	m := &market{}
	for i := range m.branches {
		b, err := newBranch(ctx, url)
		if err != nil {
			m.leave()
			return nil, err
		}
		m.branches[i] = b
	}
	return m, nil
}

func newBranch(ctx context.Context, url string) (*branch, error) {
	f, err := fleet.Dial(ctx, url, fleet.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	b := &branch{fleet: f, client: f.Client()}
	if b.locker, err = lease.New(b.client, lease.Config{}); err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

// leave closes the branches.
func (m *market) leave() {
	for _, b := range m.branches {
		if b != nil {
			b.fleet.Close()
		}
	}
}

// begin brings the first customers.
func (m *market) begin(ctx context.Context) error {
	return inParallel(ctx, make([]struct{}, firstCustomers), func(ctx context.Context, _ struct{}) error { return m.welcome(ctx) })
}

// open starts the load, and returns a function that ends it when all calls under way
// are done. It may be called again.
func (m *market) open(ctx context.Context, failed func(error)) (closeMarket func()) {
	resting, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	repeat := func(workers int, rest time.Duration, round func(context.Context) error) {
		for range workers {
			work.Go(func() {
				for retry.Sleep(resting, rest) {
					if err := round(ctx); err != nil {
						failed(err)
						return
					}
				}
			})
		}
	}
	repeat(1, customerEvery, m.welcome)
	repeat(makeWorkers, makeRest, func(ctx context.Context) error { return m.pick().order(ctx) })
	repeat(serveWorkers, serveRest, func(ctx context.Context) error { return m.pick().serve(ctx) })
	repeat(ticketWorkers, ticketRest, m.giveOut)
	return func() {
		stop()
		work.Wait()
	}
}

// pick returns any customer.
func (m *market) pick() *customer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.customers[rand.IntN(len(m.customers))]
}

// welcome brings another customer, who has a first order.
func (m *market) welcome(ctx context.Context) error {
	c, err := m.newCustomer(ctx, "customer:"+strconv.FormatInt(m.tally.customers.Add(1), 10))
	if err != nil {
		return err
	}
	if err := c.order(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	m.customers = append(m.customers, c)
	m.mu.Unlock()
	return nil
}

// giveOut has both branches ask for a new ticket at the same time. One gets it.
func (m *market) giveOut(ctx context.Context) error {
	name := "ticket:" + strconv.FormatInt(m.tally.tickets.Add(1), 10)
	t := &ticket{asked: time.Now()}
	var leases [2]*lease.Lease
	var errs [2]error
	var asking sync.WaitGroup
	for i, b := range m.branches {
		asking.Go(func() { leases[i], errs[i] = b.locker.Acquire(ctx, name, turnFor, lease.AcquireConfig{}) })
	}
	asking.Wait()
	t.got = time.Now()
	for i := range leases {
		if errs[i] != nil && !errors.Is(errs[i], lease.ErrHeld) {
			return fmt.Errorf("take %s: %w", name, errs[i])
		}
		if errs[i] == nil {
			t.held, t.other = leases[i], m.branches[1-i]
		}
	}
	switch {
	case errs[0] == nil && errs[1] == nil:
		m.tally.broke(&m.tally.twice, "%s was taken by both branches", name)
	case t.held == nil:
		return fmt.Errorf("take %s: each branch was told that the other one has it", name)
	}
	m.mu.Lock()
	m.tickets = append(m.tickets, t)
	m.mu.Unlock()
	return nil
}

// tags returns what has its place in the fleet by now.
func (m *market) tags() (tags []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.customers {
		tags = append(tags, c.tags()...)
	}
	for _, t := range m.tickets {
		tags = append(tags, t.held.Name)
	}
	return tags
}

// settle has everything done that is left, reads every entry once more, and takes
// the tickets back. The market is closed.
func (m *market) settle(ctx context.Context) error {
	if err := inParallel(ctx, m.customers, func(ctx context.Context, c *customer) error { return c.settle(ctx) }); err != nil {
		return err
	}
	return inParallel(ctx, m.tickets, m.takeBack)
}

// takeBack looks at a ticket through the branch that did not get it, and returns it.
func (m *market) takeBack(ctx context.Context, t *ticket) error {
	info, err := t.other.locker.Show(ctx, t.held.Name)
	if err != nil {
		return err
	}
	if !info.Held || info.Fence != t.held.Fence {
		m.tally.broke(&m.tally.lost, "%s was taken with fence %d, and in the end has fence %d, held: %v", t.held.Name, t.held.Fence, info.Fence, info.Held)
		return nil
	}
	return m.release(ctx, t.held)
}

// release gives a lease back, and counts it if it had been lost.
func (m *market) release(ctx context.Context, held *lease.Lease) error {
	err := held.Release(ctx)
	if errors.Is(err, lease.ErrLost) {
		m.tally.broke(&m.tally.lost, "%s, fence %d: %v", held.Name, held.Fence, err)
		return nil
	}
	return err
}

// inParallel does something with all items, several at a time, until one fails.
func inParallel[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var work sync.WaitGroup
	for range atOnce {
		work.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(items) {
					return
				}
				if err := do(ctx, items[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}
