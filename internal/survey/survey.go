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
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/lease"
)

const (
	// every is the time from look to look while nobody watches, and from sample to
	// sample.
	every = 5 * time.Second

	// watched is the time from look to look while somebody watches.
	watched = time.Second

	// rest is how long names are not looked for at least, and pauses is how many
	// times as long as it took to find them.
	rest   = 30 * time.Second
	pauses = 50

	// promptly is how long finding names may take for [Survey.Refresh] to wait for
	// it.
	promptly = time.Second
)

// Config is what a survey looks at.
type Config struct {
	// Client is the way to Redis: one server, Sentinel, a cluster, or a fleet's. It
	// stays the caller's, and must be there.
	Client rueidis.Client

	// Fleet is the fleet whose client that is. Defaults to none.
	Fleet *fleet.Fleet

	// Logger is told when Redis cannot be reached, and when it can be again.
	// Defaults to slog.Default().
	Logger *slog.Logger
}

// Survey looks at all structures on a Redis and remembers the last hour. It is safe
// for concurrent use.
type Survey struct {
	scout scout
	log   *slog.Logger
	born  time.Time

	looking chan struct{} // held by the one who looks
	finding chan struct{} // held by the one who finds names

	mu        sync.Mutex
	view      *View
	next      chan struct{} // closed when there is another View
	began     time.Time     // when the look began that made the View
	watchers  int
	attended  chan struct{} // told when one comes or goes
	histories histories

	known     names
	unnamed   error         // why names could not be found the last time
	found     time.Time     // when that began
	findTook  time.Duration // the last time, even if it was given up
	findAgain time.Time     // when names are to be found next
}

// New returns a survey. It asks nothing of Redis: [Survey.Run] and [Survey.Refresh]
// do. Errors are derived from [millrace.ErrBadArgument].
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
	return newSurvey(&redisScout{cfg: cfg, locker: locker}, cfg.Logger), nil
}

func newSurvey(s scout, log *slog.Logger) *Survey {
	return &Survey{
		scout: s, log: log, born: time.Now(),
		looking: make(chan struct{}, 1), finding: make(chan struct{}, 1),
		view: &View{}, next: make(chan struct{}), attended: make(chan struct{}, 1),
		histories: histories{of: map[subject]*history{}},
	}
}

// View returns what the latest look saw. It is never nil, and empty before the
// first one.
func (s *Survey) View() *View {
	v, _ := s.seen()
	return v
}

// seen returns the View, and which names are known.
func (s *Survey) seen() (*View, names) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view, s.known
}

// Run looks until ctx ends, and returns its cause. One call a survey.
func (s *Survey) Run(ctx context.Context) error {
	_, _ = s.Refresh(ctx) // the View and the log tell what went wrong
	var finding sync.WaitGroup
	finding.Go(func() { s.keepFinding(ctx) })
	s.keepLooking(ctx)
	finding.Wait()
	return context.Cause(ctx)
}

// keepLooking looks each 5 s, or 1 s while somebody watches, and for half of the time
// at most.
func (s *Survey) keepLooking(ctx context.Context) {
	began, took := time.Now(), time.Duration(0)
	for s.wait(ctx, began, took) {
		began = time.Now()
		_, _ = s.look(ctx)
		took = time.Since(began)
	}
}

// wait waits until the next look is due, and reports whether ctx has not ended.
func (s *Survey) wait(ctx context.Context, began time.Time, took time.Duration) bool {
	for {
		timer := time.NewTimer(time.Until(began.Add(max(s.pace(), 2*took))))
		select {
		case <-timer.C:
			return true
		case <-s.attended: // it may be due earlier
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// pace is the time from look to look.
func (s *Survey) pace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers > 0 {
		return watched
	}
	return every
}

// look makes a View that is of now, unless somebody else made one since this was
// called. It returns that, and its Away.
func (s *Survey) look(ctx context.Context) (*View, error) {
	asked := time.Now()
	if !take(ctx, s.looking) {
		return s.View(), context.Cause(ctx)
	}
	defer func() { <-s.looking }()
	s.mu.Lock()
	last, known, unnamed, done := s.view, s.known, s.unnamed, !s.began.Before(asked)
	s.mu.Unlock()
	if done {
		return last, last.Away()
	}
	began := time.Now()
	v := s.scout.look(ctx, known, last)
	if ctx.Err() != nil { // and so it saw nothing
		return last, context.Cause(ctx)
	}
	v.Named, v.LeftOut = known.at, known.leftOut
	if unnamed != nil {
		v.Troubles = append(v.Troubles, Trouble{Kind: Names, Err: unnamed})
	}
	s.publish(v, began)
	s.tell(ctx, last, v)
	return v, v.Away()
}

// publish makes v the View, and takes a sample.
func (s *Survey) publish(v *View, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view.Away() != nil && v.Away() == nil {
		s.findAgain = time.Time{} // it may have come back with something else
	}
	s.view, s.began = v, began
	s.histories.add(v, s.known)
	close(s.next)
	s.next = make(chan struct{})
}

// tell logs that Redis went away or came back.
func (s *Survey) tell(ctx context.Context, last, v *View) {
	switch before, now := last.Away(), v.Away(); {
	case before == nil && now != nil:
		s.log.WarnContext(ctx, "Redis cannot be reached; pages and metrics show what was seen last", "error", now)
	case before != nil && now == nil:
		s.log.InfoContext(ctx, "Redis can be reached again")
	}
}

// Watch goes through the Views: the latest one at once, and then each new one,
// until ctx ends. Who is slow misses some. Looks are a second apart while anybody
// watches.
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

// attend counts who watches.
func (s *Survey) attend(more int) {
	s.mu.Lock()
	s.watchers += more
	s.mu.Unlock()
	select {
	case s.attended <- struct{}{}:
	default: // it will be looked at anyway
	}
}

// Refresh looks at once, for new structures too if finding them takes less than a
// second, and returns what it saw, with its Away. It is for after an action, also
// while Run runs. It takes some 15 seconds at most, when Redis is in trouble.
func (s *Survey) Refresh(ctx context.Context) (*View, error) {
	s.mu.Lock()
	quick := s.findTook < promptly
	s.mu.Unlock()
	if quick {
		bounded, cancel := context.WithTimeoutCause(ctx, promptly, errSilent)
		s.find(bounded)
		cancel()
	}
	return s.look(ctx)
}

// keepFinding finds names, for 2% of the time at most, and not while no server
// answers.
func (s *Survey) keepFinding(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		due := s.view.Away() == nil && !time.Now().Before(s.findAgain)
		s.mu.Unlock()
		if due {
			s.find(ctx)
		} else {
			retry.Sleep(ctx, watched)
		}
	}
}

// find finds the names of all structures, unless somebody else did since this was
// called.
func (s *Survey) find(ctx context.Context) {
	asked := time.Now()
	if !take(ctx, s.finding) {
		return
	}
	defer func() { <-s.finding }()
	s.mu.Lock()
	done := !s.found.Before(asked)
	s.mu.Unlock()
	if done {
		return
	}
	began := time.Now()
	found, err := s.scout.find(ctx)
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findTook = took
	if ctx.Err() != nil { // and so it was given up
		return
	}
	s.found, s.findAgain = began, time.Now().Add(max(rest, pauses*took))
	s.unnamed = err
	if err == nil || errors.Is(err, millrace.ErrPartial) {
		found.complete(s.known)
		s.known = found
	}
}

// take takes a turn, and reports whether it did before ctx ended.
func take(ctx context.Context, turn chan struct{}) bool {
	select {
	case turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
