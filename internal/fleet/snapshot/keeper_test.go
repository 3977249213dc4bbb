package snapshot

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// run runs a keeper until the function that it returns is called.
func (b *bench) run(k *Keeper) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(b.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	why := errors.New("enough")
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel(why)
		if err := <-ended; !errors.Is(err, why) {
			b.t.Errorf("Run = %v, want the cause of its end", err)
		}
	}
	b.t.Cleanup(stop)
	return stop
}

func (b *bench) ages() Ages {
	b.t.Helper()
	a, err := Read(deadline(b.t), b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// Ages are in the directory: they outlive a keeper, and the next one goes by them.
func TestAgesOutliveTheKeeper(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 2, Partitions: 3})
	first := b.ages()
	if got, want := first.Saved, (Exposure{Partition: -1, None: []int{0, 1, 2}}); !cmp.Equal(got, want) {
		t.Errorf("the exposure at first = %+v, want %+v", got, want)
	}
	// One after another: nodes that save at the same time may do so in the same
	// millisecond, and then no partition is older than all others.
	for id := range 3 {
		for _, err := range b.keeper(Config{}).Now(t.Context(), id) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	before, forks := b.ages(), 0
	if len(before.Saved.None) > 0 {
		t.Fatalf("the exposure after a snapshot of each = %+v", before.Saved)
	}
	for _, s := range b.f.Servers() {
		forks += b.forks(s)
	}

	// A keeper for which one of them is too old takes that one alone.
	oldest := before.Saved.Partition
	at := before.Partitions[oldest].Saved.At
	k := b.keeper(Config{})
	s, err := k.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.cfg.Interval = s.Now.Sub(at)
	if got, want := s.due(k.cfg), []int{oldest}; !slices.Equal(got, want) {
		t.Errorf("due = %v, want %v", got, want)
	}
	for _, s := range b.f.Servers() {
		b.settle(s)
	}
	k.cfg.Interval = time.Hour
	stop := b.run(k)
	never(t, "a snapshot that is fresh is taken again", func() bool {
		n := 0
		for _, s := range b.f.Servers() {
			n += b.forks(s)
		}
		return n != forks
	})
	stop()
	if diff := cmp.Diff(before.Partitions, b.ages().Partitions); diff != "" {
		t.Errorf("what is known (-before +after):\n%s", diff)
	}
}

func TestRunTakesThemAgain(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	b.run(b.keeper(Config{Interval: 50 * time.Millisecond}))
	var seen []time.Time
	redistest.Eventually(t, "it was saved three times", func() bool {
		if at := b.known().Saved.At; !at.IsZero() && !slices.Contains(seen, at) {
			seen = append(seen, at)
		}
		return len(seen) == 3
	})
	if !slices.IsSortedFunc(seen, time.Time.Compare) {
		t.Errorf("times of the snapshots: %v", seen)
	}
}

// Run repeats a failed save on another member, and is not stopped by a directory
// that is away for a while.
func TestRunGoesOn(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	b.vanish(b.f.Servers()[1])
	if err := b.f.Directory().Proc.Pause(); err != nil {
		t.Fatal(err)
	}
	b.run(b.keeper(Config{Interval: 5 * time.Second}))
	if err := b.f.Directory().Proc.Resume(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the master was saved", func() bool { return b.known().Saved.Addr == b.f.Servers()[0].Addr })
	wantEvents(t, b, "snapshots succeed again", "a snapshot failed")
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 15, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	stored := []directory.Snapshot{
		0: {Saved: directory.Saved{At: ago(59 * time.Minute)}},
		1: {Saved: directory.Saved{At: ago(60 * time.Minute)}, Archived: directory.Archived{At: ago(90 * time.Minute)}},
		2: {Saved: directory.Saved{At: ago(2 * time.Hour)}, Archived: directory.Archived{At: ago(time.Minute)}},
		3: {Saved: directory.Saved{At: ago(3 * time.Hour)}},
		4: {},
	}
	m := &directory.Map{}
	for id := range stored {
		m.Partitions = append(m.Partitions, directory.Partition{ID: id})
	}
	for _, c := range []struct {
		cfg    Config
		failed time.Duration // how long ago partition 3 failed
		want   []int
	}{
		{Config{Interval: time.Hour}, time.Minute, []int{4, 3, 2, 1}},
		{Config{Interval: time.Hour}, 49 * time.Second, []int{4, 2, 1}},
		{Config{Interval: time.Hour}, 0, []int{4, 2, 1}},
		{Config{Interval: time.Hour}, -time.Second, []int{4, 3, 2, 1}}, // by a clock that is ahead
		{Config{Interval: 2 * time.Hour}, time.Hour, []int{4, 3, 2}},
		{Config{Interval: time.Hour, Archive: "x"}, time.Hour, []int{0, 3, 4, 2, 1}},
	} {
		stored[3].Failed = directory.Failed{At: ago(c.failed), Why: "no room"}
		got := view{Ages{Now: now, Partitions: stored}, m}.due(c.cfg)
		if !slices.Equal(got, c.want) {
			t.Errorf("due(%+v), a failure of partition 3 %v ago = %v, want %v", c.cfg, c.failed, got, c.want)
		}
	}
}

func TestExposure(t *testing.T) {
	t.Parallel()
	a := Ages{Now: time.Unix(1000, 0)}
	for id, at := range []int64{900, 0, 400, 700} {
		s := directory.Snapshot{Partition: id}
		if at > 0 {
			s.Saved.At = time.Unix(at, 0)
		}
		a.Partitions = append(a.Partitions, s)
	}
	got := a.exposure(func(s directory.Snapshot) time.Time { return s.Saved.At })
	if diff := cmp.Diff(Exposure{Longest: 600 * time.Second, Partition: 2, None: []int{1}}, got); diff != "" {
		t.Errorf("exposure (-want +got):\n%s", diff)
	}
}

// TestAFailedSnapshotIsTriedAgainWithinAMinute, however seldom snapshots are taken.
func TestAFailedSnapshotIsTriedAgainWithinAMinute(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Second, time.Hour, 24 * time.Hour} {
		rest := Config{Interval: every}.rest()
		if pause := min(every/20, 5*time.Second); rest <= 0 || rest+pause > time.Minute || rest > every {
			t.Errorf("every %v, after a failure: the next attempt is after %v", every, rest+pause)
		}
	}
}
