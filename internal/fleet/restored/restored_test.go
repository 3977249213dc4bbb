package restored

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/ring"
)

var quiet = slog.New(slog.DiscardHandler)

// world is a fleet of real servers, and the database from which its values come.
type world struct {
	t       *testing.T
	servers *devfleet.Fleet
	dir     *directory.Directory
	f       *fleet.Fleet
	mover   *rebalance.Mover

	mu   sync.Mutex // held while a value is written to both
	rows map[string]int
}

func start(t *testing.T, cfg devfleet.Config) *world {
	t.Helper()
	cfg.Binary = redistest.Binary(t)
	cfg.Settings = directory.Settings{ViewTTL: 500 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond, PlacementTTL: 500 * time.Millisecond, MaxAge: time.Hour} // its data is in snapshots alone
	servers, err := devfleet.Start(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, servers.Stop()) })
	w := &world{t: t, servers: servers, rows: map[string]int{}}
	w.dir, err = directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
	must(t, err)
	t.Cleanup(w.dir.Close)
	w.f, w.mover = w.open()
	return w
}

// open opens the fleet as one process does.
func (w *world) open() (*fleet.Fleet, *rebalance.Mover) {
	w.t.Helper()
	f, err := fleet.Open(context.Background(), w.dir, fleet.Config{Logger: quiet})
	must(w.t, err)
	w.t.Cleanup(f.Close)
	mover, err := rebalance.New(f, rebalance.Config{Moves: w.dir, Logger: quiet})
	must(w.t, err)
	return f, mover
}

// agent runs all jobs of an agent until ctx ends. The job's Mark is that of marker.
func (w *world) agent(ctx context.Context, mark func(ctx context.Context, ick string, tags []string) error) (done chan struct{}) {
	f, mover := w.open()
	job := New(f, mover, Config{Mark: mark, Logger: quiet})
	job.interval = 100 * time.Millisecond
	servers := failover.NewRedis(rueidis.ClientOption{})
	agent := failover.New(w.dir, servers, failover.Config{Interval: 100 * time.Millisecond, Logger: quiet, Restored: BeforeUse(rueidis.ClientOption{}, quiet)})
	done = make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() { _ = agent.Run(ctx) })
	work.Go(func() { _ = mover.Maintain(ctx) })
	work.Go(func() { _ = job.Run(ctx) })
	go func() {
		work.Wait()
		servers.Close()
		close(done)
	}()
	return done
}

// mark adds tags to an Ick.
func (w *world) mark(ctx context.Context, name string, tags []string) error {
	k, err := ick.New(w.f.Client(), name, ick.Config{Logger: quiet})
	if err != nil {
		return err
	}
	_, err = k.AddNow(ctx, tags...)
	return err
}

// errFull is the error of an Ick that takes no marks.
var errFull = errors.New("full")

// agents runs an agent until the test ends. The first times that it marks tags it is cut off,
// before or afterwards, and another one follows it; or the Ick takes no marks.
func (w *world) agents() (trouble *atomic.Int64) {
	trouble = new(atomic.Int64)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			life, kill := context.WithCancel(ctx)
			<-w.agent(life, func(ctx context.Context, name string, tags []string) error {
				n := trouble.Add(1)
				switch {
				case n > maxTrouble:
				case n%3 == 0:
					kill()
					return context.Canceled
				case n%3 == 1:
					return errFull
				case n%3 == 2:
					defer kill()
				}
				return w.mark(ctx, name, tags)
			})
			kill()
		}
	}()
	w.t.Cleanup(func() { stop(); <-ended })
	return trouble
}

// maxTrouble is how often agents are in trouble.
const maxTrouble = 9

func (w *world) mapNow() *directory.Map {
	w.t.Helper()
	m, err := w.dir.Confirm(w.t.Context(), 0)
	must(w.t, err)
	return m
}

// tagOf returns a tag that belongs to a partition.
func (w *world) tagOf(partition int, name string) string {
	w.t.Helper()
	points, err := w.mapNow().Ring()
	must(w.t, err)
	for i := 0; ; i++ {
		if tag := fmt.Sprint(name, i); points.Owner(ring.Position(tag)) == partition {
			return tag
		}
	}
}

// marksIn has the fleet's agents mark tags in an Ick.
func (w *world) marksIn(name string) {
	w.t.Helper()
	m := w.mapNow()
	next := m.Clone()
	next.Epoch++
	next.Settings.RestoredIck = name
	must(w.t, w.dir.Change(w.t.Context(), m.Epoch, next))
}

// write changes a row of the database, and then its value in the fleet. The second may fail:
// a program would mark the tag then.
func (w *world) write(ctx context.Context, tag string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[tag]++
	return w.sync(ctx, tag)
}

