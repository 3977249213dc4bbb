package registry

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

const (
	// flushDelay is how long a member waits for others to share its command, at most twice
	// that. A member that is withdrawn before costs nothing.
	flushDelay = 10 * time.Millisecond

	// sendTimeout bounds one command.
	sendTimeout = time.Second

	// tries is how often a failing command is sent.
	tries = 5

	// perCommand is the most members of one command.
	perCommand = 500

	// maxWaiting is the most members of a shard that wait; others are entered in a later
	// period.
	maxWaiting = 10_000

	// maxEntered is the most members remembered as entered.
	maxEntered = 100_000
)

// pauses are the times before a failed command is repeated.
var pauses = retry.Policy{Base: time.Second, Max: 30 * time.Second}

// book writes members, each with a time in Unix milliseconds, to sharded keys in the
// background: each member once a period.
type book struct {
	client  rueidis.Client
	command func(c rueidis.Client, shard int, members map[string]int64) rueidis.Completed
	period  time.Duration // less up to an eighth
	what    string        // for the log
	logger  atomic.Pointer[slog.Logger]
	refused atomic.Bool // that the server refuses has been logged

	generation atomic.Uint32 // the number of the period, from 1 on

	mu      sync.Mutex
	shards  []page
	entered map[string]bool // in this period, or about to be
	turning bool            // a timer will end the period
	ticking bool            // a timer will have sent what is ready
}

// page is what one shard has to send.
//
//	enter ─▶ fresh ─ a tick ─▶ ready ─ a tick ─▶ sent
//	                             ▲                │ no answer: after a pause
//	                             └────────────────┘
type page struct {
	fresh, ready map[string]int64
	sending      chan struct{} // closed when what is being sent was answered; nil if nothing is
	failures     int           // in a row
	until        time.Time     // nothing is sent before
}

func newBook(client rueidis.Client, shards int, period time.Duration, what string,
	command func(rueidis.Client, int, map[string]int64) rueidis.Completed,
) *book {
	b := &book{
		client: client, command: command, period: period, what: what,
		shards: make([]page, shards), entered: map[string]bool{},
	}
	b.generation.Store(1)
	return b
}

// enter queues a member with a value, unless it was entered in this period. It does not
// block.
func (b *book) enter(member string, value int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entered[member] {
		return
	}
	p := &b.shards[shardOf(member, len(b.shards))]
	if len(p.fresh)+len(p.ready) >= maxWaiting {
		return
	}
	if len(b.entered) >= maxEntered {
		clear(b.entered)
	}
	b.entered[member] = true
	if p.fresh == nil {
		p.fresh = map[string]int64{}
	}
	p.fresh[member] = value
	if !b.turning {
		b.turning = true
		time.AfterFunc(b.period-rand.N(b.period/8), b.turn)
	}
	b.tickIn(flushDelay)
}

// withdraw removes a queued member, and reports whether it was still queued.
func (b *book) withdraw(member string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.shards[shardOf(member, len(b.shards))]
	for _, some := range []map[string]int64{p.fresh, p.ready} {
		if _, waits := some[member]; waits {
			delete(some, member)
			delete(b.entered, member)
			return true
		}
	}
	return false
}

// forget lets a member be entered again in this period.
func (b *book) forget(member string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entered, member)
}

// tickIn schedules a tick. mu is held.
func (b *book) tickIn(pause time.Duration) {
	if !b.ticking {
		b.ticking = true
		time.AfterFunc(pause, b.tick)
	}
}

// tick sends the ready members of each shard, and makes the fresh ones ready.
func (b *book) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ticking = false
	now, next := time.Now(), time.Duration(-1)
	for shard := range b.shards {
		p := &b.shards[shard]
		if !now.Before(p.until) {
			b.begin(shard)
		}
		p.merge()
		if len(p.ready) > 0 {
			pause := max(flushDelay, p.until.Sub(now))
			if next < 0 || pause < next {
				next = pause
			}
		}
	}
	if next >= 0 {
		b.tickIn(next)
	}
}

// merge makes the fresh members ready. mu is held.
func (p *page) merge() {
	if len(p.ready) == 0 {
		p.ready, p.fresh = p.fresh, nil
		return
	}
	maps.Copy(p.ready, p.fresh)
	p.fresh = nil
}

// begin sends the ready members of a shard. mu is held.
func (b *book) begin(shard int) {
	p := &b.shards[shard]
	if len(p.ready) > 0 && p.sending == nil {
		p.sending = make(chan struct{})
		go b.send(shard, p.take())
	}
}

// turn starts the next period.
func (b *book) turn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.generation.Add(1)
	b.turning = false
	b.entered = map[string]bool{}
}

// take removes and returns the members of one command. mu is held.
func (p *page) take() map[string]int64 {
	members := p.ready
	if len(members) <= perCommand {
		p.ready = nil
		return members
	}
	members = make(map[string]int64, perCommand)
	for member, value := range p.ready {
		if len(members) == perCommand {
			break
		}
		members[member] = value
		delete(p.ready, member)
	}
	return members
}

// send writes members of a shard.
func (b *book) send(shard int, members map[string]int64) {
	ctx, cancel := script.Within(context.Background(), sendTimeout)
	defer cancel()
	_, err := script.Prompt(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.client.Do(ctx, b.command(b.client, shard, members)).Error()
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.shards[shard]
	close(p.sending)
	p.sending = nil
	switch {
	case err == nil:
		p.failures, p.until = 0, time.Time{}
	case final(err):
		p.fresh, p.ready, p.failures = nil, nil, 0 // all would fail alike, until the next period
		b.logRefusal(err)
	case p.failures+1 == tries:
		for _, some := range []map[string]int64{members, p.fresh, p.ready} {
			for member := range some {
				delete(b.entered, member)
			}
		}
		p.fresh, p.ready, p.failures = nil, nil, 0
	default:
		p.merge()
		maps.Copy(members, p.ready) // which are newer
		p.ready = members
		p.failures++
		p.until = time.Now().Add(pauses.Pause(p.failures))
	}
	if len(p.ready) > 0 {
		b.tickIn(max(flushDelay, time.Until(p.until)))
	}
}

// final reports whether a repeat would fail as well. A full server may have room again.
func final(err error) bool {
	_, answered := rueidis.IsRedisErr(err)
	return errors.Is(err, rueidis.ErrClosing) || answered && !retry.Code(err, "OOM") && !retry.Transient(err)
}

// logTo sets the logger for refusals, if there is none yet.
func (b *book) logTo(logger *slog.Logger) {
	if logger != nil {
		b.logger.CompareAndSwap(nil, logger)
	}
}

// logRefusal logs once that the server refuses the command.
func (b *book) logRefusal(err error) {
	if errors.Is(err, rueidis.ErrClosing) || b.refused.Swap(true) {
		return
	}
	logger := b.logger.Load()
	if logger == nil {
		logger = slog.Default()
	}
	logger.WarnContext(context.Background(), b.what, "error", err)
}

// settle sends the members of a shard now, and waits for the reply or the end of ctx. It
// does not wait for repeats.
func (b *book) settle(ctx context.Context, shard int) {
	p := &b.shards[shard]
	for ctx.Err() == nil {
		b.mu.Lock()
		if p.failures == 0 {
			p.merge()
			b.begin(shard)
		}
		sending := p.sending
		b.mu.Unlock()
		if sending == nil {
			return
		}
		select {
		case <-sending:
		case <-ctx.Done():
		}
	}
}
