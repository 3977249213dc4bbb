package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/lease"
)

const (
	// fleetPartitions is how many the fleet begins with. Another one is added.
	fleetPartitions = 3

	// leastTickets is how many tickets are given out after that, at least. The new partition
	// should get one in six, and has none of so many once in 80 million times.
	leastTickets = 100

	// Sabotages in tests: each client has tickets of its own, or the partitions have no records of
	// their tags.
	ownTickets   = "tickets of its own for each client"
	forgetPlaces = "forget the places"
)

func fleetScene() chaos.Scene {
	return chaos.Scene{
		Name:  "fleet",
		Shows: "a partition is added to a fleet in use: no data moves, nothing is lost, and it takes its part of what is new",
		Load: "A fleet of its own: 3 partitions with a replica each, and a directory. Two clients work for customers, who have an Ick, a queue " +
			"and a lease each, and compete for tickets, which are leases with new names.",
		Accident:    "A fourth partition is added meanwhile.",
		Duration:    2500 * time.Millisecond,
		NeedsServer: "starts several servers",
		Play:        playFleet,
	}
}

// fleetPlay is one performance.
type fleetPlay struct {
	*chaos.Play

	clients [2]*fleetClient

	mu        sync.Mutex
	customers []*customer
	tickets   []*lease.Lease

	named, marks, messages, turns, away, twice, lost atomic.Int64
}

// fleetClient is a client of the fleet. There are two, so that each may know an older map.
type fleetClient struct {
	*fleet.Fleet

	client rueidis.Client
	locker *lease.Locker
}

// customer has one of each structure under its name, and the ledger's entries of it.
type customer struct {
	name   string
	ick    [2]*ick.Ick
	queue  [2]*fairqueue.Queue
	mu     sync.Mutex
	marks  map[string]bool // whether each was handed out
	bodies map[string]bool // whether each message was handled
	served bool            // a client has its lease
	fence  int64           // of the last client that had it
	acked  int64           // by the queue's own count, in the end
	left   int64
}

func playFleet(ctx context.Context, play *chaos.Play) {
	p := &fleetPlay{Play: play}
	servers := startFleet(ctx, play, devfleet.Config{
		Nodes: 2, Partitions: fleetPartitions,
		// Adding a partition takes as long as these two. They leave room for a busy machine.
		Settings: directory.Settings{ViewTTL: 300 * time.Millisecond, ReplyTimeout: 500 * time.Millisecond},
	})
	startAgents(ctx, play, servers, 1)
	for i := range p.clients {
		f := servers.Dial(ctx, &p.Stage, 0)
		p.clients[i] = &fleetClient{Fleet: f, client: f.Client(), locker: must.Get(lease.New(f.Client(), lease.Config{}))}
	}
	for range 40 {
		must.Do(p.welcome(ctx))
	}
	loading, stop := context.WithCancel(ctx)
	defer stop()
	waits := []func(){
		p.Repeat(loading, 1, chaos.Every(20*time.Millisecond), p.welcome),
		p.Repeat(loading, 4, chaos.Every(8*time.Millisecond), func(ctx context.Context) error { return p.order(ctx, p.pick()) }),
		p.Repeat(loading, 4, chaos.Every(5*time.Millisecond), func(ctx context.Context) error { return p.serve(ctx, p.pick()) }),
		p.Repeat(loading, 2, chaos.Every(5*time.Millisecond), p.giveTicket),
	}
	began := time.Now()
	p.Watch(ctx, func(context.Context) bool {
		p.show("3 partitions")
		return time.Since(began) > p.Duration/3
	})
	before := p.locate(ctx)
	p.Note("adding a partition; %v names have their place", len(before))
	adding := time.Now()
	must.Do(servers.AddPartition(ctx, 1))
	added, given := time.Since(adding), p.ticketCount()
	p.Watch(ctx, func(context.Context) bool {
		p.show("4 partitions")
		known := len(p.clients[0].Partitions()) > fleetPartitions && len(p.clients[1].Partitions()) > fleetPartitions
		return known && time.Since(adding) >= p.Duration/3 && p.ticketCount() >= given+leastTickets
	})
	stop()
	for _, wait := range waits {
		wait()
	}
	chaos.Parallel(ctx, p.customers, p.settle)
	after, homes := p.locate(ctx), takeInventory(ctx, p.clients[0].Fleet, p.Sabotage == forgetPlaces)
	chaos.Parallel(ctx, p.tickets, p.giveBack)
	p.judge(before, after, homes, added)
}

