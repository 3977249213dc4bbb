package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/retry"
)

const (
	// How many goroutines write in each book, and how long each rests after a write.
	bookWriters = 4
	bookRest    = 3 * time.Millisecond

	// bookPatience is how long a write may take before nobody waits for it.
	bookPatience = 3 * time.Second
)

// book is what one kind of writers wrote to one partition: a set under a tag of its
// own, to which each write adds something else.
type book struct {
	fleet     *fleet.Fleet
	partition int
	confirmed bool // whether a replica has each write before it is a success
	tag       string

	mu        sync.Mutex
	done      []entryInBook // writes that were a success
	uncertain []string      // of which nobody could say what became
	refused   int           // that were not done, as their writer was told
	began     time.Time
	pause     time.Duration // the longest time without a success

	// In the end.
	lost  []entryInBook // that were a success and are not there
	there int           // uncertain ones that are there
}

// entryInBook is a write that was a success.
type entryInBook struct {
	text string
	at   time.Time // when its writer knew
}

func (b *book) kind() string {
	if b.confirmed {
		return "confirmed"
	}
	return "plain"
}

func (b *book) key() string { return "{" + b.tag + "}:book" }

// write has all books written in until stop is called, and all writes under way are
// done. It may be called again.
func (p *failoverPlay) write(ctx context.Context) (stop func()) {
	resting, cancel := context.WithCancel(ctx)
	var writing sync.WaitGroup
	for _, b := range p.books {
		b.began = time.Now()
		for writer := range bookWriters {
			writing.Go(func() {
				for n := 0; retry.Sleep(resting, bookRest); n++ {
					b.write(ctx, fmt.Sprintf("%d-%d", writer, n))
				}
			})
		}
	}
	return func() {
		cancel()
		writing.Wait()
	}
}

// write writes one thing once.
func (b *book) write(ctx context.Context, text string) {
	ctx, cancel := context.WithTimeout(ctx, bookPatience)
	defer cancel()
	c := b.fleet.Client()
	b.note(text, time.Now, c.Do(ctx, c.B().Sadd().Key(b.key()).Member(text).Build()).Error())
}

// note notes what became of a write.
func (b *book) note(text string, now func() time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		e := entryInBook{text, now()}
		b.pause = max(b.pause, e.at.Sub(b.last()))
		b.done = append(b.done, e)
	case errors.Is(err, millrace.ErrUncertain), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		b.uncertain = append(b.uncertain, text)
	default:
		b.refused++
	}
}

// last returns when there was the last success, or the first write.
func (b *book) last() time.Time {
	if n := len(b.done); n > 0 {
		return b.done[n-1].at
	}
	return b.began
}

// counts returns how many writes were a success, and how many uncertain.
func (b *book) counts() (done, uncertain int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.done), len(b.uncertain)
}

// firstAfter returns when the first write was a success that was one after t.
func (b *book) firstAfter(t time.Time) (first time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.done) - 1; i >= 0 && b.done[i].at.After(t); i-- {
		first = b.done[i].at
	}
	return first
}

// between returns how many writes were known to be a success in that time.
func (b *book) between(from, to time.Time) (n int) {
	for _, e := range b.done {
		if e.at.After(from) && e.at.Before(to) {
			n++
		}
	}
	return n
}

// look reads the book, and counts what is not there that was a success.
func (b *book) look(ctx context.Context) error {
	c := b.fleet.Client()
	var members map[string]bool
	err := retry.Policy{}.Do(ctx, func(int) error {
		list, err := c.Do(ctx, c.B().Smembers().Key(b.key()).Build()).AsStrSlice()
		members = make(map[string]bool, len(list))
		for _, text := range list {
			members[text] = true
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the book %s: %w", b.tag, err)
	}
	b.settle(members)
	return nil
}

// settle compares what is there with what was written.
func (b *book) settle(members map[string]bool) {
	for _, e := range b.done {
		if !members[e.text] {
			b.lost = append(b.lost, e)
		}
	}
	for _, text := range b.uncertain {
		if members[text] {
			b.there++
		}
	}
}

// sizeAt returns how much a member has of the book.
func (b *book) sizeAt(ctx context.Context, addr string) (int64, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, bookPatience)
	defer cancel()
	return c.Do(ctx, c.B().Scard().Key(b.key()).Build()).AsInt64()
}
