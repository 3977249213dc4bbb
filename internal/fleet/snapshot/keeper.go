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
	// Interval is the age at which the newest snapshot of a partition, with an archive the
	// newest one there, is replaced. A node that cannot save all its members in that time
	// has older ones. Defaults to 1 hour.
	Interval time.Duration

	// Archive is an existing folder to which snapshots are fetched, such as a network
	// mount. Defaults to none: snapshots stay on the members' disks.
	Archive string

	// Keep is how many snapshots of each partition the archive keeps. Defaults to 7.
	Keep int

	// Option has the user, the password and the TLS settings for members. Its addresses are
	// not used. Defaults to none of them.
	Option rueidis.ClientOption

	// Logger reports failures. Defaults to slog.Default().
	Logger *slog.Logger
}

// Defaults of Config.
const (
	DefaultInterval = time.Hour
	DefaultKeep     = 7
)

// Keeper takes snapshots of a fleet's members. It is safe for concurrent use, and a fleet
// may have several.
type Keeper struct {
	dir      *directory.Directory
	cfg      Config
	failures failures
	name     string
	silence  time.Duration // for how long a member that saves may be silent
}

// New returns a keeper.
func New(dir *directory.Directory, cfg Config) *Keeper {
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

// Run keeps the snapshots of all partitions fresh, the oldest one first, until ctx ends, and
// returns the cause. After a failure it tries the partition again, perhaps on another
// member, after a sixtieth of [Config].Interval at first, and at least once a minute.
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
			k.cfg.Logger.WarnContext(ctx, "the keeper of snapshots cannot reach the directory", "error", err)
			return true
		},
	})
}

// rest is the backoff of a partition that failed.
func (c Config) rest() retry.Policy {
	most := min(c.Interval/4, maxRest)
	return retry.Policy{Base: min(c.Interval/60, most), Max: most}
}

// maxRest leaves time for the pause between two checks for what is due.
const maxRest = 50 * time.Second

// Now takes one snapshot of each of these partitions, or of all if none is named, and
// yields each result, or why it failed: ErrNoMember, ErrFailed, ErrArchive. It waits for the
// turns of nodes. An error with the zero Snapshot is the last one: ErrNoPartition, an error
// of the directory, or the cause of ctx's end.
func (k *Keeper) Now(ctx context.Context, partitions ...int) iter.Seq2[directory.Snapshot, error] {
	return func(yield func(directory.Snapshot, error) bool) {
		left, err := k.named(ctx, partitions)
		if err != nil {
			yield(directory.Snapshot{}, err)
			return
		}
		var unreachable error // of the directory
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

// named returns the named partitions, each once, or all.
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
			return nil, ErrNoPartition.Errorf("there is no partition %d: the fleet has %d, counted from 0", id, len(s.m.Partitions))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(partitions))), nil
}

// view is the state of the directory.
type view struct {
	m     *directory.Map
	known map[int]directory.Snapshot
	at    time.Time // when it was read
}

// load reads the directory.
func (k *Keeper) load(ctx context.Context) (view, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Second, errors.New("the directory does not answer"))
	defer cancel()
	m, err := k.dir.Confirm(ctx, 0)
	if err != nil {
		return view{}, err
	}
	s := view{m: m, known: map[int]directory.Snapshot{}}
	all, err := k.dir.Snapshots(ctx)
	for _, known := range all {
		s.known[known.Partition] = known
	}
	s.at = time.Now()
	return s, err
}

// due returns the partitions that need a snapshot, the oldest first, without those that rest.
func (s view) due(cfg Config, rests func(id int) bool) []int {
	var due []int
	for _, p := range s.m.Partitions {
		if !p.ReadOnly && s.at.Sub(s.from(cfg, p.ID)) >= cfg.Interval && (rests == nil || !rests(p.ID)) {
			due = append(due, p.ID)
		}
	}
	slices.SortStableFunc(due, func(a, b int) int {
		return cmp.Compare(s.from(cfg, a).UnixMilli(), s.from(cfg, b).UnixMilli())
	})
	return due
}

// from returns the time of the newest snapshot of a partition, with an archive of the newest
// one there.
func (s view) from(cfg Config, id int) time.Time {
	known := s.known[id]
	if cfg.Archive != "" && known.Archived.At.Before(known.Saved.At) {
		return known.Archived.At
	}
	return known.Saved.At
}
