package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/screen"
)

const (
	// failoverPartitions is one whose master is killed, and one whose master is
	// frozen.
	failoverPartitions = 2

	// failoverNodes are as many as a partition has members. One of its replicas can
	// confirm writes when the other one has become the master.
	failoverNodes = 3

	// failoverAgents is how many agents watch the fleet, of which one leads.
	failoverAgents = 2

	// failoverEvery is how often they look at each member.
	failoverEvery = 120 * time.Millisecond

	// failoverPatience is how long writes may take to go on, and members to be back,
	// before that has failed.
	failoverPatience = 15 * time.Second
)

// failoverScene shows what becomes of writes when masters are lost. Two kinds of
// writers write to two partitions: those who wait until a replica has what they
// wrote, and those who do not. The master of one partition is killed and that of the
// other one frozen, and when others have taken over both come back.
func failoverScene() scene {
	return scene{
		name:    "failover",
		shows:   "of two masters one is killed and one frozen: writes go on by themselves, and what was confirmed is there",
		load:    1200 * time.Millisecond,
		private: true,
		play:    playFailover,
	}
}

// failoverPlay is one performance of the scene.
type failoverPlay struct {
	*stage
	servers *devfleet.Fleet
	members *failover.Redis
	fleet   *fleet.Fleet // whose client waits for nobody
	books   []*book      // of each partition that for confirmed writes, then that for the others
	victims [failoverPartitions]*victim

	start   time.Time
	writing time.Duration
}

// victim is a master that has an accident.
type victim struct {
	partition int
	server    devfleet.Server
	replicas  []string

	whole    map[string]time.Time // when each replica was last known to have all that was acknowledged
	accident time.Time
	elected  string        // who leads in its place; empty if nobody does
	led      time.Time     // when that was in the map
	after    time.Duration // how long after the accident both kinds of writes had gone on; 0 if they did not
	back     bool          // whether it is a replica in step in the end
	has      int64         // how many writes it has then
	want     int64         // and how many its master has
}

func playFailover(ctx context.Context, st *stage) (seen Scene, err error) {
	binary, err := st.find()
	if errors.Is(err, redisproc.ErrNotFound) {
		seen.Skipped = "it kills servers of a fleet of its own, and no redis-server is on PATH"
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	servers, err := devfleet.Start(ctx, devfleet.Config{
		Binary: binary, Nodes: failoverNodes, Partitions: failoverPartitions, Replicas: failoverNodes - 1,
		// A failover waits for these two, and a bit.
		Settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond},
	})
	if err != nil {
		return seen, causeOf(ctx, fmt.Errorf("start a fleet: %w", err))
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	st.screen.Say("  (on a fleet of its own: %d partitions with %d replicas each, a directory, and %d agents)", failoverPartitions, failoverNodes-1, failoverAgents)

	p := &failoverPlay{stage: st, servers: servers, members: failover.NewRedis(rueidis.ClientOption{})}
	defer p.members.Close()
	if err := p.perform(ctx); err != nil {
		return seen, causeOf(ctx, err)
	}
	return p.judge(), nil
}

// perform has agents watch, writers write and accidents happen, and then looks for
// what was written.
func (p *failoverPlay) perform(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{p.servers.DirectoryAddr()}})
	if err != nil {
		return err
	}
	defer dir.Close()
	defer p.watchOver(ctx, dir)()
	closeFleets, err := p.open(ctx, dir)
	if err != nil {
		return err
	}
	defer closeFleets()
	if err := p.await(ctx, "the fleet is whole", p.full); err != nil {
		return err
	}
	p.start = time.Now()
	stop := p.write(ctx)
	defer stop()
	// A replica that has just got a copy is given nothing more for up to a second.
	if err := p.await(ctx, "replicas begin to follow", p.followed); err != nil {
		return err
	}
	if err := p.load(ctx); err != nil {
		return err
	}
	if err := p.hurt(ctx); err != nil {
		return err
	}
	if err := p.bringBack(ctx); err != nil {
		return err
	}
	if err := p.load(ctx); err != nil {
		return err
	}
	stop()
	p.writing = time.Since(p.start)
	if err := p.compare(ctx); err != nil {
		return err
	}
	return inParallel(ctx, p.books, func(ctx context.Context, b *book) error { return b.look(ctx) })
}

