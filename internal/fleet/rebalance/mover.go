package rebalance

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/replicas"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// DefaultBatch is how many tags are moved together.
const DefaultBatch = 100

// Config says how tags are moved. The zero value works.
type Config struct {
	// Batch is how many tags are moved together. For each batch the keys of the
	// partition are gone through once, while writers for its tags wait: more tags
	// are faster, and fewer have their writers wait less. Defaults to 100.
	Batch int

	// Rate is how many bytes a second are copied at most, on average: after each
	// batch there is a rest, in which nobody waits. Defaults to no limit.
	Rate int64

	// Moves is where calls leave word that they go on, so that agents finish what was
	// cut off, see [Mover.Maintain]; the directory of the fleet has them. Defaults to
	// nobody who does.
	Moves directory.Directory

	// Logger is told of batches, and of what could not be put in order. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Progress is told how far it is, after each batch, by one goroutine. Defaults to
	// telling nobody.
	Progress func(Progress)
}

// Progress is how far a call is.
type Progress struct {
	Tags         int // moved by now
	Of           int // to be moved by this call
	Keys         int64
	Bytes        int64 // copied
	LongestPause time.Duration
}

// Report is what a call has done.
type Report struct {
	Tags         int           // moved
	Keys         int64         // copied
	Bytes        int64         // copied, as DUMP has them
	Took         time.Duration // all of it
	LongestPause time.Duration // for which writers for one tag had to wait
	MedianPause  time.Duration
	Kept         []Kept // tags that stayed where they were
}

// Rate is how many bytes a second were copied.
func (r Report) Rate() float64 {
	if r.Took == 0 {
		return 0
	}
	return float64(r.Bytes) / r.Took.Seconds()
}

// Kept is a tag that stayed where it was.
type Kept struct {
	Tag string
	Err error // why: ErrUnknown or ErrTaken
}

// Mover moves tags of one fleet. It is safe for concurrent use.
type Mover struct {
	f   *fleet.Fleet
	cfg Config

	scripts *script.Library
	hosts   replicas.Names

	// Tests have steps fail, hold them up, and leave them out.
	step func(name, tag string, do func() error) error
}

// New returns what moves the tags of a fleet.
func New(f *fleet.Fleet, cfg Config) (*Mover, error) {
	if cfg.Batch < 0 || cfg.Rate < 0 {
		return nil, millrace.ErrBadArgument.Errorf("invalid Batch %d or Rate %d: they must not be negative", cfg.Batch, cfg.Rate)
	}
	if cfg.Batch == 0 {
		cfg.Batch = DefaultBatch
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Progress == nil {
		cfg.Progress = func(Progress) {}
	}
	return &Mover{
		f: f, cfg: cfg, scripts: library,
		step: func(_, _ string, do func() error) error { return do() },
	}, nil
}

// Move moves tags to a partition while they are in use. It returns when all that it
// moved is there, and nothing of it is left where it was.
//
// A tag that is there already counts as moved by an earlier call, and is not in the
// report; what that call left behind is put in order. Tags that were kept make the
// call fail with ErrNotMoved, after the others were moved. Any other error ends it
// at once, with every tag either moved or where it was: a full partition is
// millrace.ErrFull, one that does not answer fleet.ErrUnavailable. When ctx ends it
// takes a second or two to finish or undo the batch under way.
//
// The same call again goes on with what was not moved, and so it does after a crash.
func (m *Mover) Move(ctx context.Context, to int, tags ...string) (Report, error) {
	if err := m.mayTake(to); err != nil {
		return Report{}, err
	}
	tags = slices.Clone(tags)
	slices.Sort(tags)
	var items []*item
	for _, tag := range slices.Compact(tags) {
		items = append(items, &item{tag: tag, trip: trip{to: to}})
	}
	report, err := m.known(ctx, func() (Report, error) { return m.carry(ctx, items, nil) })
	if err == nil && len(report.Kept) > 0 {
		var why []error
		for _, kept := range report.Kept[:min(len(report.Kept), 5)] {
			why = append(why, kept.Err)
		}
		err = ErrNotMoved.Errorf("%d of %d tags were not moved", len(report.Kept), len(items)).Wrap(errors.Join(why...))
	}
	return report, err
}

// mayTake refuses a partition to which nothing is to be moved.
func (m *Mover) mayTake(id int) error {
	partitions := directory.MapOf(m.f.Client()).Partitions
	if id < 0 || id >= len(partitions) {
		return millrace.ErrBadArgument.Errorf("there is no partition %d", id)
	}
	if phase := partitions[id].Phase; phase != directory.Open {
		closed := millrace.ErrBadArgument.Errorf("partition %d takes no tags: its phase is %s", id, phase)
		closed.Hint = "Finish adding it, or open it again, first."
		return closed
	}
	return nil
}

// times are how long is waited for others.
type times struct {
	remembered time.Duration // until nobody remembers a place that was found before
	underWay   time.Duration // until what was under way before is no success any more
	timeout    time.Duration // until a step is given up
}

func (m *Mover) times() times {
	set := directory.MapOf(m.f.Client()).Settings.Effective()
	return times{
		remembered: (set.PlacementTTL + set.ReplyTimeout) * 11 / 10,
		underWay:   set.ReplyTimeout * 11 / 10,
		timeout:    set.ViewTTL,
	}
}

// again repeats a step for a moment, until it succeeds or has an answer.
func (m *Mover) retry(ctx context.Context, step, tag string, try func() error) error {
	return m.step(step, tag, func() error {
		var answer error
		err := retry.Policy{Timeout: m.times().timeout}.Do(ctx, func(int) error {
			err := try()
			if answers(err) {
				answer, err = err, nil
			}
			return err
		})
		if answer != nil {
			return answer
		}
		return err
	})
}

// answers reports whether an error would be the same the next time.
func answers(err error) bool {
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrUnknown) || errors.Is(err, millrace.ErrFull) || errors.Is(err, millrace.ErrBadArgument)
}

// wait waits for others.
func (m *Mover) wait(ctx context.Context, step string, d time.Duration) error {
	return m.step(step, "", func() error {
		if !retry.Sleep(ctx, d) {
			return context.Cause(ctx)
		}
		return nil
	})
}

// late returns a context for what is to be brought to an end although ctx has ended:
// it lasts for some seconds more.
func (m *Mover) late(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		retry.Sleep(late, m.times().underWay+4*m.times().timeout)
		cancel()
	})
	return late, func() { stop(); cancel() }
}
