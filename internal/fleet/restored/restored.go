package restored

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/retry"
)

// Config says how a Job works.
type Config struct {
	// Mark adds tags to the Ick of that name, some at a time.
	Mark func(ctx context.Context, ick string, tags []string) error

	// Logger reports failures. Defaults to slog.Default().
	Logger *slog.Logger
}

// Job does what is to be done in partitions that went back in time. Any number of agents
// may have one.
type Job struct {
	f        *fleet.Fleet
	dir      *directory.Directory
	mover    *rebalance.Mover
	cfg      Config
	interval time.Duration
}

// every is the interval of checks for restored partitions.
const every = 5 * time.Second

// New returns a job. The mover is one with rebalance.Config.Moves.
func New(f *fleet.Fleet, mover *rebalance.Mover, cfg Config) *Job {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Job{f: f, dir: directory.Of(f.Client()), mover: mover, cfg: cfg, interval: every}
}

// Run does what is to be done, until ctx ends, and returns the cause.
func (j *Job) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	busy := map[int]*sync.Mutex{}
	for retry.Sleep(ctx, j.interval) {
		for id, c := range j.f.Partitions() {
			mine := busy[id]
			if mine == nil {
				mine = new(sync.Mutex)
				busy[id] = mine
			}
			if !mine.TryLock() {
				continue
			}
			working.Go(func() {
				defer mine.Unlock()
				if err := j.attend(ctx, id, c); err != nil && ctx.Err() == nil {
					j.cfg.Logger.WarnContext(ctx, "cannot find all that a restored partition has lost yet", "partition", id, "error", err)
				}
			})
		}
	}
	return context.Cause(ctx)
}

// attend does the rest of a restoration, if there is one and no other agent is at it.
func (j *Job) attend(ctx context.Context, id int, c rueidis.Client) error {
	t, err := read(ctx, c)
	if err != nil || t.epoch == "" {
		return nil // other jobs of the agent report partitions that do not answer
	}
	end, err := directory.TakeTurn(ctx, j.dir, directory.Member{Node: fmt.Sprintf("restored partition %d", id)})
	if errors.Is(err, directory.ErrTurn) {
		return nil
	}
	if err != nil {
		return err
	}
	defer end()
	if t, err = read(ctx, c); err != nil || t.epoch == "" {
		return err
	}
	return j.finish(ctx, id, c, t)
}

// step is one of a restoration. It calls mark with the tags that it finds.
type step struct {
	name string
	of   int // the partition that must answer
	loss bool
	do   func(mark func(tags []string) error) error
}

func (j *Job) steps(ctx context.Context, m *directory.Map, id int) []step {
	all := []step{{here, id, false, func(mark func([]string) error) error { return j.mover.Tags(ctx, id, mark) }}}
	ick := fleet.Tag(m.Settings.RestoredIck)
	for _, p := range m.Partitions {
		if p.ID == id {
			continue
		}
		all = append(all,
			step{moved(p.ID), p.ID, true, func(mark func([]string) error) error { return j.mover.Yield(ctx, id, p.ID, ick, mark) }},
			step{named(p.ID), p.ID, true, func(mark func([]string) error) error { return j.mover.Missing(ctx, id, p.ID, mark) }},
		)
	}
	return all
}

// errAgain means that a partition was restored again.
var errAgain = errors.New("the partition was restored again")

// finish does the steps that are not done. One that fails keeps none of the others from
// being done.
func (j *Job) finish(ctx context.Context, id int, c rueidis.Client, t progress) error {
	m := directory.MapOf(j.f.Client())
	ick := m.Settings.RestoredIck
	var failed error
	for _, s := range j.steps(ctx, m, id) {
		if t.done(s.name) {
			continue
		}
		if m.Partitions[s.of].ReadOnly {
			failed = errors.Join(failed, fmt.Errorf("partition %d has no master", s.of))
			continue
		}
		var n found
		err := s.do(func(tags []string) error {
			if s.loss {
				n.lost += len(tags)
			}
			if ick == "" || len(tags) == 0 {
				return nil
			}
			n.marked += len(tags)
			return j.cfg.Mark(ctx, ick, tags)
		})
		if err == nil && n.marked > 0 {
			err = j.mover.Secure(ctx, fleet.Tag(ick))
		}
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
			continue
		}
		switch ok, err := t.store(ctx, c, n, s.name); {
		case err != nil:
			return err
		case !ok:
			return errAgain
		}
	}
	if failed != nil {
		return failed
	}
	t, err := read(ctx, c)
	if err != nil {
		return err
	}
	if _, err := t.finish(ctx, c); err != nil {
		return err
	}
	j.note(ctx, m, id, t)
	return nil
}

// note writes to the fleet's log what was found.
func (j *Job) note(ctx context.Context, m *directory.Map, id int, t progress) {
	var what string
	switch ick := m.Settings.RestoredIck; {
	case ick != "":
		what = fmt.Sprintf("the data of the partition had gone back: its tags are marked in the Ick %s, %d marks", ick, t.number("marked"))
	case t.number("lost") > 0:
		what = fmt.Sprintf("the data of the partition had gone back, and %d tags have lost theirs; with fleet set restored-ick they would be marked", t.number("lost"))
	default:
		return
	}
	j.cfg.Logger.InfoContext(ctx, what, "partition", id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = j.dir.Note(ctx, directory.Event{Agent: "restored", Partition: id, Epoch: m.Epoch, What: what}) // best effort
}
