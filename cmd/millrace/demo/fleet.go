package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/screen"
)

const (
	// fleetNodes and fleetPartitions are what the fleet begins with. Each partition
	// has a replica on the other node.
	fleetNodes      = 2
	fleetPartitions = 3

	// leastPlaced is how many tickets are given out after the partition takes tags,
	// at the least. It should get one in six, and has none of so many once in 80
	// million times.
	leastPlaced = 100

	// rateOver is the time over which the rates on the screen are taken.
	rateOver = 500 * time.Millisecond
)

// fleetScene shows that a fleet grows while it is in use. Customers have one of
// each structure, on three partitions, and a fourth one is added: what was there
// stays where it was, and what is new comes to all four.
func fleetScene() scene {
	return scene{
		name:    "fleet",
		shows:   "a partition is added to a fleet in use: no data moves, nothing is lost, and it takes its part of what is new",
		load:    2700 * time.Millisecond,
		private: true,
		play:    playFleet,
	}
}

// fleetPlay is one performance of the scene.
type fleetPlay struct {
	*stage
	servers *devfleet.Fleet
	market  *market

	start   time.Time
	looks   []fleetLook
	adding  time.Time // when adding the partition began
	added   time.Time // and when it was done
	before  places    // of the tags that had their place when it began
	after   places    // of the same tags in the end
	homes   inventory // what lies where in the end
	serving time.Duration
	closing time.Duration
}

// fleetLook is what the masters say of themselves at one moment, by partition.
type fleetLook struct {
	at       time.Time
	commands []int64 // since the server started, those in scripts included
	tags     []int64
}

func playFleet(ctx context.Context, st *stage) (seen Scene, err error) {
	binary, err := st.find()
	if errors.Is(err, redisproc.ErrNotFound) {
		seen.Skipped = "it starts a fleet of redis-servers of its own, and none is on PATH"
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	servers, err := devfleet.Start(ctx, devfleet.Config{
		Binary: binary, Nodes: fleetNodes, Partitions: fleetPartitions,
		// Adding a partition takes as long as these two, and a bit. They leave room
		// for a machine that has more to do than it can.
		Settings: directory.Settings{ViewTTL: 300 * time.Millisecond, ReplyTimeout: 500 * time.Millisecond},
	})
	if err != nil {
		return seen, causeOf(ctx, fmt.Errorf("start a fleet: %w", err))
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	st.screen.Say("  (on a fleet of its own: %d partitions with a replica each on %d nodes, and a directory)", fleetPartitions, fleetNodes)

	p := &fleetPlay{stage: st, servers: servers}
	if p.market, err = newMarket(ctx, servers.URL()); err != nil {
		return seen, causeOf(ctx, err)
	}
	defer p.market.leave()
	if err := p.perform(ctx); err != nil {
		return seen, causeOf(ctx, err)
	}
	return p.judge(), nil
}

// perform has the market open while the partition is added, and for a while before
// and after. Then it settles what is left, and looks for what is where.
func (p *fleetPlay) perform(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := p.market.begin(ctx); err != nil {
		return causeOf(ctx, err)
	}
	p.start = time.Now()
	closeMarket := p.market.open(ctx, cancel)
	defer closeMarket()
	if err := p.grow(ctx); err != nil {
		return causeOf(ctx, err)
	}
	closeMarket()
	p.serving = time.Since(p.start)
	return causeOf(ctx, p.finish(ctx))
}

// grow adds the partition in the middle of the load.
func (p *fleetPlay) grow(ctx context.Context) error {
	begun := time.Now()
	if err := p.watch(ctx, func() bool { return time.Since(begun) >= p.duration/3 }); err != nil {
		return err
	}
	var err error
	if p.before, err = locate(ctx, p.market.branches[0].fleet, p.market.tags()); err != nil {
		return err
	}

	p.adding = time.Now()
	failed := make(chan error, 1)
	go func() { failed <- p.servers.AddPartition(ctx, 1) }()
	over := p.watch(ctx, func() bool { return len(failed) > 0 })
	if err := errors.Join(<-failed, over); err != nil { // it ends soon if over is an error, as ctx then has
		return err
	}
	p.added = time.Now()
	given := p.market.tally.tickets.Load()
	return p.watch(ctx, func() bool {
		known := len(p.looks[len(p.looks)-1].tags) > fleetPartitions
		return known && time.Since(p.added) >= p.duration/3 && p.market.tally.tickets.Load() >= given+leastPlaced
	})
}

// finish settles what is left, asks where the tags are now, and looks at all that
// the masters have.
func (p *fleetPlay) finish(ctx context.Context) (err error) {
	defer func(begin time.Time) { p.closing = time.Since(begin) }(time.Now())
	if err := p.market.settle(ctx); err != nil {
		return err
	}
	if p.after, err = locate(ctx, p.market.branches[0].fleet, p.before.tags()); err != nil {
		return err
	}
	p.homes, err = takeInventory(ctx, p.market.branches[0].fleet)
	return err
}

// watch looks at the fleet and shows progress until it is over.
func (p *fleetPlay) watch(ctx context.Context, over func() bool) error {
	tick := time.NewTicker(watchEvery / 2)
	defer tick.Stop()
	for {
		if err := p.look(ctx); err != nil {
			return err
		}
		if over() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// look asks the masters what they have and what they did, and shows it.
func (p *fleetPlay) look(ctx context.Context) error {
	l := fleetLook{at: time.Now()}
	for _, master := range p.market.branches[0].fleet.Partitions() {
		replies := master.DoMulti(ctx, master.B().Info().Section("stats").Build(), master.B().Get().Key(tagsKey).Build())
		info, err := replies[0].ToString()
		if err != nil {
			return err
		}
		commands, err := infoNumber(info, "total_commands_processed")
		if err != nil {
			return err
		}
		text, _ := replies[1].ToString() // none before the first tag
		tags, _ := strconv.ParseInt(text, 10, 64)
		l.commands, l.tags = append(l.commands, commands), append(l.tags, tags)
	}
	p.looks = append(p.looks, l)
	p.show()
	return nil
}

func (p *fleetPlay) show() {
	last := p.looks[len(p.looks)-1]
	first := last
	for i := len(p.looks) - 1; i >= 0 && last.at.Sub(p.looks[i].at) <= rateOver; i-- {
		first = p.looks[i]
	}
	rates := last.since(first)
	var each []string
	for _, rate := range rates {
		each = append(each, grouped(rate))
	}
	doing := fmt.Sprintf("%d partitions", len(last.tags))
	if !p.adding.IsZero() && p.added.IsZero() {
		doing = fmt.Sprintf("adding partition %d", fleetPartitions)
	}
	t := &p.market.tally
	p.screen.Show(screen.Frame{
		Title: "fleet",
		Done:  min(time.Since(p.start), p.duration),
		Whole: p.duration,
		Rows: [][]string{
			{grouped(sum(last.tags)) + " tags", grouped(sum(rates)) + " commands/s", doing},
			{grouped(t.marks.Load()) + " marks", grouped(t.jobs.Load()) + " messages", grouped(t.reads.Load()) + " reads"},
			{"commands/s of each partition: " + strings.Join(each, " · ")},
		},
	})
}

// since returns how many commands a second there were since an earlier look, by
// partition. One that is new since then has none.
func (l fleetLook) since(first fleetLook) []int64 {
	rates := make([]int64, len(l.commands))
	for i := range first.commands {
		rates[i] = perSecond(l.commands[i]-first.commands[i], l.at.Sub(first.at))
	}
	return rates
}

func sum(values []int64) (all int64) {
	for _, v := range values {
		all += v
	}
	return all
}
