package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	// failoverTimeout is how long writes may take to go on, and members to come back.
	failoverTimeout = 15 * time.Second

	// failoverWindow is how long before its acknowledgement was lost a plain write may have
	// been made: it was not yet sent to the replica that became the master.
	failoverWindow = 3 * time.Second

	// noAgents is a sabotage in tests: no agent promotes a replica.
	noAgents = "no agents"
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

func playFailover(ctx context.Context, play *chaos.Play) {
	p := &failoverPlay{Play: play}
	servers := startFleet(ctx, play, devfleet.Config{
		Nodes: 3, Partitions: 2, Replicas: 2,
		// A failover waits for these two.
		Settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond},
	})
	agents := 2
	if p.Sabotage == noAgents {
		agents = 0
	}
	startAgents(ctx, p.Play, servers, agents)
	for i := range p.books {
		b := &book{partition: i % 2, confirmed: i < 2}
		replicas := 0
		if b.confirmed {
			replicas = 1
		}
		b.fleet = servers.Dial(ctx, &p.Stage, replicas)
		p.books[i], p.fleet = b, b.fleet
	}
	p.await(ctx, "starting", p.healthy)
	for _, b := range p.books {
		b.settleOn(ctx)
	}

	loading, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	var waits []func()
	for i, b := range p.books {
		var n atomic.Int64
		waits = append(waits, p.Repeat(loading, 4, chaos.Every(3*time.Millisecond), func(ctx context.Context) error {
			b.write(ctx, fmt.Sprintf("%d-%d", i, n.Add(1)))
			return nil
		}))
	}
	load := func(doing string) {
		since := time.Now()
		p.await(ctx, doing, func(context.Context) bool { return time.Since(since) > p.Duration/2 && p.allWrote(since) })
	}
	load("writing")
	p.strike(ctx, servers)
	load("writing; all members are back")
	stop()
	for _, wait := range waits {
		wait()
	}
	writing := time.Since(began)
	p.compare(ctx)
	p.judge(writing)
}

// await waits until something is so, or too late; then a check fails.
func (p *failoverPlay) await(ctx context.Context, doing string, is func(context.Context) bool) {
	until := time.Now().Add(failoverTimeout)
	if p.Sabotage != "" {
		until = time.Now().Add(failoverTimeout / 5)
	}
	p.Watch(ctx, func(ctx context.Context) bool {
		counts, uncertain := map[bool]int{}, 0
		for _, b := range p.books {
			b.mu.Lock()
			counts[b.confirmed] += len(b.done)
			uncertain += len(b.uncertain)
			b.mu.Unlock()
		}
		p.Show(doing, counts[true], "writes confirmed", counts[false], "plain writes", uncertain, "uncertain")
		return is(ctx) || time.Now().After(until)
	})
}

// healthy reports whether all members serve.
func (p *failoverPlay) healthy(ctx context.Context) bool {
	s, err := p.fleet.Status(ctx)
	return err == nil && s.State == fleet.Healthy
}

// settleOn chooses a tag on the book's partition.
func (b *book) settleOn(ctx context.Context) {
	for at, n := -1, 0; at != b.partition; n++ {
		b.tag = fmt.Sprintf("book:%v:%d", b.confirmed, n)
		must.Do(retry.Policy{}.Do(ctx, func(int) error { // an agent may be at work on a slow machine
			found, err := b.fleet.Locate(ctx, b.tag)
			at = found.Partition
			return err
		}))
	}
}

func (b *book) key() string { return "{" + b.tag + "}:book" }

// write writes one text once, and notes the outcome.
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
func (p *failoverPlay) strike(ctx context.Context, servers *devfleet.Fleet) {
	for id, partition := range directory.MapOf(p.fleet.Client()).Partitions {
		all := servers.Servers()
		at := slices.IndexFunc(all, func(s devfleet.Server) bool { return s.Addr == partition.Master.Addr })
		p.victims[id] = &victim{server: all[at], accident: time.Now()}
	}
	killed, stopped := p.victims[0].server.Proc, p.victims[1].server.Proc
	must.Do(errors.Join(killed.Kill(), stopped.Pause()))
	p.Note("killed the master of partition 0 with SIGKILL, and stopped that of partition 1 with SIGSTOP")
	p.await(ctx, "masters are lost", func(context.Context) bool { return p.goesOn(0) && p.goesOn(1) })
	p.Note("writes go on; both members run again")
	must.Do(errors.Join(stopped.Resume(), killed.Restart(ctx)))
	p.await(ctx, "members come back", p.healthy)
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
func (p *failoverPlay) compare(ctx context.Context) {
	p.await(ctx, "comparing", func(ctx context.Context) bool {
		s, err := p.fleet.Status(ctx)
		for id, v := range p.victims {
			v.back = err == nil && slices.ContainsFunc(s.Partitions[id].Replicas, func(m fleet.MemberStatus) bool {
				return m.Addr == v.server.Addr && m.State == fleet.Up && m.Lag == 0
			})
		}
		return p.victims[0].back && p.victims[1].back
	})
	for _, b := range p.books {
		v := p.victims[b.partition]
		v.has += int64(len(p.membersAt(ctx, v.server.Addr, b.key())))
		kept := p.membersAt(ctx, directory.MapOf(p.fleet.Client()).Partitions[b.partition].Master.Addr, b.key())
		v.want += int64(len(kept))
		for _, e := range b.done {
			if _, found := slices.BinarySearch(kept, e.text); !found {
				b.lost = append(b.lost, e)
			}
		}
	}
}

// membersAt reads a set from one member of the fleet, in order. A member that does not
// serve has none.
func (p *failoverPlay) membersAt(ctx context.Context, addr, key string) []string {
	c := must.Get(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true}))
	defer c.Close()
	list, err := c.Do(ctx, c.B().Smembers().Key(key).Build()).AsStrSlice()
	if err != nil {
		p.Fail("%s cannot be read: %s", addr, err)
	}
	return slices.Sorted(slices.Values(list))
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

	row := func(label, key string, of func(*book) int) {
		for i, kind := range []string{"confirmed", "plain"} {
			p.Figure(kind+label, "", chaos.List(kind+key, int64(of(p.books[2*i])), int64(of(p.books[2*i+1])))...)
		}
	}
	p.Table("killed", "stopped")
	row(" writes", "_writes", func(b *book) int { return len(b.done) })
	row(", longest pause (ms)", "_pause_ms", func(b *book) int { return int(b.pause.Milliseconds()) })
	row(", uncertain", "_uncertain", func(b *book) int { return len(b.uncertain) })
	row(", lost", "_lost", func(b *book) int { return len(b.lost) })
	p.Table()
	refused := 0
	for _, b := range p.books {
		refused += b.refused
	}
	p.Figure("partitions", "", chaos.N("partitions", 2))
	p.Figure("refused without a master", "their writers know that nothing was written", chaos.N("refused", refused))
	p.Figure("the load", "", chaos.Ms("writing_ms", writing))
}