// watchOver has agents watch the fleet until stop is called.
func (p *failoverPlay) watchOver(ctx context.Context, dir directory.Directory) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var agents sync.WaitGroup
	for range failoverAgents {
		agents.Go(func() {
			_ = failover.New(dir, p.members, failover.Config{Every: failoverEvery, Logger: quiet()}).Run(ctx) // it ends with ctx
		})
	}
	return func() { cancel(); agents.Wait() }
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// open opens the fleet for both kinds of writers, and a book for each kind on each
// partition.
func (p *failoverPlay) open(ctx context.Context, dir directory.Directory) (closeAll func(), err error) {
	confirmed, err := fleet.Open(ctx, dir, fleet.Config{WaitReplicas: 1, Logger: quiet()})
	if err != nil {
		return nil, err
	}
	p.fleet, err = fleet.Open(ctx, dir, fleet.Config{Logger: quiet()})
	if err != nil {
		confirmed.Close()
		return nil, err
	}
	closeAll = func() { confirmed.Close(); p.fleet.Close() }
	for id := range p.victims {
		for _, f := range []*fleet.Fleet{confirmed, p.fleet} {
			b := &book{fleet: f, partition: id, confirmed: f == confirmed}
			if b.tag, err = tagOn(ctx, f, id, b.kind()); err != nil {
				closeAll()
				return nil, err
			}
			p.books = append(p.books, b)
		}
	}
	return closeAll, nil
}

// tagOn returns a tag that will have its place on a partition.
func tagOn(ctx context.Context, f *fleet.Fleet, partition int, prefix string) (string, error) {
	for n := 0; ; n++ {
		tag := fmt.Sprintf("%s:%d", prefix, n)
		var l fleet.Location
		err := retry.Policy{}.Do(ctx, func(int) (err error) { // an agent may be at work on a slow machine
			l, err = f.Locate(ctx, tag)
			return err
		})
		if err != nil || l.Partition == partition {
			return tag, err
		}
	}
}

// choose takes the masters of now for victims.
func (p *failoverPlay) choose() {
	for id, partition := range p.fleet.Map().Partitions {
		if v := p.victims[id]; v != nil && v.server.Addr == partition.Master.Addr {
			continue
		}
		all := p.servers.Servers()
		at := slices.IndexFunc(all, func(s devfleet.Server) bool { return s.Addr == partition.Master.Addr })
		v := &victim{partition: id, server: all[at], whole: map[string]time.Time{}}
		for _, r := range partition.Replicas {
			v.replicas = append(v.replicas, r.Addr)
		}
		p.victims[id] = v
	}
}

