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

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/retry"
)

const (
	// failoverTimeout is how long writes may take to go on, and members to come back.
	failoverTimeout = 15 * time.Second

	// failoverWindow is how long before its acknowledgement was lost a plain write may have
	// been made: it was not yet sent to the replica that became the master.
	failoverWindow = 3 * time.Second
)

func failoverScene() chaos.Scene {
	return chaos.Scene{
		Name:  "failover",
		Shows: "of two masters one is killed and one hangs: writes go on by themselves, and what was confirmed is there",
		Load: "A fleet of its own: 2 partitions with 2 replicas each, a directory and 2 agents. To each partition 4 goroutines write and wait " +
			"until a replica confirms, and 4 write without waiting.",
		Accident:    "One master is killed with SIGKILL, the other one stopped with SIGSTOP. Later both run again.",
		Duration:    1200 * time.Millisecond,
		NeedsServer: "kills servers of a fleet",
		Play:        playFailover,
	}
}

// failoverPlay is one performance. Books have the confirmed writes of partitions 0 and 1,
// then the plain ones.
type failoverPlay struct {
	*chaos.Play

	fleet   *fleet.Fleet
	books   [4]*book
	victims [2]*victim
}

// book is the ledger of one kind of writes to one partition: a set to which each write adds
// something else.
type book struct {
	fleet     *fleet.Fleet
	partition int
	confirmed bool
	tag       string

	mu        sync.Mutex
	done      []bookEntry // writes that succeeded
	uncertain []string
	refused   int
	pause     time.Duration // the longest time without a success
	lost      []bookEntry   // that succeeded and are not there in the end
}

type bookEntry struct {
	text string
	at   time.Time
}

// victim is a master that has an accident.
type victim struct {
	server    devfleet.Server
	accident  time.Time
	led       time.Time     // when another member led
	after     time.Duration // how long after the accident all writers went on; 0 if they did not
	back      bool          // it is a replica in step in the end
	has, want int64         // how many writes it has, and its master
}

func playFailover(ctx context.Context, play *chaos.Play) error {
	p := &failoverPlay{Play: play}
	servers, err := startFleet(ctx, play, devfleet.Config{
		Nodes: 3, Partitions: 2, Replicas: 2,
		// A failover waits for these two.
		Settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
	if err != nil {
		return err
	}
	p.Defer(func(context.Context) error { dir.Close(); return nil })
	quiet := slog.New(slog.DiscardHandler)
	members := failover.NewRedis(rueidis.ClientOption{})
	p.Defer(func(context.Context) error { members.Close(); return nil })
	for range 2 {
		p.Go(func() error {
			_ = failover.New(dir, members, failover.Config{Interval: 120 * time.Millisecond, Logger: quiet}).Run(ctx) // it ends with ctx
			return nil
		})
	}
	for i := range p.books {
		b := &book{partition: i % 2, confirmed: i < 2}
		cfg := fleet.Config{Logger: quiet}
		if b.confirmed {
			cfg.WaitReplicas = 1
		}
		if b.fleet, err = fleet.Open(ctx, dir, cfg); err != nil {
			return err
		}
		p.Defer(func(context.Context) error { b.fleet.Close(); return nil })
		p.books[i], p.fleet = b, b.fleet
	}
	if err := p.await(ctx, "starting", func(ctx context.Context) bool { return p.healthy(ctx) }); err != nil {
		return err
	}
	for _, b := range p.books {
		if err := b.settleOn(ctx); err != nil {
			return err
		}
	}

	loading, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	var waits []func()
	for i, b := range p.books {
		n := 0
		var mu sync.Mutex
		waits = append(waits, p.Repeat(loading, 4, chaos.Every(3*time.Millisecond), func(ctx context.Context) error {
			mu.Lock()
			n++
			text := fmt.Sprintf("%d-%d", i, n)
			mu.Unlock()
			b.write(ctx, text)
			return nil
		}))
	}
	load := func(doing string) error {
		since := time.Now()
		return p.await(ctx, doing, func(context.Context) bool { return time.Since(since) > p.Duration/2 && p.allWrote(since) })
	}
	if err := load("writing"); err != nil {
		return err
	}
	if err := p.strike(ctx, servers); err != nil {
		return err
	}
	if err := load("writing; all members are back"); err != nil {
		return err
	}
	stop()
	for _, wait := range waits {
		wait()
	}
	writing := time.Since(began)
	if err := p.compare(ctx); err != nil {
		return err
	}
	p.judge(writing)
	return nil
}

// await waits until something is so, or too late; then a check fails.
func (p *failoverPlay) await(ctx context.Context, doing string, is func(context.Context) bool) error {
	until := time.Now().Add(failoverTimeout)
	return p.Watch(ctx, func(ctx context.Context) (bool, error) {
		counts := [3]int{}
		for _, b := range p.books {
			b.mu.Lock()
			if counts[2] += len(b.uncertain); b.confirmed {
				counts[0] += len(b.done)
			} else {
				counts[1] += len(b.done)
			}
			b.mu.Unlock()
		}
		p.Show(doing, counts[0], "writes confirmed", counts[1], "plain writes", counts[2], "uncertain")
		return is(ctx) || time.Now().After(until), nil
	})
}

// healthy reports whether all members serve.
func (p *failoverPlay) healthy(ctx context.Context) bool {
	s, err := p.fleet.Status(ctx)
	return err == nil && s.State == fleet.Healthy
}

// settleOn chooses a tag on the book's partition.
func (b *book) settleOn(ctx context.Context) error {
	for n := 0; ; n++ {
		b.tag = fmt.Sprintf("book:%v:%d", b.confirmed, n)
		var at fleet.Location
		err := retry.Policy{}.Do(ctx, func(int) (err error) { // an agent may be at work on a slow machine
			at, err = b.fleet.Locate(ctx, b.tag)
			return err
		})
		if err != nil || at.Partition == b.partition {
			return err
		}
	}
}

func (b *book) key() string { return "{" + b.tag + "}:book" }

// write writes one thing once, and notes what became of it.
func (b *book) write(ctx context.Context, text string) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c := b.fleet.Client()
	err := c.Do(ctx, c.B().Sadd().Key(b.key()).Member(text).Build()).Error()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		now := time.Now()
		if n := len(b.done); n > 0 {
			b.pause = max(b.pause, now.Sub(b.done[n-1].at))
		}
		b.done = append(b.done, bookEntry{text, now})
	case errors.Is(err, millrace.ErrUncertain), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		b.uncertain = append(b.uncertain, text)
	default:
		b.refused++
	}
}