// startFleet starts a fleet that ends with the scene.
func startFleet(ctx context.Context, p *chaos.Play, cfg devfleet.Config) *devfleet.Fleet {
	cfg.Binary = p.Binary
	return devfleet.OnStage(ctx, &p.Stage, cfg)
}

// startAgents starts so many agents, until ctx ends.
func startAgents(ctx context.Context, p *chaos.Play, servers *devfleet.Fleet, n int) {
	f := servers.Dial(ctx, &p.Stage, 0)
	for range n {
		p.Go(func() error {
			if err := agent.Run(ctx, agent.Config{Fleet: f, Interval: 120 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}); ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
}

func (p *fleetPlay) show(doing string) {
	p.Show(doing, p.named.Load(), "names", p.marks.Load(), "marks", p.messages.Load(), "messages", p.turns.Load(), "leases")
}

func (p *fleetPlay) pick() *customer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.customers[rand.IntN(len(p.customers))]
}

func (p *fleetPlay) ticketCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tickets)
}

// welcome brings a new customer with a first order.
func (p *fleetPlay) welcome(ctx context.Context) (err error) {
	c := &customer{name: "customer:" + strconv.FormatInt(p.named.Add(1), 10), marks: map[string]bool{}, bodies: map[string]bool{}}
	for i, f := range p.clients {
		if c.ick[i], err = ick.New(f.client, c.name, ick.Config{}); err != nil {
			return err
		}
		if c.queue[i], err = fairqueue.New(f.client, c.name, fairqueue.Config{}); err != nil {
			return err
		}
	}
	if err := p.order(ctx, c); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.customers = append(p.customers, c)
	return nil
}

// order makes work for a customer: three marks and two messages.
func (p *fleetPlay) order(ctx context.Context, c *customer) error {
	var marks []string
	var drafts []fairqueue.Draft
	c.mu.Lock()
	for range 3 {
		mark := strconv.FormatInt(p.marks.Add(1), 10)
		marks, c.marks[mark] = append(marks, mark), false
	}
	for range 2 {
		body := strconv.FormatInt(p.messages.Add(1), 10)
		drafts, c.bodies[body] = append(drafts, fairqueue.Draft{Tenant: c.name, Body: []byte(body)}), false
	}
	c.mu.Unlock()
	i := rand.IntN(2)
	_, err := c.ick[i].AddNow(ctx, marks...)
	if err == nil {
		_, err = c.queue[i].WriteBatch(ctx, drafts...)
	}
	return err
}

// serve takes a customer's lease and works, unless another client has it.
func (p *fleetPlay) serve(ctx context.Context, c *customer) error {
	i := rand.IntN(2)
	held, err := p.clients[i].locker.Acquire(ctx, c.name, holdFor, lease.AcquireConfig{})
	if errors.Is(err, lease.ErrHeld) {
		p.away.Add(1)
		return nil
	}
	if err != nil {
		return err
	}
	p.turns.Add(1)
	c.mu.Lock()
	if c.served || held.Fence <= c.fence {
		p.twice.Add(1)
	}
	c.served, c.fence = true, held.Fence
	c.mu.Unlock()
	_, err = c.work(ctx, i)
	c.mu.Lock()
	c.served = false
	c.mu.Unlock()
	return errors.Join(err, p.giveBack(ctx, held))
}

// giveBack releases a lease, and counts it if it was lost.
func (p *fleetPlay) giveBack(ctx context.Context, held *lease.Lease) error {
	err := held.Release(ctx)
	if errors.Is(err, lease.ErrLost) {
		p.lost.Add(1)
		return nil
	}
	return err
}

