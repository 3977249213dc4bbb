package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/steal"
)

const (
	// clerks is how many goroutines of a host serve, each visitors of its own.
	clerks = 8

	// loaders is how many goroutines store a host's visitors.
	loaders = 32

	// reapRate is the chance at each hit that expired fields are removed.
	reapRate = 0.003

	// headStart is how long after the first session is stored it is over.
	headStart = 300 * time.Millisecond
)

// apart is how far the deadlines of two sessions are from each other.
const apart = time.Second / sessionsEnding

func (p part) perHost() int { return p.visitors / hosts }

// sessionSpan is how much longer a session lasts when it is renewed.
func (p part) sessionSpan() time.Duration { return time.Duration(p.visitors) * apart }

// host is the expiry scene's child: it stores visitors, and serves them.
type host struct {
	part
	number    int // from 1
	clock     *serverClock
	hashes    *expiry.Hashes
	recruiter *steal.Recruiter

	// The tests have others.
	get  func(ctx context.Context, hash, field string) ([]byte, error)
	reap millrace.Job

	mu   sync.Mutex
	news hostNews
}

// hostVisitors serves visitors until it is dismissed.
func hostVisitors(ctx context.Context, p part) error {
	h, err := newHost(ctx, p)
	if err != nil {
		return err
	}
	return h.serve(ctx)
}

func newHost(ctx context.Context, p part) (*host, error) {
	number, err := p.client.Do(ctx, p.client.B().Incr().Key(hostsKey(p.name)).Build()).AsInt64()
	if err != nil {
		return nil, err
	}
	h := &host{
		part:      p,
		number:    int(number),
		clock:     newServerClock(p.client, p.name),
		recruiter: steal.New(steal.Config{Budget: budget, Floor: floor}),
	}
	h.hashes, err = expiry.Open(ctx, p.client, p.name, expiry.Config{
		Shards: expiry.DefaultShards, Enlister: h.recruiter,
	})
	if err != nil {
		return nil, err
	}
	h.reap = h.hashes.Jobs()[0]
	h.get = func(ctx context.Context, hash, field string) ([]byte, error) {
		value, _, err := h.hashes.Get(ctx, hash, field)
		return value, err
	}
	return h, nil
}

// serve is hostVisitors from the first visitor to the last.
func (h *host) serve(ctx context.Context) error {
	if err := h.recruiter.Install(h.reap, reapRate); err != nil {
		return err
	}
	if err := h.clock.ask(ctx); err != nil {
		return err
	}
	staff, err := h.load(ctx)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	work.Go(func() { _ = h.recruiter.Run(ctx) }) // it ends with the context
	for _, c := range staff {
		work.Go(func() {
			if err := c.serve(ctx); err != nil {
				cancel(err)
			}
		})
	}
	told := h.tell(ctx)
	cancel(told)
	work.Wait()
	_ = h.recruiter.Close(context.WithoutCancel(ctx)) // what hangs ends with the process
	return errors.Join(told, h.report(h.since()))
}

// load stores the visitors and returns those who serve them.
func (h *host) load(ctx context.Context) ([]*clerk, error) {
	err := h.forEach(ctx, func(ctx context.Context, number int) error {
		hash := visitorHash(number)
		_, err := h.hashes.SetMany(ctx, hash, map[string][]byte{nameField: []byte(hash), cityField: []byte("Springfield")}, expiry.SetConfig{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store visitors: %w", err)
	}

	_, start := h.clock.span(time.Now().Add(headStart))
	staff := make([]*clerk, clerks)
	for i := range staff {
		staff[i] = &clerk{host: h, first: (h.number-1)*h.perHost() + i, ends: make([]time.Time, h.perHost()/clerks)}
	}
	// Sessions end in the order of the visitors' numbers, those of all hosts in turn.
	err = h.forEach(ctx, func(ctx context.Context, number int) error {
		place := number % h.perHost()
		end := start.Add(time.Duration(place*hosts+h.number-1) * apart).Truncate(time.Millisecond)
		staff[place%clerks].ends[place/clerks] = end
		hash := visitorHash(number)
		_, err := h.hashes.Set(ctx, hash, sessionField, sessionValue(end), expiry.SetConfig{Deadline: end})
		if _, latest := h.clock.bounds(shardOf(hash), time.Now()); !latest.Before(end) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.news.Stillborn++
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store sessions: %w", err)
	}
	for _, c := range staff {
		for _, end := range c.ends {
			h.news.Began = append(h.news.Began, end.UnixMilli())
		}
	}
	return staff, nil
}

// forEach calls do for each of the host's visitors, from several goroutines, in
// about the order of their numbers, and returns the first error.
func (h *host) forEach(ctx context.Context, do func(ctx context.Context, number int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var next atomic.Int64
	for range loaders {
		all.Go(func() {
			for ctx.Err() == nil {
				place := int(next.Add(1)) - 1
				if place >= h.perHost() {
					return
				}
				if err := do(ctx, (h.number-1)*h.perHost()+place); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// tell reports that the visitors are stored, and then what happens, until ctx ends.
func (h *host) tell(ctx context.Context) error {
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	for {
		if err := h.report(h.since()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if err := h.clock.tick(ctx); err != nil {
			return err
		}
	}
}

// since returns the news since it was last called.
func (h *host) since() hostNews {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := h.news
	h.news = hostNews{hostCounts: news.hostCounts}
	news.Host, news.Stats = h.number, h.recruiter.Stats()
	return news
}
