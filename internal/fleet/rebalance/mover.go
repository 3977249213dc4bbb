package rebalance

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/replicas"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// DefaultBatch is how many tags are moved together.
const DefaultBatch = 100

// Config says how tags are moved. The zero value works.
type Config struct {
	// Batch is how many tags are moved together. Each batch needs one pass over the keys of
	// the partition while the batch's writers wait: a large batch is faster, a small one has
	// shorter pauses. Defaults to 100.
	Batch int

	// Rate is the average number of bytes copied per second at most. Calls pause between
	// batches, while no writer waits. Defaults to no limit.
	Rate int64

	// Moves registers calls in the fleet's directory, so that agents finish a call that was
	// cut off, see [Mover.Maintain]. Defaults to none.
	Moves *directory.Directory

	// Logger reports moves that are not finished. Defaults to slog.Default().
	Logger *slog.Logger

	// Progress is called after each batch, from one goroutine. Defaults to none.
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

// Report is the result of a call.
type Report struct {
	Tags         int           // moved
	Keys         int64         // copied
	Bytes        int64         // copied, in the format of DUMP
	Took         time.Duration // the whole call
	LongestPause time.Duration // for which the writers of one tag had to wait
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

	// Tests make steps fail, delay them, and leave them out.
	step func(name, tag string, do func() error) error
}

// New returns a mover for the tags of a fleet.
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

// Move moves tags to a partition while they are in use. It returns when the moved tags
// are there, and nothing of them is left where they were.
//
// A tag that is there already is not in the report; the remains of an earlier move of it
// are cleaned up. If tags were kept, the call moves the others and fails with
// ErrNotMoved. Any other error ends it at once, with every tag either moved or in use where it
// was: millrace.ErrFull for a full partition, fleet.ErrUnavailable for one that does not
// answer. When ctx ends, the call needs a second or two until writers of the current batch
// go on.
//
// The same call again continues with the tags that were not moved, also after a crash. Agents
// complete the moves that were begun, up to 10,000 ([Mover.Maintain]), unless a partition is
// full.
func (m *Mover) Move(ctx context.Context, to int, tags ...string) (Report, error) {
	if err := m.mayTake(to); err != nil {
		return Report{}, err
	}
	var items []*item
	for _, tag := range slices.Compact(slices.Sorted(slices.Values(tags))) {
		items = append(items, &item{tag: tag, trip: trip{to: to}})
	}
	report, err := m.registered(ctx, func() (Report, error) { return m.carry(ctx, items, nil) })
	if err == nil && len(report.Kept) > 0 {
		var why []error
		for _, kept := range report.Kept[:min(len(report.Kept), 5)] {
			why = append(why, kept.Err)
		}
		err = ErrNotMoved.Errorf("%d of %d tags were not moved", len(report.Kept), len(items)).Wrap(errors.Join(why...))
	}
	return report, err
}

// fleetMap returns the current map of the fleet.
func (m *Mover) fleetMap() *directory.Map { return directory.MapOf(m.f.Client()) }

// mayTake refuses a partition that takes no tags.
func (m *Mover) mayTake(id int) error {
	partitions := m.fleetMap().Partitions
	if err := checkID(m.fleetMap(), id); err != nil {
		return err
	}
	if phase := partitions[id].Phase; phase != directory.Open {
		return millrace.ErrBadArgument.Errorf("partition %d takes no tags: its phase is %s", id, phase).
			WithHint("Name partitions whose phase is open: millrace fleet show.")
	}
	return nil
}

func checkID(m *directory.Map, id int) error {
	if id < 0 || id >= len(m.Partitions) {
		return millrace.ErrBadArgument.Errorf("there is no partition %d", id)
	}
	return nil
}

// maintainInterval is the pause between two checks for calls that were cut off.
const maintainInterval = 5 * time.Second

// Maintain finishes calls with the same Moves that were cut off or could not reach a
// partition. It returns when ctx ends, with the cause. It starts no moves. Agents run it;
// one of several does the work.
func (m *Mover) Maintain(ctx context.Context) error {
	if m.cfg.Moves == nil {
		return millrace.ErrBadArgument.Errorf("Maintain needs Config.Moves")
	}
	for m.wait(ctx, "tend", maintainInterval) == nil {
		end, adopted, err := directory.AdoptMoves(ctx, m.cfg.Moves)
		switch {
		case err != nil && ctx.Err() == nil:
			m.cfg.Logger.WarnContext(ctx, "cannot check for moves of tags that were cut off", "error", err)
		case err == nil && adopted:
			r, err := m.resumeAll(ctx)
			end(err == nil)
			if err != nil && ctx.Err() == nil {
				m.cfg.Logger.WarnContext(ctx, "cannot finish moves of tags that were cut off yet", "error", err)
			} else if err == nil {
				m.cfg.Logger.InfoContext(ctx, "finished moves of tags that were cut off", "tags", r.Tags)
			}
		}
	}
	return context.Cause(ctx)
}

// resumeAll resumes all partitions: the directory does not record which ones a call moved.
func (m *Mover) resumeAll(ctx context.Context) (all Report, err error) {
	for _, p := range m.fleetMap().Partitions {
		r, failed := m.resume(ctx, p.ID)
		all.Tags += r.Tags
		if err = errors.Join(err, failed); ctx.Err() != nil {
			break
		}
	}
	return all, err
}

// registered runs a call, and has an agent finish it if this process cannot.
func (m *Mover) registered(ctx context.Context, do func() (Report, error)) (Report, error) {
	if m.cfg.Moves == nil {
		return do()
	}
	var end func(finished bool)
	err := retry.Policy{}.Do(ctx, func(int) (err error) {
		end, err = directory.BeginMoves(context.WithoutCancel(ctx), m.cfg.Moves)
		return err
	})
	if err != nil {
		return Report{}, err
	}
	r, err := do()
	end(err == nil || errors.Is(err, ErrNotMoved))
	return r, err
}

// times are how long a move waits for clients.
type times struct {
	remembered time.Duration // until no client remembers a place that it looked up before
	inFlight   time.Duration // until no call that is in flight can succeed
	timeout    time.Duration // of one step
}

func (m *Mover) times() times {
	set := m.fleetMap().Settings.Effective()
	return times{
		remembered: (set.PlacementTTL + set.ReplyTimeout) * 11 / 10,
		inFlight:   set.ReplyTimeout * 11 / 10,
		timeout:    set.ViewTTL,
	}
}

// retry repeats a step for a moment, until it succeeds or a repeat would fail alike.
func (m *Mover) retry(ctx context.Context, step, tag string, try func() error) error {
	return m.step(step, tag, func() error {
		var final error
		err := retry.Policy{Timeout: m.times().timeout}.Do(ctx, func(int) error {
			err := try()
			if errors.Is(err, ErrTaken) || errors.Is(err, ErrUnknown) || errors.Is(err, millrace.ErrFull) || errors.Is(err, millrace.ErrBadArgument) {
				final, err = err, nil
			}
			return err
		})
		return cmp.Or(final, err)
	})
}

func (m *Mover) wait(ctx context.Context, step string, d time.Duration) error {
	return m.step(step, "", func() error {
		if !retry.Sleep(ctx, d) {
			return context.Cause(ctx)
		}
		return nil
	})
}

// late returns a context for work that must be completed although ctx has ended: it lasts
// some seconds longer.
func (m *Mover) late(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		retry.Sleep(late, m.times().inFlight+4*m.times().timeout)
		cancel()
	})
	return late, func() { stop(); cancel() }
}