// wroteAfter returns when the first write after a time succeeded, zero if none did.
func (b *book) wroteAfter(t time.Time) (first time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.done) - 1; i >= 0 && b.done[i].at.After(t); i-- {
		first = b.done[i].at
	}
	return first
}

func (p *failoverPlay) allWrote(since time.Time) bool {
	return !slices.ContainsFunc(p.books[:], func(b *book) bool { return b.wroteAfter(since).IsZero() })
}

// strike kills one master and stops the other, waits until writes go on, and lets both run
// again.
func (p *failoverPlay) strike(ctx context.Context, servers *devfleet.Fleet) error {
	for id, partition := range directory.MapOf(p.fleet.Client()).Partitions {
		all := servers.Servers()
		at := slices.IndexFunc(all, func(s devfleet.Server) bool { return s.Addr == partition.Master.Addr })
		p.victims[id] = &victim{server: all[at], accident: time.Now()}
	}
	killed, stopped := p.victims[0].server.Proc, p.victims[1].server.Proc
	if err := errors.Join(killed.Kill(), stopped.Pause()); err != nil {
		return err
	}
	p.Note("killed the master of partition 0 with SIGKILL, and stopped that of partition 1 with SIGSTOP")
	if err := p.await(ctx, "masters are lost", func(context.Context) bool { return p.goesOn(0) && p.goesOn(1) }); err != nil {
		return err
	}
	p.Note("writes go on; both members run again")
	if err := errors.Join(stopped.Resume(), killed.Restart(ctx)); err != nil {
		return err
	}
	return p.await(ctx, "members come back", p.healthy)
}

// goesOn notes when another member leads a partition and all its writers go on.
func (p *failoverPlay) goesOn(id int) bool {
	v := p.victims[id]
	now := directory.MapOf(p.fleet.Client()).Partitions[id]
	if v.led.IsZero() && !now.ReadOnly && now.Master.Addr != v.server.Addr {
		v.led = time.Now()
	}
	if v.led.IsZero() {
		return false
	}
	first := [2]time.Time{p.books[id].wroteAfter(v.led), p.books[id+2].wroteAfter(v.led)}
	if first[0].IsZero() || first[1].IsZero() {
		return false
	}
	v.after = max(first[0].Sub(v.accident), first[1].Sub(v.accident))
	return true
}

