package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
)

const (
	// What an order is.
	marksInOrder = 3
	jobsInOrder  = 2

	// Entries stay for a random time between these two, and one in stayEvery for an
	// hour.
	leastStay = 150 * time.Millisecond
	mostStay  = 900 * time.Millisecond
	stayEvery = 4

	// clockSlack is by how much a server's clock and our own may be apart after the
	// time that an entry stays: it is the same machine.
	clockSlack = 5 * time.Millisecond

	// takeAtOnce is how many marks and messages a turn takes at most.
	takeAtOnce = 100
)

// customer is a name under which there is one of each structure, and what the scene
// itself knows of it.
type customer struct {
	name    string
	market  *market
	offices [2]office // at each branch

	mu      sync.Mutex
	marks   map[string]bool // whether each was handed out
	jobs    map[string]bool // whether each message was handled
	entries []entry
	served  bool  // somebody has its lease
	fence   int64 // of the last one who had it

	// In the end.
	left  int64 // marks and messages that are not done
	acked int64
}

// office is what a branch has of a customer's structures.
type office struct {
	branch *branch
	marks  *ick.Ick
	jobs   *fairqueue.Queue
	hash   *expiry.Hashes
	values *pinned.Keys
}

// entry is a field of a hash, or a value, that was stored.
type entry struct {
	name, value string
	inHash      bool

	// Its time is over between these two.
	earliest, latest time.Time
}

func (m *market) newCustomer(ctx context.Context, name string) (*customer, error) {
	c := &customer{name: name, market: m, marks: make(map[string]bool), jobs: make(map[string]bool)}
	for i, b := range m.branches {
		var err error
		o := office{branch: b}
		if o.marks, err = ick.New(b.client, name, ick.Config{}); err != nil {
			return nil, err
		}
		if o.jobs, err = fairqueue.New(b.client, name, fairqueue.Config{}); err != nil {
			return nil, err
		}
		if o.hash, err = expiry.Open(ctx, b.client, name, expiry.Config{Shards: 1}); err != nil {
			return nil, err
		}
		if o.values, err = pinned.Open(ctx, b.client, name, pinned.Config{Shards: 1}); err != nil {
			return nil, err
		}
		c.offices[i] = o
	}
	return c, nil
}

// tags returns those of all its structures: its name, and that of the one shard of
// its hashes and of its values.
func (c *customer) tags() []string { return []string{c.name, c.name + "/0"} }

// office returns either.
func (c *customer) office() *office { return &c.offices[rand.IntN(len(c.offices))] }

// order makes work: marks, messages and entries.
func (c *customer) order(ctx context.Context) error {
	o, t := c.office(), &c.market.tally
	if _, err := o.marks.AddNow(ctx, c.begin(c.marks, t.marks.Add, marksInOrder)...); err != nil {
		return fmt.Errorf("mark for %s: %w", c.name, err)
	}
	var drafts []fairqueue.Draft
	for _, number := range c.begin(c.jobs, t.jobs.Add, jobsInOrder) {
		drafts = append(drafts, fairqueue.Draft{Tenant: c.name, Body: []byte(number)})
	}
	if _, err := o.jobs.WriteBatch(ctx, drafts...); err != nil {
		return fmt.Errorf("write to the queue of %s: %w", c.name, err)
	}
	if err := c.store(ctx, o, true); err != nil {
		return err
	}
	return c.store(ctx, o, false)
}

