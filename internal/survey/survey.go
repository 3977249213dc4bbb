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
	// every is the interval of surveys while nobody watches, and of samples.
	every = 5 * time.Second

	// watched is the interval of surveys while somebody watches.
	watched = time.Second

	// rest is the shortest pause between listings of names, and pauses is the shortest
	// pause as a multiple of the time of a listing.
	rest   = 30 * time.Second
	pauses = 50

	// promptly is how long a listing may take for [Survey.Refresh] to wait for it.
	promptly = time.Second
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

	looking chan struct{} // held during a survey
	finding chan struct{} // held during a listing

	mu        sync.Mutex
	view      *View
	next      chan struct{} // closed when there is a new View
	began     time.Time     // when the survey of the View began
	watchers  int
	attended  chan struct{} // signals a change of watchers
	histories histories

	known     names
	unnamed   error         // error of the last listing
	found     time.Time     // when the last listing began
	findTook  time.Duration // duration of the last listing
	findAgain time.Time     // when the next listing is due
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

func newSurvey(s prober, log *slog.Logger) *Survey {
	return &Survey{
		prober: s, log: log, born: time.Now(),
		looking: make(chan struct{}, 1), finding: make(chan struct{}, 1),
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
	var finding sync.WaitGroup
	finding.Go(func() { s.keepFinding(ctx) })
	s.keepLooking(ctx)
	finding.Wait()
	return context.Cause(ctx)
}

// keepLooking surveys every 5 s, or every 1 s while somebody watches, at most half of the
// time.
func (s *Survey) keepLooking(ctx context.Context) {
	began, took := time.Now(), time.Duration(0)
	for s.wait(ctx, began, took) {
		began = time.Now()
		_, _ = s.look(ctx)
		took = time.Since(began)
	}
}

// wait waits until the next survey is due. It returns false if ctx ends.
func (s *Survey) wait(ctx context.Context, began time.Time, took time.Duration) bool {
	for {
		timer := time.NewTimer(time.Until(began.Add(max(s.pace(), 2*took))))
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

// pace is the interval of surveys.
func (s *Survey) pace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers > 0 {
		return watched
	}
	return every
}

// look makes a new View, unless another call made one meanwhile. It returns that View and its
// Away.
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
	v := s.prober.look(ctx, known, last)
	if ctx.Err() != nil { // the View is empty
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
		s.findAgain = time.Time{} // it may have other structures now
	}
	s.view, s.began = v, began
	s.histories.add(v, s.known)
	close(s.next)
	s.next = make(chan struct{})
}

// tell logs that Redis went away or returned.
func (s *Survey) tell(ctx context.Context, last, v *View) {
	switch before, now := last.Away(), v.Away(); {
	case before == nil && now != nil:
		s.log.WarnContext(ctx, "Redis cannot be reached; pages and metrics show the last numbers", "error", now)
	case before != nil && now == nil:
		s.log.InfoContext(ctx, "Redis can be reached again")
	}
}

// Watch yields the latest View at once, and then each new one until ctx ends. A slow caller
// misses some. Surveys are a second apart while anybody watches.
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
	quick := s.findTook < promptly
	s.mu.Unlock()
	if quick {
		bounded, cancel := context.WithTimeoutCause(ctx, promptly, errSilent)
		s.find(bounded)
		cancel()
	}
	return s.look(ctx)
}

// keepFinding lists names for at most 2% of the time, and not while no server answers.
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

// find lists all structures, unless another call did meanwhile.
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
	found, err := s.prober.find(ctx)
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findTook = took
	if ctx.Err() != nil { // it was cut off
		return
	}
	s.found, s.findAgain = began, time.Now().Add(max(rest, pauses*took))
	s.unnamed = err
	if err == nil || errors.Is(err, millrace.ErrPartial) {
		found.complete(s.known)
		s.known = found
	}
}

// take takes a turn. It returns false if ctx ends first.
func take(ctx context.Context, turn chan struct{}) bool {
	select {
	case turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
