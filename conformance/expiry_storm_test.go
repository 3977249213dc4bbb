package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/pinned"
)

// perishable are the methods of hashes and of pinned values that a storm needs.
type perishable interface {
	put(ctx context.Context, name string, ttl time.Duration) error
	get(ctx context.Context, name string) (string, error)
}

// fields are a namespace of hashes in which each name is a field of one of a few.
type fields struct{ *expiry.Hashes }

func (f fields) hash(name string) string { return "hash" + name[len(name)-1:] }

func (f fields) put(ctx context.Context, name string, ttl time.Duration) error {
	_, err := f.Set(ctx, f.hash(name), name, []byte(name), expiry.SetConfig{TTL: ttl})
	return err
}

func (f fields) get(ctx context.Context, name string) (string, error) {
	value, _, err := f.Get(ctx, f.hash(name), name)
	return string(value), err
}

// values are a namespace of pinned values.
type values struct{ *pinned.Keys }

func (v values) put(ctx context.Context, name string, ttl time.Duration) error {
	_, err := v.Set(ctx, name, []byte(name), ttl, pinned.SetConfig{})
	return err
}

func (v values) get(ctx context.Context, name string) (string, error) {
	value, _, err := v.Get(ctx, name)
	return string(value), err
}

// shelf is a namespace under load: fields or values are set and read, whose times
// end before, during and after the storm. All readers are right all the time.
type shelf struct {
	t              *testing.T
	now            *storm
	writer, reader perishable

	mu      sync.Mutex
	goods   []good
	counted expiryCount
}

func newShelf(t *testing.T, now *storm, writer, reader perishable) *shelf {
	return &shelf{t: t, now: now, writer: writer, reader: reader}
}

func (s *shelf) begin(ctx context.Context, working *sync.WaitGroup) {
	working.Go(func() { s.fill(ctx) })
	for range 2 {
		working.Go(func() { s.look(ctx) })
	}
}

// goesOn wants more to be set, found and gone.
func (s *shelf) goesOn() func() bool {
	before := s.count()
	return func() bool { return s.count().exceeds(before, 20) }
}

// good is something on a shelf.
type good struct {
	name         string
	ttl          time.Duration
	began, ended time.Time // of the call that put it there
	shaken       bool      // put there during the storm, which may have lost it
}

// expiryCount is how much was put, found and gone.
type expiryCount struct{ put, found, gone int }

func (s expiryCount) exceeds(o expiryCount, by int) bool {
	return s.put > o.put+by && s.found > o.found+by && s.gone > o.gone+by
}

// fill puts things on the shelf until ctx ends. Each is new, so an earlier call
// without an answer does not matter.
func (s *shelf) fill(ctx context.Context) {
	times := []time.Duration{brief, 3 * brief, 20 * brief, long}
	for i := 0; retry.Sleep(ctx, pace); i++ {
		asked := s.now.Load()
		g := good{name: fmt.Sprint("good", i), ttl: times[i%len(times)], began: time.Now()}
		if err := s.writer.put(ctx, g.name, g.ttl); err != nil {
			if ctx.Err() == nil {
				wantPatient(s.t, "Set", g.began, err)
			}
			continue
		}
		g.ended = time.Now()
		g.shaken = asked == inStorm || asked != s.now.Load()
		s.mu.Lock()
		s.goods = append(s.goods, g)
		s.counted.put++
		s.mu.Unlock()
	}
}

// look looks at things, more often at new ones, until ctx ends.
func (s *shelf) look(ctx context.Context) {
	for retry.Sleep(ctx, pace) {
		if g, ok := s.pick(); ok {
			s.inspect(ctx, g)
		}
	}
}

func (s *shelf) pick() (good, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.goods) == 0 {
		return good{}, false
	}
	oldest := 0
	if rand.IntN(4) > 0 {
		oldest = max(0, len(s.goods)-200)
	}
	return s.goods[oldest+rand.IntN(len(s.goods)-oldest)], true
}

// inspect checks that a thing is there if its time is not over, and gone if it is.
func (s *shelf) inspect(ctx context.Context, g good) {
	asked := time.Now()
	value, err := s.reader.get(ctx, g.name)
	answered := time.Now()
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, millrace.ErrNotFound):
		if !g.shaken && answered.Before(g.began.Add(g.ttl-slack)) {
			s.t.Errorf("%s, set for %v, is gone after %v", g.name, g.ttl, answered.Sub(g.began))
		}
	case err != nil:
		wantPatient(s.t, "Get", asked, err)
		return
	case value != g.name:
		s.t.Errorf("%s is %q", g.name, value)
	case asked.After(g.ended.Add(g.ttl + slack)):
		s.t.Errorf("%s, set for %v, is there after %v", g.name, g.ttl, asked.Sub(g.ended))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.counted.found++
	} else {
		s.counted.gone++
	}
}

// check inspects everything once more.
func (s *shelf) check() {
	s.t.Helper()
	for _, g := range s.goods {
		s.inspect(s.t.Context(), g)
	}
}

func (s *shelf) count() expiryCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted
}
