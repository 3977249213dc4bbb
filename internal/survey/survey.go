package survey

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/lease"
)

const (
	idleInterval    = 5 * time.Second // between surveys, and between samples
	watchedInterval = time.Second     // between surveys during a Watch

	// minListPause is the shortest pause between listings of names, and listPauses is the
	// shortest pause as a multiple of the duration of a listing.
	minListPause = 10 * time.Second
	listPauses   = 50

	// refreshTimeout is how long a listing may take for [Survey.Refresh] to wait for it.
	refreshTimeout = time.Second
)

// Config configures a survey. It needs a Client.
type Config struct {
	// Client is the connection to Redis: one server, Sentinel, a cluster, or a fleet's.
	// The caller closes it.
	Client rueidis.Client

	// Fleet is the fleet of that client. Defaults to none.
	Fleet *fleet.Fleet

	// Logger logs when Redis goes away and returns. Defaults to slog.Default().
	Logger *slog.Logger
}

// Survey reads all structures of a Redis regularly and keeps the last hour. It is safe for
// concurrent use.
type Survey struct {
	prober prober
	log    *slog.Logger
	born   time.Time

	surveying turn
	listing   turn

	mu        sync.Mutex
	view      *View
	next      chan struct{} // closed when there is a new View
	watchers  int
	attended  chan struct{} // signals a change of watchers
	histories histories
	known     names
	unlisted  error         // error of the last listing
	listTook  time.Duration // duration of the last listing
	nextList  time.Time     // when the next listing is due
}

// turn runs work that must not overlap.
type turn struct {
	busy  chan struct{} // has one element during the work
	began time.Time     // when the last complete work began
}

// do waits until no other work runs, and then runs work, unless another one began after the
// call. Work returns whether it is complete.
func (t *turn) do(ctx context.Context, work func() bool) {
	called := time.Now()
	select {
	case t.busy <- struct{}{}:
		defer func() { <-t.busy }()
	case <-ctx.Done():
		return
	}
	if !t.began.Before(called) {
		return
	}
	if began := time.Now(); work() {
		t.began = began
	}
}