// load lets a third of the time pass, and looks all the while how far replicas are.
func (p *failoverPlay) load(ctx context.Context) error {
	for until := time.Now().Add(p.duration / 3); time.Now().Before(until); {
		p.measure(ctx)
		p.show("writing")
		if !retry.Sleep(ctx, watchEvery/4) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// followed reports whether all replicas were given what writers wrote.
func (p *failoverPlay) followed(ctx context.Context) bool {
	p.measure(ctx)
	for _, b := range p.books {
		v := p.victims[b.partition]
		for _, addr := range v.replicas {
			if first := b.firstAfter(p.start); first.IsZero() || !v.whole[addr].After(first) {
				return false
			}
		}
	}
	return true
}

// measure chooses victims and looks how far their replicas are, until there was an
// accident.
func (p *failoverPlay) measure(ctx context.Context) {
	if v := p.victims[0]; v != nil && !v.accident.IsZero() {
		return
	}
	p.choose()
	var looking sync.WaitGroup
	for _, v := range p.victims {
		looking.Go(func() { v.measure(ctx, p.members) })
	}
	looking.Wait()
}

// measure notes which replicas have all that the master had when it was asked, and so
// all that had been acknowledged before that.
func (v *victim) measure(ctx context.Context, members failover.Servers) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	asked := time.Now()
	master, err := members.Probe(ctx, v.server.Addr)
	if err != nil {
		return // so little is known
	}
	for _, addr := range v.replicas {
		if l, err := members.Probe(ctx, addr); err == nil && l.History == master.History && l.Offset >= master.Offset {
			v.whole[addr] = asked
		}
	}
}

// hurt kills one master and freezes the other, and waits until writes go on.
func (p *failoverPlay) hurt(ctx context.Context) error {
	p.measure(ctx)
	killed, frozen := p.victims[0], p.victims[1]
	killed.accident, frozen.accident = time.Now(), time.Now()
	if err := errors.Join(killed.server.Proc.Kill(), frozen.server.Proc.Pause()); err != nil {
		return err
	}
	err := p.await(ctx, "masters are lost", func(context.Context) bool {
		for _, v := range p.victims {
			p.notice(v)
		}
		return killed.after > 0 && frozen.after > 0
	})
	if errors.Is(err, errTooLong) {
		return nil // a check tells
	}
	return err
}

// notice notes who was elected, and whether all go on who write to the partition.
func (p *failoverPlay) notice(v *victim) {
	now := p.fleet.Map().Partitions[v.partition]
	if v.elected == "" && !now.ReadOnly && now.Master.Addr != v.server.Addr {
		v.elected, v.led = now.Master.Addr, time.Now()
	}
	if v.elected == "" || v.after > 0 {
		return
	}
	var last time.Duration
	for _, b := range p.books {
		if b.partition != v.partition {
			continue
		}
		next := b.firstAfter(v.led)
		if next.IsZero() {
			return
		}
		last = max(last, next.Sub(v.accident))
	}
	v.after = last
}

// bringBack lets both run again, and waits until they are replicas in step.
func (p *failoverPlay) bringBack(ctx context.Context) error {
	killed, frozen := p.victims[0].server.Proc, p.victims[1].server.Proc
	if err := errors.Join(frozen.Resume(), killed.Restart(ctx)); err != nil {
		return err
	}
	err := p.await(ctx, "members come back", p.full)
	if errors.Is(err, errTooLong) {
		return nil // a check tells
	}
	return err
}

// full reports whether all members serve.
func (p *failoverPlay) full(ctx context.Context) bool {
	s, err := p.fleet.Status(ctx)
	return err == nil && s.State == fleet.Healthy
}

// errTooLong means that what was waited for did not happen.
var errTooLong = errors.New("it did not happen in time")

// await waits until something is, and shows what goes on.
func (p *failoverPlay) await(ctx context.Context, doing string, is func(context.Context) bool) error {
	for until := time.Now().Add(failoverPatience); !is(ctx); {
		if time.Now().After(until) {
			return fmt.Errorf("%s: %w", doing, errTooLong)
		}
		if !p.start.IsZero() {
			p.show(doing)
		}
		if !retry.Sleep(ctx, watchEvery/4) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// compare looks whether those that had an accident have what their masters have. All
// writers have ended.
func (p *failoverPlay) compare(ctx context.Context) error {
	err := p.await(ctx, "members are compared", func(ctx context.Context) bool {
		s, err := p.fleet.Status(ctx)
		if err != nil {
			return false
		}
		for _, v := range p.victims {
			v.back = slices.ContainsFunc(s.Partitions[v.partition].Replicas, func(m fleet.MemberStatus) bool {
				return m.Addr == v.server.Addr && m.State == fleet.Up && m.Lag == 0
			})
		}
		return p.victims[0].back && p.victims[1].back
	})
	if err != nil && !errors.Is(err, errTooLong) {
		return err
	}
	for _, v := range p.victims {
		for _, b := range p.books {
			if b.partition != v.partition {
				continue
			}
			has, err := b.sizeAt(ctx, v.server.Addr)
			if err != nil {
				return err
			}
			want, err := b.sizeAt(ctx, p.fleet.Map().Partitions[v.partition].Master.Addr)
			if err != nil {
				return err
			}
			v.has, v.want = v.has+has, v.want+want
		}
	}
	return nil
}

func (p *failoverPlay) show(doing string) {
	var confirmed, plain, uncertain int
	for _, b := range p.books {
		acknowledged, unknown := b.counts()
		if uncertain += unknown; b.confirmed {
			confirmed += acknowledged
		} else {
			plain += acknowledged
		}
	}
	p.screen.Show(screen.Frame{
		Title: "failover",
		Done:  min(time.Since(p.start), p.duration),
		Whole: p.duration,
		Rows: [][]string{
			{grouped(confirmed) + " writes confirmed", grouped(plain) + " others", grouped(uncertain) + " uncertain"},
			{doing},
		},
	})
}