// work takes marks and messages, and reports whether there were any.
func (c *customer) work(ctx context.Context, i int) (worked bool, err error) {
	batch, err := c.ick[i].Reserve(ctx, 100)
	if err != nil {
		return false, err
	}
	members := batch.Members()
	if len(members) > 0 {
		if _, err := c.ick[i].Commit(ctx, batch.Token, members...); err != nil {
			return false, err
		}
	}
	messages, err := c.queue[i].Read(ctx, fairqueue.ReadConfig{Max: 100})
	if errors.Is(err, fairqueue.ErrEmpty) {
		err = nil
	}
	if err != nil {
		return false, err
	}
	var receipts []string
	c.mu.Lock()
	for _, member := range members {
		c.marks[member] = true
	}
	for _, m := range messages {
		c.bodies[string(m.Body)] = true
		receipts = append(receipts, m.Receipt)
	}
	c.mu.Unlock()
	if len(receipts) > 0 {
		_, err = c.queue[i].Ack(ctx, receipts...)
	}
	return len(members)+len(messages) > 0, err
}

// giveTicket lets both clients ask for a new lease at the same time. One gets it.
func (p *fleetPlay) giveTicket(ctx context.Context) error {
	name := "ticket:" + strconv.FormatInt(p.named.Add(1), 10)
	var held [2]*lease.Lease
	var errs [2]error
	var asking sync.WaitGroup
	for i, f := range p.clients {
		ticket := name
		if p.Sabotage == ownTickets {
			ticket += strconv.Itoa(i)
		}
		asking.Go(func() { held[i], errs[i] = f.locker.Acquire(ctx, ticket, holdFor, lease.AcquireConfig{}) })
	}
	asking.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, err := range errs {
		switch {
		case err == nil:
			p.tickets = append(p.tickets, held[i])
		case !errors.Is(err, lease.ErrHeld):
			return fmt.Errorf("take %s: %w", name, err)
		}
	}
	if errs[0] == nil && errs[1] == nil {
		p.twice.Add(1)
		p.Fail("%s was taken by both clients", name)
	}
	return nil
}

// settle works off the rest, and counts the items that remain all the same.
func (p *fleetPlay) settle(ctx context.Context, c *customer) error {
	for worked := true; worked; {
		var err error
		if worked, err = c.work(ctx, 0); err != nil {
			return err
		}
	}
	marks, err := c.ick[0].Stats(ctx)
	if err != nil {
		return err
	}
	messages, err := c.queue[0].Stats(ctx)
	c.left, c.acked = int64(marks.Total+marks.Parked+held(messages)), messages.Counters.Acked
	return err
}

// locate asks the fleet where each name has its place.
func (p *fleetPlay) locate(ctx context.Context) map[string]int {
	p.mu.Lock()
	var tags []string
	for _, c := range p.customers {
		tags = append(tags, c.name)
	}
	for _, t := range p.tickets {
		tags = append(tags, t.Name)
	}
	p.mu.Unlock()
	places := map[string]int{}
	chaos.Parallel(ctx, tags, func(ctx context.Context, tag string) error {
		at, err := p.clients[0].Locate(ctx, tag)
		p.mu.Lock()
		defer p.mu.Unlock()
		if places[tag] = at.Partition; at.How == fleet.Nowhere {
			places[tag] = -1
		}
		return err
	})
	return places
}

// perPartition counts places.
func perPartition(places map[string]int) []int64 {
	counts := make([]int64, fleetPartitions+1)
	for _, at := range places {
		if at >= 0 {
			counts[at]++
		}
	}
	return counts
}

// home is where a name is: which partitions have a record that says so, and which have keys.
type home struct{ records, keys []int }

