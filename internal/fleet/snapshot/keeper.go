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

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
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
	dir     *directory.Directory
	cfg     Config
	name    string
	silence time.Duration // for how long a member that saves may be silent
}

// New returns a keeper.
func New(dir *directory.Directory, cfg Config) *Keeper {
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	cfg.Keep = cmp.Or(cfg.Keep, DefaultKeep)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Keeper{dir: dir, cfg: cfg, name: "snapshot-" + rand.Text()[:12], silence: 10 * time.Second}
}

// Run keeps the snapshots of all partitions fresh, the oldest one first, until ctx ends, and
// returns the cause. After a failure it tries the partition again, perhaps on another
// member, after a twentieth of [Config].Interval, and at least once a minute.
func (k *Keeper) Run(ctx context.Context) error {
	pause := min(max(k.cfg.Interval/20, 20*time.Millisecond), 5*time.Second)
	for s, err := range k.work(ctx, pause, func(s view) []int { return s.due(k.cfg) }) {
		if s == (directory.Snapshot{}) {
			k.cfg.Logger.WarnContext(ctx, "the keeper of snapshots cannot reach the directory", "error", err)
		}
	}
	return context.Cause(ctx)
}

// Now takes one snapshot of each of these partitions, or of all if none is named, and
// yields each result, or why it failed: ErrNoMember, ErrFailed, ErrArchive. It waits for the
// turns of nodes. An error with the zero Snapshot is the last one: millrace.ErrNotFound, an error
// of the directory, or the cause of ctx's end.
func (k *Keeper) Now(ctx context.Context, partitions ...int) iter.Seq2[directory.Snapshot, error] {
	return func(yield func(directory.Snapshot, error) bool) {
		left, err := k.named(ctx, partitions)
		if err != nil {
			yield(directory.Snapshot{}, err)
			return
		}
		seen := time.Now()
		for s, err := range k.work(ctx, 200*time.Millisecond, func(s view) []int { seen = s.Now; return left }) {
			if unreachable := s == (directory.Snapshot{}); unreachable {
				if time.Since(seen) < k.silence {
					continue
				}
				yield(s, err)
				return
			}
			left = slices.DeleteFunc(left, func(id int) bool { return id == s.Partition })
			if !yield(s, err) || len(left) == 0 {
				return
			}
		}
		yield(directory.Snapshot{}, context.Cause(ctx))
	}
}

// All takes one snapshot of each of these partitions, or of all if none is named, as Now does, and
// logs each that is done. It returns how many failed, and why the first one did.
func (k *Keeper) All(ctx context.Context, partitions ...int) error {
	var failed []error
	for s, err := range k.Now(ctx, partitions...) {
		switch {
		case err == nil:
			k.cfg.Logger.InfoContext(ctx, "saved", "partition", s.Partition, "addr", s.Saved.Addr, "took", s.Saved.Took.Round(time.Millisecond), "file", s.Archived.File)
		case s == directory.Snapshot{}:
			return err
		default:
			failed = append(failed, err) // it is in the log
		}
	}
	if len(failed) == 0 {
		return nil
	}
	known, ok := errors.AsType[*millrace.Error](failed[0])
	if !ok {
		return failed[0]
	}
	return known.Errorf("%s not saved: %s", readable.Count(len(failed), "partition"), known.Message)
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
		if err := s.m.Has(id); err != nil {
			return nil, err
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(partitions))), nil
}

// view is the state of the directory.
type view struct {
	Ages

	m *directory.Map
}

// load reads the directory.
func (k *Keeper) load(ctx context.Context) (s view, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Second, errors.New("the directory does not answer"))
	defer cancel()
	if s.m, err = k.dir.Confirm(ctx, 0); err == nil {
		s.Ages, err = readAges(ctx, k.dir, s.m)
	}
	return s, err
}

// due returns the partitions that need a snapshot, the oldest first, without those whose last
// attempt has just failed, whichever keeper made it.
func (s view) due(cfg Config) []int {
	var due []int
	for id, p := range s.m.Partitions {
		failed := s.Now.Sub(s.Partitions[id].Failed.At) // negative if the clock of its keeper is ahead
		if rests := failed >= 0 && failed < cfg.rest(); !p.ReadOnly && !rests && s.Now.Sub(s.from(cfg, id)) >= cfg.Interval {
			due = append(due, id)
		}
	}
	slices.SortStableFunc(due, func(a, b int) int {
		return cmp.Compare(s.from(cfg, a).UnixMilli(), s.from(cfg, b).UnixMilli())
	})
	return due
}

// rest is for how long a partition is left alone after a failure. It leaves time for the pause
// between two checks for due snapshots.
func (c Config) rest() time.Duration { return min(c.Interval/20, 50*time.Second) }

// from returns the time of the newest snapshot of a partition, with an archive of the newest
// one there.
func (s view) from(cfg Config, id int) time.Time {
	known := s.Partitions[id]
	if cfg.Archive != "" && known.Archived.At.Before(known.Saved.At) {
		return known.Archived.At
	}
	return known.Saved.At
}
