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
	// linger is how long a member waits for others that go with it in one command, and at
	// most twice that. One that is withdrawn meanwhile costs nothing.
	linger = 10 * time.Millisecond

	// sendTimeout is how long one command that enters may take.
	sendTimeout = time.Second

	// tries is how often what could not be entered is sent.
	tries = 5

	// perCommand is how many members one command enters at most.
	perCommand = 500

	// maxWaiting is how many members of a shard wait to be entered at most; what comes
	// beyond is entered in a later period.
	maxWaiting = 10_000

	// maxEntered is how many members are remembered as entered.
	maxEntered = 100_000
)

// pauses are the times before what could not be entered is sent again.
var pauses = retry.Policy{Base: time.Second, Max: 30 * time.Second}

// book enters members, each with a time in Unix milliseconds, into keys that are shared out by the members'
// checksums. It does so in the background, and once a period.
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

// page is a shard, as far as it is to be entered.
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

// enter has a member entered with a value, unless it was in this period. It returns at
// once.
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
	b.tickIn(linger)
}

// withdraw has a member not entered after all, and reports whether that was in time.
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

// forget has a member entered again when it comes again.
func (b *book) forget(member string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entered, member)
}

// tickIn has what is ready sent after a pause. Call it with mu held.
func (b *book) tickIn(pause time.Duration) {
	if !b.ticking {
		b.ticking = true
		time.AfterFunc(pause, b.tick)
	}
}

// tick sends what is ready in each shard, and makes ready what is fresh.
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
		p.ripen()
		if len(p.ready) > 0 {
			pause := max(linger, p.until.Sub(now))
			if next < 0 || pause < next {
				next = pause
			}
		}
	}
	if next >= 0 {
		b.tickIn(next)
	}
}

// ripen makes ready what is fresh. Call it with mu held.
func (p *page) ripen() {
	if len(p.ready) == 0 {
		p.ready, p.fresh = p.fresh, nil
		return
	}
	maps.Copy(p.ready, p.fresh)
	p.fresh = nil
}

// begin sends what is ready in a shard. Call it with mu held.
func (b *book) begin(shard int) {
	p := &b.shards[shard]
	if len(p.ready) > 0 && p.sending == nil {
		p.sending = make(chan struct{})
		go b.send(shard, p.take())
	}
}

// turn begins another period.
func (b *book) turn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.generation.Add(1)
	b.turning = false
	b.entered = map[string]bool{}
}

// take returns what one command may enter. Call it with mu held.
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

// send enters members of a shard.
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
		b.tell(err)
	case p.failures+1 == tries:
		for _, some := range []map[string]int64{members, p.fresh, p.ready} {
			for member := range some {
				delete(b.entered, member)
			}
		}
		p.fresh, p.ready, p.failures = nil, nil, 0
	default:
		p.ripen()
		maps.Copy(members, p.ready) // which are newer
		p.ready = members
		p.failures++
		p.until = time.Now().Add(pauses.Pause(p.failures))
	}
	if len(p.ready) > 0 {
		b.tickIn(max(linger, time.Until(p.until)))
	}
}

// final reports whether entering will go on to fail. A full server may have room again.
func final(err error) bool {
	_, answered := rueidis.IsRedisErr(err)
	return errors.Is(err, rueidis.ErrClosing) || answered && !retry.Code(err, "OOM") && !retry.Transient(err)
}

// logTo has a logger told of refusals, unless another one is already.
func (b *book) logTo(logger *slog.Logger) {
	if logger != nil {
		b.logger.CompareAndSwap(nil, logger)
	}
}

// tell logs, once, that the server refuses to enter anything.
func (b *book) tell(err error) {
	if errors.Is(err, rueidis.ErrClosing) || b.refused.Swap(true) {
		return
	}
	logger := b.logger.Load()
	if logger == nil {
		logger = slog.Default()
	}
	logger.WarnContext(context.Background(), b.what, "error", err)
}

// settle has what waits in a shard sent now, and waits until that was answered or until
// ctx ends. It does not wait for what failed and is to be sent again.
func (b *book) settle(ctx context.Context, shard int) {
	p := &b.shards[shard]
	for ctx.Err() == nil {
		b.mu.Lock()
		if p.failures == 0 {
			p.ripen()
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