// takeInventory reads beneath the fleet where all names are, as docs/WIRE.md has it.
func takeInventory(ctx context.Context, f *fleet.Fleet, forget bool) map[string]home {
	const own = "mr:fleet:"
	homes := map[string]home{}
	for id, master := range f.Partitions() {
		for _, key := range must.Get(master.Do(ctx, master.B().Keys().Pattern("*").Build()).AsStrSlice()) {
			tag, isRecord := strings.CutPrefix(key, own+"{")
			switch {
			case isRecord:
				at := must.Get(master.Do(ctx, master.B().Get().Key(key).Build()).ToString())
				if tag = strings.TrimSuffix(tag, "}"); at == strconv.Itoa(id) && !forget {
					h := homes[tag]
					h.records = append(h.records, id)
					homes[tag] = h
				}
			case !strings.HasPrefix(key, own):
				tag = fleet.Tag(key)
				if h := homes[tag]; !slices.Contains(h.keys, id) {
					h.keys = append(h.keys, id)
					homes[tag] = h
				}
			}
		}
	}
	return homes
}

func (p *fleetPlay) judge(before, after map[string]int, homes map[string]home, added time.Duration) {
	moved, several := 0, 0
	for tag, was := range before {
		if is := after[tag]; was < 0 || is != was || !slices.Contains(homes[tag].keys, was) {
			moved++
			p.Fail("%s was on partition %v and is on %v, with keys on %v", tag, was, is, homes[tag].keys)
		}
	}
	for tag, h := range homes {
		if len(h.records) != 1 || len(h.keys) > 0 && !slices.Equal(h.records, h.keys) {
			several++
			p.Fail("%s has its place on partitions %v, and keys on %v", tag, h.records, h.keys)
		}
	}
	var marks, handled, acked, left int64
	for _, c := range p.customers {
		acked, left = acked+c.acked, left+c.left
		for mark, done := range c.marks {
			if marks++; !done {
				marks--
				p.Fail("mark %s of %s was not handed out", mark, c.name)
			}
		}
		for body, done := range c.bodies {
			if handled++; !done {
				handled--
				p.Fail("message %s of %s was not handled", body, c.name)
			}
		}
	}
	tags := perPartition(after)
	p.Check("nothing_moved", moved == 0 && len(before) > 0, "no data moved: %v of %v names are where they were before the partition was added", len(before)-moved, len(before))
	p.Check("one_home", several == 0 && len(homes) > 0, "no name has two places: %v of %v have their record and keys on one partition", len(homes)-several, len(homes))
	p.Check("new_takes_tags", tags[fleetPartitions] > 0, "the new partition took %v of %v new names", tags[fleetPartitions], len(after)-len(before))
	p.Check("marks_handed_out", marks == p.marks.Load() && marks > 0, "every mark was handed out: %v of %v", marks, p.marks.Load())
	p.Check("messages_handled", handled == p.messages.Load() && acked == handled && handled > 0, "every message was handled and acknowledged: %v and %v of %v", handled, acked, p.messages.Load())
	p.Check("nothing_left", left == 0, "Icks and queues are empty in the end: %v left", left)
	leases := p.turns.Load() + int64(len(p.tickets))
	p.Check("one_holder", p.twice.Load() == 0 && p.lost.Load() == 0 && leases > 0, "no lease had two holders, and none was lost: %v and %v of %v", p.twice.Load(), p.lost.Load(), leases)

	p.Table("no. 0", "no. 1", "no. 2", "no. 3: new")
	p.Figure("names before the partition was added", "", chaos.List("tags_before", perPartition(before)...)...)
	p.Figure("names in the end", "", chaos.List("tags_after", tags...)...)
	p.Table()
	p.Figure("partitions", "", chaos.N("partitions", fleetPartitions+1))
	p.Figure("adding the partition", "until every client knows of it", chaos.Ms("adding_ms", added))
	p.Figure("customers", "with an Ick, a queue and a lease each", chaos.N("customers", len(p.customers)))
	p.Figure("marks made", "", chaos.N("marks", p.marks.Load()))
	p.Figure("messages written", "", chaos.N("messages", p.messages.Load()))
	p.Figure("leases of customers taken", chaos.Text("%v times another client had it", p.away.Load()), chaos.N("turns", p.turns.Load()))
	p.Figure("tickets", "two clients ask at the same time", chaos.N("tickets", len(p.tickets)))
}
