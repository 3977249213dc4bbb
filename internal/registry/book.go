package registry

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

const (
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

// book enters members, each with a value, into keys that are shared out by the members'
// checksums. It does so in the background, and once a period.
type book struct {
	client  rueidis.Client
	command func(c rueidis.Client, shard int, members map[string]string) rueidis.Completed
	period  time.Duration // less up to an eighth
	what    string        // for the log
	logger  atomic.Pointer[slog.Logger]
	refused atomic.Bool // that the server refuses has been logged

	generation atomic.Uint32 // the number of the period, from 1 on

	mu      sync.Mutex
	shards  []page
	entered map[string]bool // in this period, or about to be
	turning bool            // a timer will end the period
}

// page is a shard, as far as it is to be entered.
type page struct {
	waiting  map[string]string
	sending  chan struct{} // closed when what is being sent has been answered; nil if nothing is
	resting  bool          // a timer will send what waits
	failures int           // in a row
}

func newBook(client rueidis.Client, shards int, period time.Duration, what string,
	command func(rueidis.Client, int, map[string]string) rueidis.Completed,
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
func (b *book) enter(member, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entered[member] {
		return
	}
	b.put(member, value)
}

// put has a member entered with a value, again if need be. Call it with mu held.
func (b *book) put(member, value string) {
	shard := shardOf(member, len(b.shards))
	p := &b.shards[shard]
	if len(p.waiting) >= maxWaiting {
		return
	}
	if len(b.entered) >= maxEntered {
		clear(b.entered)
	}
	b.entered[member] = true
	if p.waiting == nil {
		p.waiting = map[string]string{}
	}
	p.waiting[member] = value
	if !b.turning {
		b.turning = true
		time.AfterFunc(b.period-rand.N(b.period/8), b.turn)
	}
	if p.sending == nil && !p.resting {
		p.sending = make(chan struct{})
		go b.send(shard)
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

// send sends what waits in a shard, until nothing does or until it cannot be sent.
func (b *book) send(shard int) {
	for {
		members := b.take(shard)
		if len(members) == 0 {
			return
		}
		ctx, cancel := script.Within(context.Background(), sendTimeout)
		_, err := script.Prompt(ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, b.client.Do(ctx, b.command(b.client, shard, members)).Error()
		})
		cancel()
		if !b.sent(shard, members, err) {
			return
		}
	}
}

// take returns what one command may enter. When nothing waits, nothing is being sent
// any more.
func (b *book) take(shard int) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.shards[shard]
	if len(p.waiting) <= perCommand {
		members := p.waiting
		p.waiting = nil
		if len(members) == 0 {
			p.rest()
		}
		return members
	}
	members := make(map[string]string, perCommand)
	for member, value := range p.waiting {
		if len(members) == perCommand {
			break
		}
		members[member] = value
		delete(p.waiting, member)
	}
	return members
}

// rest notes that nothing is being sent. Call it with mu held.
func (p *page) rest() {
	close(p.sending)
	p.sending = nil
}

// sent notes what became of members, and reports whether to go on at once. What may be
// entered later is sent again after a pause.
func (b *book) sent(shard int, members map[string]string, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.shards[shard]
	if err == nil {
		p.failures = 0
		return true
	}
	_, answered := rueidis.IsRedisErr(err)
	full := retry.Code(err, "OOM")
	final := errors.Is(err, rueidis.ErrClosing) || answered && !full && !retry.Transient(err)
	if p.failures++; final || p.failures == tries {
		b.give(p, members, final)
		if answered && final {
			b.tell(err)
		}
		return false
	}
	for member, value := range members {
		if _, newer := p.waiting[member]; !newer {
			if p.waiting == nil {
				p.waiting = map[string]string{}
			}
			p.waiting[member] = value
		}
	}
	p.rest()
	p.resting = true
	time.AfterFunc(pauses.Pause(p.failures), func() { b.resume(shard) })
	return false
}

// give gives up what cannot be entered. It is not tried again in this period if that
// would be of no use.
func (b *book) give(p *page, members map[string]string, useless bool) {
	for _, some := range []map[string]string{members, p.waiting} {
		for member := range some {
			if !useless {
				delete(b.entered, member)
			}
		}
	}
	p.waiting, p.failures = nil, 0
	p.rest()
}

// resume sends what waits after a pause.
func (b *book) resume(shard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.shards[shard]
	p.resting = false
	if len(p.waiting) > 0 && p.sending == nil {
		p.sending = make(chan struct{})
		go b.send(shard)
	}
}

// tell logs, once, that the server refuses to enter anything.
func (b *book) tell(err error) {
	if b.refused.Swap(true) {
		return
	}
	logger := b.logger.Load()
	if logger == nil {
		logger = slog.Default()
	}
	logger.WarnContext(context.Background(), b.what, "error", err)
}

// settle waits until nothing is being sent in a shard, or until ctx ends.
func (b *book) settle(ctx context.Context, shard int) {
	b.mu.Lock()
	sending := b.shards[shard].sending
	b.mu.Unlock()
	if sending == nil {
		return
	}
	select {
	case <-sending:
	case <-ctx.Done():
	}
}