// begin enters n numbers of things that are about to be made.
func (c *customer) begin(known map[string]bool, count func(int64) int64, n int64) (numbers []string) {
	last := count(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range n {
		number := strconv.FormatInt(last-i, 10)
		numbers = append(numbers, number)
		known[number] = false
	}
	return numbers
}

// store stores an entry.
func (c *customer) store(ctx context.Context, o *office, inHash bool) (err error) {
	stays := leastStay + rand.N(mostStay-leastStay)
	if rand.IntN(stayEvery) == 0 {
		stays = time.Hour
	}
	e := entry{name: strconv.FormatUint(rand.Uint64(), 36), value: strconv.FormatUint(rand.Uint64(), 36), inHash: inHash}
	e.earliest = time.Now().Add(stays - clockSlack)
	if inHash {
		_, err = o.hash.Set(ctx, c.name, e.name, []byte(e.value), expiry.SetConfig{TTL: stays})
	} else {
		_, err = o.values.Set(ctx, e.name, []byte(e.value), stays, pinned.SetConfig{})
	}
	if err != nil {
		return fmt.Errorf("store for %s: %w", c.name, err)
	}
	e.latest = time.Now().Add(stays + clockSlack)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = append(c.entries, e)
	return nil
}

// serve takes the customer's lease and does what there is to do. Whoever does not
// get it goes on.
func (c *customer) serve(ctx context.Context) error {
	o, t := c.office(), &c.market.tally
	held, err := o.branch.locker.Acquire(ctx, c.name, turnFor, lease.AcquireConfig{})
	if errors.Is(err, lease.ErrHeld) {
		t.away.Add(1)
		return nil
	}
	if err != nil {
		return fmt.Errorf("take the lease of %s: %w", c.name, err)
	}
	t.turns.Add(1)
	c.enter(held.Fence)
	_, err = c.work(ctx, o)
	c.exit()
	if err := errors.Join(err, c.market.release(ctx, held)); err != nil {
		return err
	}
	for range 2 {
		if e, ok := c.anEntry(); ok {
			if err := c.read(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter notes that somebody has the lease, who may be the only one, and has a larger
// fence than all before.
func (c *customer) enter(fence int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := &c.market.tally; c.served || fence <= c.fence {
		t.broke(&t.twice, "the lease of %s was taken with fence %d after fence %d, still held: %v", c.name, fence, c.fence, c.served)
	}
	c.served, c.fence = true, max(c.fence, fence)
}

func (c *customer) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served = false
}

// work does what there is to do, some of it, and reports whether there was anything.
func (c *customer) work(ctx context.Context, o *office) (worked bool, err error) {
	batch, err := o.marks.Reserve(ctx, takeAtOnce)
	if err != nil {
		return false, fmt.Errorf("reserve for %s: %w", c.name, err)
	}
	if members := batch.Members(); len(members) > 0 {
		worked = true
		c.done(c.marks, members...)
		if _, err := o.marks.Commit(ctx, batch.Token, members...); err != nil {
			return worked, fmt.Errorf("commit for %s: %w", c.name, err)
		}
	}
	messages, err := o.jobs.Read(ctx, fairqueue.ReadConfig{Max: takeAtOnce})
	if errors.Is(err, fairqueue.ErrEmpty) {
		return worked, nil
	}
	if err != nil {
		return worked, fmt.Errorf("read the queue of %s: %w", c.name, err)
	}
	var receipts []string
	for _, message := range messages {
		c.done(c.jobs, string(message.Body))
		receipts = append(receipts, message.Receipt)
	}
	if _, err := o.jobs.Ack(ctx, receipts...); err != nil {
		return true, fmt.Errorf("acknowledge for %s: %w", c.name, err)
	}
	return true, nil
}

// done notes what was handed out.
func (c *customer) done(known map[string]bool, numbers ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, number := range numbers {
		known[number] = true
	}
}

// anEntry returns one of those stored last.
func (c *customer) anEntry() (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.entries)
	if n == 0 {
		return entry{}, false
	}
	return c.entries[n-1-rand.IntN(min(n, 16))], true
}

// read reads an entry, and judges whether it may be there.
func (c *customer) read(ctx context.Context, e entry) error {
	o := c.office()
	asked := time.Now()
	var value []byte
	var err error
	if e.inHash {
		value, _, err = o.hash.Get(ctx, c.name, e.name)
	} else {
		value, _, err = o.values.Get(ctx, e.name)
	}
	answered := time.Now()
	if err != nil && !errors.Is(err, millrace.ErrNotFound) {
		return fmt.Errorf("read for %s: %w", c.name, err)
	}
	c.market.tally.judge(e, err == nil, string(value), asked, answered)
	return nil
}

// judge counts what a read said of an entry.
func (t *tally) judge(e entry, found bool, value string, asked, answered time.Time) {
	t.reads.Add(1)
	switch {
	case found && asked.After(e.latest):
		t.broke(&t.late, "entry %s was found %s after its time", e.name, asked.Sub(e.latest))
	case found && value != e.value:
		t.broke(&t.early, "entry %s was stored as %q and found as %q", e.name, e.value, value)
	case !found && answered.Before(e.earliest):
		t.broke(&t.early, "entry %s was missing %s before its time was over", e.name, e.earliest.Sub(answered))
	case found:
		t.found.Add(1)
	case asked.After(e.latest):
		t.over.Add(1)
	}
}

// settle does what is left to do, asks how much remains all the same, and reads all
// entries once more.
func (c *customer) settle(ctx context.Context) error {
	o := c.office()
	for worked := true; worked; {
		var err error
		if worked, err = c.work(ctx, o); err != nil {
			return err
		}
	}
	marks, err := o.marks.Stats(ctx)
	if err != nil {
		return err
	}
	jobs, err := o.jobs.Stats(ctx)
	if err != nil {
		return err
	}
	c.left = int64(marks.Total + marks.Parked + jobs.Waiting + jobs.InFlight + jobs.Delayed + jobs.Dead)
	c.acked = jobs.Counters.Acked
	for _, e := range c.entries {
		if err := c.read(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