// sync writes the value of a row to the fleet.
func (w *world) sync(ctx context.Context, tag string) error {
	c := w.f.Client()
	return c.Do(ctx, c.B().Set().Key("{"+tag+"}").Value(fmt.Sprint(w.rows[tag])).Build()).Error()
}

// stale returns the tags whose values in the fleet are not those of the database.
func (w *world) stale() (tags []string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.f.Client()
	for tag, row := range w.rows {
		value := ""
		must(w.t, retry.Policy{Timeout: 20 * time.Second}.Do(w.t.Context(), func(int) (err error) {
			if value, err = c.Do(w.t.Context(), c.B().Get().Key("{"+tag+"}").Build()).ToString(); rueidis.IsRedisNil(err) {
				err = nil
			}
			return err
		}))
		if value != fmt.Sprint(row) {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return tags
}

func (w *world) membersOf(partition int) (all []devfleet.Server) {
	for _, s := range w.servers.Servers() {
		if s.Partition == partition {
			all = append(all, s)
		}
	}
	return all
}

// archive takes a snapshot of a partition and returns the file.
func (w *world) archive(partition int) string {
	w.t.Helper()
	folder := w.t.TempDir()
	for s, err := range snapshot.New(w.dir, snapshot.Config{Archive: folder, Logger: quiet}).Now(w.t.Context(), partition) {
		must(w.t, err)
		return filepath.Join(folder, s.Archived.File)
	}
	w.t.Fatal("no snapshot was taken")
	return ""
}

// restore kills all members of a partition, and starts them with that file alone.
func (w *world) restore(partition int, file string) {
	t, ctx := w.t, w.t.Context()
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	master := w.mapNow().Partitions[partition].Master.Addr
	for _, s := range w.membersOf(partition) {
		must(t, s.Proc.Kill())
		dump := filepath.Join(s.Proc.Dir(), "dump.rdb")
		if err := os.Remove(dump); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if s.Addr == master {
			must(t, os.WriteFile(dump, data, 0o600))
		}
	}
	for _, s := range w.membersOf(partition) {
		must(t, s.Proc.Restart(ctx))
	}
}

// pending reports whether something is still to be done in a partition.
func (w *world) pending(partition int) bool {
	c := w.f.Partitions()[partition]
	n, err := c.Do(w.t.Context(), c.B().Exists().Key(members.RestoredKey).Build()).AsInt64()
	return err != nil || n != 0 || w.mapNow().Partitions[partition].ReadOnly
}

// consume brings all tags of the Ick in line with the database, and returns them.
func (w *world) consume(name string) []string {
	w.t.Helper()
	k, err := ick.New(w.f.Client(), name, ick.Config{Logger: quiet})
	must(w.t, err)
	ctx, stop := context.WithCancel(w.t.Context())
	var tags []string
	var consuming sync.WaitGroup
	consuming.Go(func() {
		_ = k.Consume(ctx, ick.ConsumeConfig{}, func(ctx context.Context, batch []ick.Entry) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, e := range batch {
				if _, ok := w.rows[e.Member]; !ok {
					continue // a tag of a structure
				}
				if err := w.sync(ctx, e.Member); err != nil {
					return err
				}
				tags = append(tags, e.Member)
			}
			return nil
		})
	})
	redistest.Eventually(w.t, "the Ick is empty", func() bool {
		s, err := k.Stats(ctx)
		return err == nil && s.Waiting.Size+s.Reserved.Size == 0
	})
	stop()
	consuming.Wait()
	slices.Sort(tags)
	return slices.Compact(tags)
}

// events returns a partition's entries in the fleet's log.
func (w *world) events(partition int) (all []string) {
	w.t.Helper()
	events, err := w.dir.Events(w.t.Context())
	must(w.t, err)
	for _, e := range events {
		if e.Partition == partition {
			all = append(all, e.What)
		}
	}
	return all
}

// TestARestoredPartitionIsBroughtInLine: all members of a partition are lost under load and
// restored from an archived file. Agents are cut off one after another, and the Ick is in the
// partition itself. In the end consumers of the Ick have been given all tags that the
// partition had, has, and is said to have by others.
func TestARestoredPartitionIsBroughtInLine(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 3})
	ctx := t.Context()
	name := w.tagOf(0, "rebuild")
	w.marksIn(name)
	trouble := w.agents()

	var tags, comes []string
	for i := range 60 {
		tag := fmt.Sprint("tag-", i)
		tags = append(tags, tag)
		must(t, w.write(ctx, tag))
	}
	for i := range 3 {
		comes = append(comes, w.tagOf(1, fmt.Sprint("comes-", i, "-")))
		must(t, w.write(ctx, comes[i]))
	}
	goes, far := w.tagOf(0, "goes-"), w.tagOf(0, "far-")
	must(t, w.write(ctx, goes))
	must(t, w.write(ctx, far))
	file := w.archive(0)

	errs := make([]error, 3)
	var moving sync.WaitGroup
	for to, tags := range [][]string{comes, {goes}, {far}} {
		moving.Go(func() { _, errs[to] = w.mover.Move(ctx, to, tags...) })
	}
	moving.Wait()
	must(t, errors.Join(errs...))
	unknown := w.tagOf(0, "unknown-")
	for _, tag := range append([]string{goes, far, unknown}, comes...) {
		must(t, w.write(ctx, tag))
	}
	loading, stop := context.WithCancel(ctx)
	var load sync.WaitGroup
	load.Go(func() {
		for i := 0; loading.Err() == nil; i++ {
			_ = w.write(loading, tags[i%len(tags)])
			retry.Sleep(loading, time.Millisecond)
		}
	})

	// The partition to which a tag went is silent meanwhile.
	for _, s := range w.membersOf(2) {
		must(t, s.Proc.Pause())
	}
	w.restore(0, file)
	redistest.Eventually(t, "the partition goes on", func() bool {
		return slices.ContainsFunc(w.events(0), func(what string) bool { return strings.Contains(what, "--doubtful") })
	})
	for _, s := range w.membersOf(2) {
		must(t, s.Proc.Resume())
	}
	redistest.Eventually(t, "all is marked", func() bool { return !w.pending(0) })
	stop()
	load.Wait()
	if n := trouble.Load(); n <= maxTrouble {
		t.Errorf("tags were marked in %d calls, want more than %d", n, maxTrouble)
	}

	// Values that failed to be written while the partition was away are another story.
	before := w.stale()
	for _, tag := range append([]string{unknown}, comes...) {
		if !slices.Contains(before, tag) {
			t.Errorf("%q was not lost", tag)
		}
	}
	rebuilt := w.consume(name)
	m, here := w.mapNow(), []string{}
	points, err := m.Ring()
	must(t, err)
	for _, tag := range tags {
		if points.Owner(ring.Position(tag)) == 0 {
			here = append(here, tag)
		}
	}
	for _, tag := range slices.Concat(here, comes, []string{far}) {
		if !slices.Contains(rebuilt, tag) {
			t.Errorf("%q was not marked", tag)
		}
	}
	for _, tag := range w.stale() {
		if l, err := w.f.Locate(ctx, tag); err != nil || l.Partition == 0 && tag != unknown {
			t.Errorf("%q is not in line: %+v, %v", tag, l, err)
		}
	}
	for tag, want := range map[string]int{goes: 1, far: 2, comes[0]: 0} {
		if l, err := w.f.Locate(ctx, tag); err != nil || l.Partition != want {
			t.Errorf("%q is at %+v, %v, want partition %d", tag, l, err, want)
		}
	}
	if what := w.events(0); !slices.ContainsFunc(what, func(what string) bool { return strings.Contains(what, "its tags are marked in the Ick "+name) }) {
		t.Errorf("the log does not say that tags are marked: %q", what)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOldMarksAreFinished: the data that a partition came back with has marks of moves that were finished since, and that no
// list has any more. An agent finishes them once more: their keys go, and no writer waits.
func TestOldMarksAreFinished(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 2, Replicas: devfleet.NoReplicas})
	ctx, stop := context.WithCancel(context.Background())
	ended := w.agent(ctx, w.mark)
	t.Cleanup(func() { stop(); <-ended })
	moved, stayed := w.tagOf(0, "moved"), w.tagOf(0, "stayed")
	for _, tag := range []string{moved, stayed} {
		redistest.Eventually(t, "the fleet takes writes", func() bool { return w.write(t.Context(), tag) == nil })
	}
	_, err := w.mover.Move(t.Context(), 1, moved)
	must(t, err)
	record := func(tag, text string) {
		c := w.f.Partitions()[0]
		must(t, retry.Policy{}.Do(t.Context(), func(int) error {
			return c.Do(t.Context(), c.B().Set().Key(members.RecordKey(tag)).Value(text).Build()).Error()
		}))
	}
	record(moved, "1 +to.1.restored")
	record(stayed, "0 !to.1.OLD")
	file := w.archive(0)
	record(moved, "1")
	record(stayed, "0")
	w.restore(0, file)
	redistest.Eventually(t, "no tag is marked, and both are written", func() bool {
		if w.pending(0) {
			return false
		}
		for _, text := range w.recordsAt(w.mapNow().Partitions[0].Master.Addr) {
			if strings.Contains(text, " ") {
				return false
			}
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return w.write(brief, moved) == nil && w.write(brief, stayed) == nil
	})
}
