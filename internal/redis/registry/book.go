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

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// flushDelay is how long a member waits for others to share its command.
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
	refused atomic.Bool // a refusal has been logged

	generation atomic.Uint32 // the number of the period, from 1 on

	mu      sync.Mutex
	shards  []page
	entered map[string]bool // in this period, or about to be
	turning bool            // a timer will end the period
}

// page has the members that wait to be sent to one shard.
type page struct {
	waiting  map[string]int64
	timed    bool          // a timer will send the waiting members
	sending  chan struct{} // closed at the reply; nil if nothing is being sent
	failures int           // in a row
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
	shard := shardOf(member, len(b.shards))
	p := &b.shards[shard]
	if b.entered[member] || len(p.waiting) >= maxWaiting {
		return
	}
	if len(b.entered) >= maxEntered {
		clear(b.entered)
	}
	b.entered[member] = true
	if p.waiting == nil {
		p.waiting = map[string]int64{}
	}
	p.waiting[member] = value
	if !b.turning {
		b.turning = true
		time.AfterFunc(b.period-rand.N(b.period/8), b.turn)
	}
	b.sendIn(shard, flushDelay)
}

// turn starts the next period.
func (b *book) turn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.generation.Add(1)
	b.turning = false
	b.entered = map[string]bool{}
}

// withdraw removes a queued member, and reports whether it was still queued.
func (b *book) withdraw(member string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.shards[shardOf(member, len(b.shards))]
	_, waits := p.waiting[member]
	if waits {
		delete(p.waiting, member)
		delete(b.entered, member)
	}
	return waits
}

// forget lets a member be entered again in this period.
func (b *book) forget(member string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entered, member)
}

// sendIn sends a shard's waiting members after a pause. mu is held.
func (b *book) sendIn(shard int, pause time.Duration) {
	p := &b.shards[shard]
	if p.timed || p.sending != nil || len(p.waiting) == 0 {
		return
	}
	p.timed = true
	time.AfterFunc(pause, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		p.timed = false
		b.begin(shard)
	})
}

// begin sends members of a shard, unless some are being sent. mu is held.
func (b *book) begin(shard int) {
	p := &b.shards[shard]
	if len(p.waiting) == 0 || p.sending != nil {
		return
	}
	members := p.waiting
	p.waiting = nil
	if len(members) > perCommand {
		p.waiting, members = members, make(map[string]int64, perCommand)
		for member, value := range p.waiting {
			if len(members) == perCommand {
				break
			}
			members[member] = value
			delete(p.waiting, member)
		}
	}
	p.sending = make(chan struct{})
	go b.send(shard, members)
}

// send writes members of a shard.
func (b *book) send(shard int, members map[string]int64) {
	ctx, cancel := script.Within(context.Background(), sendTimeout)
	defer cancel()
	command := b.command(b.client, shard, members) // before the call, which may go on behind the timeout
	_, err := script.Prompt(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.client.Do(ctx, command).Error()
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	p, pause := &b.shards[shard], flushDelay
	close(p.sending)
	p.sending = nil
	p.failures++
	switch {
	case err == nil:
		p.failures = 0
	case final(err):
		p.waiting, p.failures = nil, 0 // all would fail alike, until the next period
		b.logRefusal(err)
	case p.failures == tries:
		for member := range members {
			delete(b.entered, member)
		}
		for member := range p.waiting {
			delete(b.entered, member)
		}
		p.waiting, p.failures = nil, 0
	default:
		maps.Copy(members, p.waiting) // which are newer
		p.waiting = members
		pause = pauses.Pause(p.failures)
	}
	b.sendIn(shard, pause)
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
	b.logTo(slog.Default())
	b.logger.Load().WarnContext(context.Background(), b.what, "error", err)
}

// settle sends a shard's waiting members now, and waits for the reply or the end of ctx. It
// does not wait for repeats.
func (b *book) settle(ctx context.Context, shard int) {
	p := &b.shards[shard]
	for ctx.Err() == nil {
		b.mu.Lock()
		if p.failures == 0 {
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
