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
	"github.com/millrace/millrace/internal/redis/retry"
)

// Config says how a Job works.
type Config struct {
	// Mark adds tags to the Ick of that name, some at a time.
	Mark func(ctx context.Context, ick string, tags []string) error

	// Logger reports failures. Defaults to slog.Default().
	Logger *slog.Logger
}

// Job repairs partitions that went back in time. Any number of agents may have one.
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

// Run repairs restored partitions until ctx ends, and returns the cause.
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

// BeforeUse returns the function for failover.Config.Restored that runs before clients use a restored
// partition: it gives tags that were moved away back to the partitions that are sure to have
// them. A [Job] does the rest. Option has the user, the password and the TLS settings for members.
func BeforeUse(option rueidis.ClientOption, log *slog.Logger) func(ctx context.Context, m *directory.Map, partition int, addr string) error {
	return func(ctx context.Context, m *directory.Map, partition int, addr string) error {
		tags, err := rebalance.Restored(ctx, option, m, partition, addr)
		if tags > 0 {
			log.InfoContext(ctx, "tags that a restored partition had were moved away since, and stay where they are", "partition", partition, "tags", tags)
		}
		return err
	}
}

// errAgain means that a partition was restored again.
var errAgain = errors.New("the partition was restored again")

// finish does the steps that are not done: it marks the tags that are here, and compares them with
// each other partition. A step that fails keeps none of the others from being done.
func (j *Job) finish(ctx context.Context, id int, c rueidis.Client, t progress) error {
	m := directory.MapOf(j.f.Client())
	var failed error
	for _, p := range m.Partitions {
		err := j.step(ctx, m, id, p, c, t)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errAgain):
			return err
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("with partition %d: %w", p.ID, err))
		}
	}
	if failed != nil {
		return failed
	}
	t, err := read(ctx, c)
	if err != nil {
		return err
	}
	// Tags that were given up have keys here, and the data may have marks of moves that were
	// finished since. No list has either.
	look, err := directory.BeginMoves(ctx, j.dir)
	if err != nil {
		return err
	}
	_, err = t.finish(ctx, c)
	look(false) // an agent looks at all partitions
	if err != nil {
		return err
	}
	j.note(ctx, m, id, t)
	return nil
}

// step marks the tags that are in the restored partition, or compares it with another one, unless
// that is done.
func (j *Job) step(ctx context.Context, m *directory.Map, id int, p directory.Partition, c rueidis.Client, t progress) error {
	ick, name := m.Settings.RestoredIck, with(p.ID)
	if p.ID == id {
		name = here
	}
	switch {
	case t.done(name):
		return nil
	case p.ReadOnly:
		return errors.New("it has no master")
	}
	var n found
	mark := func(tags []string) error {
		if name != here {
			n.lost += len(tags)
		}
		if ick == "" || len(tags) == 0 {
			return nil
		}
		n.marked += len(tags)
		return j.cfg.Mark(ctx, ick, tags)
	}
	var err error
	done := name == here
	if done {
		err = j.mover.Tags(ctx, id, mark)
	}
	// A second comparison shows that the first one has corrected all.
	for range 2 {
		if err == nil && !done {
			done, err = j.mover.Compare(ctx, id, p.ID, fleet.Tag(ick), mark)
		}
	}
	if err == nil && n.marked > 0 {
		err = j.mover.Secure(ctx, fleet.Tag(ick))
	}
	if err != nil {
		return err
	}
	if !done {
		return errors.New("some tags wait until it gives them up")
	}
	ok, err := t.store(ctx, c, n, name)
	if err == nil && !ok {
		err = errAgain
	}
	return err
}

// note writes a repair's result to the fleet's log.
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