// New returns a survey without asking Redis anything: [Survey.Run] and [Survey.Refresh] do. Errors are derived from [millrace.ErrBadArgument].
func New(cfg Config) (*Survey, error) {
	if cfg.Client == nil {
		return nil, millrace.ErrBadArgument.Errorf("a survey needs a Client")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	locker, err := lease.New(cfg.Client, lease.Config{Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	return newSurvey(&redisProber{cfg: cfg, locker: locker}, cfg.Logger), nil
}

func newSurvey(p prober, log *slog.Logger) *Survey {
	return &Survey{
		prober: p, log: log, born: time.Now(),
		surveying: turn{busy: make(chan struct{}, 1)}, listing: turn{busy: make(chan struct{}, 1)},
		view: &View{}, next: make(chan struct{}), attended: make(chan struct{}, 1),
		histories: histories{of: map[subject]*history{}},
	}
}

// View returns the latest View. It is never nil, and empty before the first survey.
func (s *Survey) View() *View {
	v, _ := s.seen()
	return v
}

// seen returns the View and the known names.
func (s *Survey) seen() (*View, names) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view, s.known
}

// Run surveys until ctx ends, and returns its cause. Call it once.
func (s *Survey) Run(ctx context.Context) error {
	_, _ = s.Refresh(ctx) // the View and the log have the error
	var listing sync.WaitGroup
	listing.Go(func() { s.KeepListing(ctx) })
	began, took := time.Now(), time.Duration(0)
	for s.wait(ctx, began, took) {
		began = time.Now()
		_, _ = s.survey(ctx)
		took = time.Since(began)
	}
	listing.Wait()
	return context.Cause(ctx)
}

// wait waits until the next survey is due: after the interval, and at least twice the
// duration of the last one. It returns false if ctx ends.
func (s *Survey) wait(ctx context.Context, began time.Time, took time.Duration) bool {
	for {
		timer := time.NewTimer(time.Until(began.Add(max(s.interval(), 2*took))))
		select {
		case <-timer.C:
			return true
		case <-s.attended: // the interval may be shorter now
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// interval is the time between the starts of surveys.
func (s *Survey) interval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers > 0 {
		return watchedInterval
	}
	return idleInterval
}

// survey makes a new View, unless another call made one meanwhile. It returns that View and
// its Away.
func (s *Survey) survey(ctx context.Context) (*View, error) {
	s.surveying.do(ctx, func() bool {
		s.mu.Lock()
		last, known, unlisted := s.view, s.known, s.unlisted
		s.mu.Unlock()
		v := s.prober.read(ctx, known, last)
		if ctx.Err() != nil { // the View is empty
			return false
		}
		v.Named, v.LeftOut = known.at, known.leftOut
		if unlisted != nil {
			v.Troubles = append(v.Troubles, Trouble{Kind: Names, Err: unlisted})
		}
		s.publish(v)
		s.logChange(ctx, last, v)
		return true
	})
	v := s.View()
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	return v, v.Away()
}

// publish makes v the View, and takes a sample.
func (s *Survey) publish(v *View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view.Away() != nil && v.Away() == nil {
		s.nextList = time.Time{} // it may have other structures now
	}
	s.view = v
	s.histories.add(v, s.known)
	close(s.next)
	s.next = make(chan struct{})
}

// logChange logs that Redis went away or returned.
func (s *Survey) logChange(ctx context.Context, last, v *View) {
	switch before, now := last.Away(), v.Away(); {
	case before == nil && now != nil:
		s.log.WarnContext(ctx, "Redis cannot be reached; pages and metrics show the last numbers", "error", now)
	case before != nil && now == nil:
		s.log.InfoContext(ctx, "Redis can be reached again")
	}
}

// Watch yields the latest View at once, and then each new one until ctx ends. A slow caller
// misses some. Surveys are a second apart while there is a watcher.
func (s *Survey) Watch(ctx context.Context) iter.Seq[*View] {
	return func(yield func(*View) bool) {
		s.attend(1)
		defer s.attend(-1)
		for ctx.Err() == nil {
			s.mu.Lock()
			v, next := s.view, s.next
			s.mu.Unlock()
			if !yield(v) {
				return
			}
			select {
			case <-next:
			case <-ctx.Done():
				return
			}
		}
	}
}

// attend counts watchers.
func (s *Survey) attend(more int) {
	s.mu.Lock()
	s.watchers += more
	s.mu.Unlock()
	select {
	case s.attended <- struct{}{}:
	default: // a signal is waiting already
	}
}

// Refresh surveys now, including new structures if listing takes less than a second, and
// returns the View with its Away. It is for after an action, also during Run. It takes at most
// about 15 seconds, when Redis is in trouble.
func (s *Survey) Refresh(ctx context.Context) (*View, error) {
	s.mu.Lock()
	quick := s.listTook < refreshTimeout
	s.mu.Unlock()
	if quick {
		bounded, cancel := context.WithTimeoutCause(ctx, refreshTimeout, errSilent)
		s.list(bounded)
		cancel()
	}
	return s.survey(ctx)
}

// Poll surveys now and returns the View with its Away, for a program that surveys at its own
// times. It calls KeepListing instead of Run. Poll takes at most about 15 seconds, when Redis
// is in trouble.
func (s *Survey) Poll(ctx context.Context) (*View, error) { return s.survey(ctx) }

// KeepListing lists names until ctx ends: for at most 2% of the time, and not while no server
// answers. Run does it by itself.
func (s *Survey) KeepListing(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		due := s.view.Away() == nil && !time.Now().Before(s.nextList)
		s.mu.Unlock()
		if due {
			s.list(ctx)
		} else {
			retry.Sleep(ctx, watchedInterval)
		}
	}
}

// list lists the names of all structures, unless another call did meanwhile.
func (s *Survey) list(ctx context.Context) {
	s.listing.do(ctx, func() bool {
		began := time.Now()
		found, err := s.prober.list(ctx)
		took := time.Since(began)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.listTook = took
		if ctx.Err() != nil { // it was cut off
			return false
		}
		s.nextList, s.unlisted = time.Now().Add(max(minListPause, listPauses*took)), err
		if err == nil || errors.Is(err, millrace.ErrPartial) {
			found.complete(s.known)
			s.known = found
		}
		return true
	})
}
