package snapshot

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
)

// Config says how snapshots are taken. The zero value works.
type Config struct {
	// Interval is how old the newest snapshot of a partition, or if there is an archive
	// the newest one there, may become before the next one is taken. Where a node has
	// more to save than it can save in that time, snapshots become older. Defaults to
	// 1 hour.
	Interval time.Duration

	// Archive is the folder to which snapshots are fetched, such as a network mount.
	// It must be there. Defaults to none: snapshots stay on the members' own disks.
	Archive string

	// Keep is how many snapshots of each partition the archive keeps. Defaults to 7.
	Keep int

	// Option says how to connect to members: user, password, TLS. Its addresses are
	// not used. Defaults to no password.
	Option rueidis.ClientOption

	// Logger is told what fails. Defaults to slog.Default().
	Logger *slog.Logger
}

// Defaults of Config.
const (
	DefaultInterval = time.Hour
	DefaultKeep     = 7
)

// Keeper takes snapshots of a fleet's members. It is safe for concurrent use, and
// several may work for the same fleet.
type Keeper struct {
	dir      directory.Directory
	cfg      Config
	failures failures
	name     string
	silence  time.Duration // for how long a member that saves may be silent
}

// New returns a keeper.
func New(dir directory.Directory, cfg Config) *Keeper {
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Keep == 0 {
		cfg.Keep = DefaultKeep
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Keeper{dir: dir, cfg: cfg, name: "snapshot-" + rand.Text()[:12], silence: 10 * time.Second}
}

// Run keeps the snapshots of all partitions fresh until ctx ends, the oldest one
// first, and returns the cause of that. A partition that failed is tried again, perhaps
// on another member, after a sixtieth of [Config].Interval at first and then less often,
// but within a minute.
func (k *Keeper) Run(ctx context.Context) error {
	rest := k.cfg.rest()
	tries, until := map[int]int{}, map[int]time.Time{}
	return k.work(ctx, plan{
		pause: min(max(k.cfg.Interval/20, 20*time.Millisecond), 5*time.Second),
		due: func(s view) []int {
			return s.due(k.cfg, func(id int) bool { return time.Now().Before(until[id]) })
		},
		wanted: func(s view, id int) bool { return slices.Contains(s.due(k.cfg, nil), id) },
		done: func(o outcome) bool {
			if o.err == nil {
				delete(tries, o.result.Partition)
				return true
			}
			tries[o.result.Partition]++
			until[o.result.Partition] = time.Now().Add(rest.Pause(tries[o.result.Partition]))
			return true
		},
		unreachable: func(err error) bool {
			k.cfg.Logger.WarnContext(ctx, "the keeper of snapshots cannot ask the directory", "error", err)
			return true
		},
	})
}

// rest says for how long a partition that failed is left alone.
func (c Config) rest() retry.Policy {
	most := min(c.Interval/4, maxRest)
	return retry.Policy{Base: min(c.Interval/60, most), Max: most}
}

// maxRest leaves time for the pause between two looks at what is due.
const maxRest = 50 * time.Second

// Now takes one snapshot of each of these partitions, or of all if none is named,
// whatever their age, and yields each as it is done, or why it failed: ErrNoMember,
// ErrFailed, ErrArchive. It waits for the turn of nodes. An error with the zero
// Snapshot is the last: ErrNoPartition, the directory's, or that ctx ended.
func (k *Keeper) Now(ctx context.Context, partitions ...int) iter.Seq2[directory.Snapshot, error] {
	return func(yield func(directory.Snapshot, error) bool) {
		left, err := k.named(ctx, partitions)
		if err != nil {
			yield(directory.Snapshot{}, err)
			return
		}
		var unreachable error // why the directory could not be asked
		seen, listening := time.Now(), true
		err = k.work(ctx, plan{
			pause:  200 * time.Millisecond,
			due:    func(s view) []int { seen = s.at; return left },
			wanted: func(view, int) bool { return true },
			done: func(o outcome) bool {
				left = slices.DeleteFunc(left, func(id int) bool { return id == o.result.Partition })
				listening = yield(o.result, o.err)
				return listening && len(left) > 0
			},
			unreachable: func(err error) bool {
				unreachable = err
				return time.Since(seen) < k.silence
			},
		})
		if len(left) > 0 && listening {
			err = cmp.Or(err, unreachable)
			yield(directory.Snapshot{}, err)
		}
	}
}

// named returns the partitions that are meant, each once.
func (k *Keeper) named(ctx context.Context, partitions []int) ([]int, error) {
	s, err := k.load(ctx)
	if err != nil {
		return nil, err
	}
	if len(partitions) == 0 {
		for _, p := range s.m.Partitions {
			partitions = append(partitions, p.ID)
		}
	}
	for _, id := range partitions {
		if id < 0 || id >= len(s.m.Partitions) {
			return nil, ErrNoPartition.Errorf("there is no partition %d: the fleet has %d, from 0 on", id, len(s.m.Partitions))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(partitions))), nil
}

// view is what a keeper has seen in the directory.
type view struct {
	m     *directory.Map
	known map[int]directory.Snapshot
	clock time.Time // what time it was there
	at    time.Time // when that was
}

// time returns what time it is in the directory at a time of this process.
func (s view) time(t time.Time) time.Time { return s.clock.Add(t.Sub(s.at)) }

// load asks the directory.
func (k *Keeper) load(ctx context.Context) (view, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Second, errors.New("the directory does not answer"))
	defer cancel()
	m, err := k.dir.Confirm(ctx, 0)
	if err != nil {
		return view{}, err
	}
	s := view{m: m, known: map[int]directory.Snapshot{}}
	all, clock, err := k.dir.Snapshots(ctx)
	for _, known := range all {
		s.known[known.Partition] = known
	}
	s.clock, s.at = clock, time.Now()
	return s, err
}

// due returns the partitions whose snapshot is old enough for the next one, the
// oldest first, without those that rest.
func (s view) due(cfg Config, rests func(id int) bool) []int {
	var due []int
	for _, p := range s.m.Partitions {
		if !p.ReadOnly && s.clock.Sub(s.from(cfg, p.ID)) >= cfg.Interval && (rests == nil || !rests(p.ID)) {
			due = append(due, p.ID)
		}
	}
	slices.SortStableFunc(due, func(a, b int) int {
		return cmp.Compare(s.from(cfg, a).UnixMilli(), s.from(cfg, b).UnixMilli())
	})
	return due
}

// from returns when the newest snapshot of a partition is from, of those that are
// archived if there is an archive.
func (s view) from(cfg Config, id int) time.Time {
	known := s.known[id]
	if cfg.Archive != "" && known.Archived.At.Before(known.Saved.At) {
		return known.Archived.At
	}
	return known.Saved.At
}