// compare reads the books, and compares the victims with the masters of now.
func (p *failoverPlay) compare(ctx context.Context) error {
	if err := p.await(ctx, "comparing", func(ctx context.Context) bool {
		s, err := p.fleet.Status(ctx)
		for id, v := range p.victims {
			v.back = err == nil && slices.ContainsFunc(s.Partitions[id].Replicas, func(m fleet.MemberStatus) bool {
				return m.Addr == v.server.Addr && m.State == fleet.Up && m.Lag == 0
			})
		}
		return p.victims[0].back && p.victims[1].back
	}); err != nil {
		return err
	}
	for _, b := range p.books {
		v := p.victims[b.partition]
		there, err := membersAt(ctx, v.server.Addr, b.key())
		if err != nil {
			return err
		}
		v.has += int64(len(there))
		if there, err = membersAt(ctx, directory.MapOf(p.fleet.Client()).Partitions[b.partition].Master.Addr, b.key()); err != nil {
			return err
		}
		v.want += int64(len(there))
		for _, e := range b.done {
			if !there[e.text] {
				b.lost = append(b.lost, e)
			}
		}
	}
	return nil
}

// membersAt reads a set from one member of the fleet.
func membersAt(ctx context.Context, addr, key string) (map[string]bool, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	list, err := c.Do(ctx, c.B().Smembers().Key(key).Build()).AsStrSlice()
	there := map[string]bool{}
	for _, text := range list {
		there[text] = true
	}
	return there, err
}

func (p *failoverPlay) judge(writing time.Duration) {
	on, back, late, lost, confirmed, least := 0, 0, 0, 0, 0, len(p.books[0].done)
	for _, v := range p.victims {
		if v.after > 0 {
			on++
		}
		if v.back && v.has == v.want && v.want > 0 {
			back++
		} else {
			p.Fail("%s is a replica in step: %v, and has %v of %v writes", v.server.Addr, v.back, v.has, v.want)
		}
	}
	for _, b := range p.books {
		v := p.victims[b.partition]
		least = min(least, len(b.done))
		if b.confirmed {
			confirmed, lost = confirmed+len(b.done), lost+len(b.lost)
		}
		for _, e := range b.lost {
			if b.confirmed || e.at.Before(v.accident.Add(-failoverWindow)) || e.at.After(v.led) {
				late++
				p.Fail("write %s is lost; confirmed: %v, %v before the accident", e.text, b.confirmed, v.accident.Sub(e.at))
			}
		}
	}
	p.Check("writes_go_on", on == 2, "both partitions took writes again by themselves: %v after the kill, and %v after the stop", p.victims[0].after, p.victims[1].after)
	p.Check("confirmed_is_there", lost == 0 && least > 0, "of what a replica had confirmed nothing is lost: %v of %v writes", lost, confirmed)
	p.Check("loss_in_its_window", late == 0, "plain writes are lost only from the last moments before the new master led: %v and %v",
		len(p.books[2].lost), len(p.books[3].lost))
	p.Check("back_in_step", back == 2, "the members that were killed and stopped are replicas with all that their masters have: %v of 2", back)

	row := func(label, key string, of func(*book) int64, cell func(string, []int64) []chaos.Cell) {
		for i, kind := range []string{"confirmed", "plain"} {
			p.Figure(kind+label, "", cell(kind+key, []int64{of(p.books[2*i]), of(p.books[2*i+1])})...)
		}
	}
	p.Table("killed", "stopped")
	row(" writes", "_writes", func(b *book) int64 { return int64(len(b.done)) }, chaos.List)
	row(", longest pause (ms)", "_pause_ms", func(b *book) int64 { return b.pause.Milliseconds() }, chaos.List)
	row(", uncertain", "_uncertain", func(b *book) int64 { return int64(len(b.uncertain)) }, chaos.List)
	row(", lost", "_lost", func(b *book) int64 { return int64(len(b.lost)) }, chaos.List)
	p.Table()
	refused := 0
	for _, b := range p.books {
		refused += b.refused
	}
	p.Figure("partitions", "", chaos.N("partitions", 2))
	p.Figure("refused without a master", "their writers know that nothing was written", chaos.N("refused", refused))
	p.Figure("the load", "", chaos.Ms("writing_ms", writing))
}
