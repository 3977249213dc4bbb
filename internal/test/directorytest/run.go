package directorytest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/ring"
)

// Run tests directories that open makes.
func Run(t *testing.T, open func(t *testing.T) *directory.Directory) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, d *directory.Directory)
	}{
		{"life", life},
		{"conflict", conflict},
		{"repeat", repeat},
		{"one wins", oneWins},
		{"confirmations", confirmations},
		{"leader", leader},
		{"turns", turns},
		{"leases end", leasesEnd},
		{"moves", moves},
		{"one adopts", oneAdopts},
		{"log", log},
		{"snapshots", snapshots},
		{"wrong clock", wrongClock},
		{"values", values},
		{"names", names},
		{"beats", beats},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

// Sample returns a map with that epoch: two partitions, one with a replica.
func Sample(t testing.TB, epoch int64) *directory.Map {
	t.Helper()
	r, err := ring.New(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	a, b := directory.Member{Addr: "a:1", Node: "a"}, directory.Member{Addr: "b:1", Node: "b"}
	return &directory.Map{
		Version: directory.Version, Fleet: "sample", Epoch: epoch, Floor: 1, Points: r.Points(),
		Partitions: []directory.Partition{
			{ID: 0, Epoch: 1, Phase: directory.Open, Master: a, Replicas: []directory.Member{b}},
			{ID: 1, Epoch: 1, Phase: directory.Open, Master: directory.Member{Addr: "b:2", Node: "b"}},
		},
	}
}

// life follows a map from its beginning through a change.
func life(t *testing.T, d *directory.Directory) {
	ctx := t.Context()
	for _, epoch := range []int64{0, 1} {
		_, err := d.Confirm(ctx, epoch)
		wantError(t, fmt.Sprintf("Confirm(%d) without a fleet", epoch), err, directory.ErrNoFleet)
	}
	_, err := d.Load(ctx)
	wantError(t, "Load without a fleet", err, directory.ErrNoFleet)

	first, second := Sample(t, 1), Sample(t, 5)
	second.Partitions[0].ReadOnly = true
	change(t, d, 0, first)
	for range 2 {
		m, err := d.Confirm(ctx, 0)
		wantMap(t, "Confirm by a client without a map", m, err, first)
		m, err = d.Confirm(ctx, 1)
		wantMap(t, "Confirm of the present map", m, err, nil)
		wantLoad(t, "Load", d, nil, first)
	}
	change(t, d, 1, second)
	for range 2 {
		m, err := d.Confirm(ctx, 1)
		wantMap(t, "Confirm of a map that was replaced", m, err, second)
		m, err = d.Confirm(ctx, 5)
		wantMap(t, "Confirm of the present map", m, err, nil)
		m, err = d.Confirm(ctx, 6)
		wantMap(t, "Confirm of a map that the directory has lost", m, err, second)
		wantLoad(t, "Load after the change", d, first, second)
	}
}

// conflict: a change of another map than the present one changes nothing, and neither does
// an invalid one.
func conflict(t *testing.T, d *directory.Directory) {
	present := Sample(t, 3)
	wantError(t, "Change of a map that does not exist", d.Change(t.Context(), 2, present), directory.ErrConflict)
	change(t, d, 0, present)
	for _, c := range []struct{ epoch, next int64 }{{0, 1}, {0, 3}, {0, 4}, {2, 3}, {2, 4}, {4, 5}} {
		other := Sample(t, c.next)
		other.Fleet = "other"
		wantError(t, fmt.Sprintf("Change(%d) to %d", c.epoch, c.next), d.Change(t.Context(), c.epoch, other), directory.ErrConflict)
	}
	for _, c := range []struct{ epoch, next int64 }{{3, 3}, {3, 2}, {3, -1}, {0, 0}} {
		wantError(t, fmt.Sprintf("Change(%d) to %d", c.epoch, c.next), d.Change(t.Context(), c.epoch, Sample(t, c.next)), directory.ErrMap)
	}
	invalid := Sample(t, 4)
	invalid.Partitions[1].Master = invalid.Partitions[0].Master
	wantError(t, "Change to an invalid map", d.Change(t.Context(), 3, invalid), directory.ErrMap)
	unknown := Sample(t, 4)
	unknown.Version++
	wantError(t, "Change to an unknown version", d.Change(t.Context(), 3, unknown), directory.ErrVersion)
	wantLoad(t, "Load after the conflicts", d, nil, present)
}

// repeat: a change whose reply was lost is repeated, and counts as made until the map is
// replaced.
func repeat(t *testing.T, d *directory.Directory) {
	first, second := Sample(t, 1), Sample(t, 2)
	for range 2 {
		change(t, d, 0, first)
	}
	for range 2 {
		change(t, d, 1, second)
	}
	wantError(t, "repeat of a change that was replaced", d.Change(t.Context(), 0, first), directory.ErrConflict)
	m, err := d.Confirm(t.Context(), 2)
	wantMap(t, "Confirm", m, err, nil)
}

// oneWins: of several changes of the same map one succeeds.
func oneWins(t *testing.T, d *directory.Directory) {
	for epoch := range int64(20) {
		errs := make([]error, 4)
		var all sync.WaitGroup
		for i := range errs {
			next := Sample(t, epoch+1)
			next.Fleet = fmt.Sprint(i)
			all.Go(func() { errs[i] = d.Change(t.Context(), epoch, next) })
		}
		all.Wait()
		m, err := d.Confirm(t.Context(), epoch)
		if err != nil || m == nil || m.Epoch != epoch+1 {
			t.Fatalf("Confirm(%d) after changes = %+v, %v", epoch, m, err)
		}
		for i, err := range errs {
			var want error
			if fmt.Sprint(i) != m.Fleet {
				want = directory.ErrConflict
			}
			wantError(t, "Change", err, want)
		}
	}
}

// confirmations: after a change has returned, no confirmation that begins later confirms
// the former map.
func confirmations(t *testing.T, d *directory.Directory) {
	change(t, d, 0, Sample(t, 1))
	var mu sync.Mutex
	present := int64(1) // whose change has returned
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				mu.Lock()
				epoch := present
				mu.Unlock()
				m, err := d.Confirm(t.Context(), epoch-1)
				if err != nil || m == nil || m.Epoch < epoch {
					t.Errorf("Confirm(%d) after the change to %d = %+v, %v", epoch-1, epoch, m, err)
					return
				}
			}
		})
	}
	for epoch := range int64(20) {
		change(t, d, epoch+1, Sample(t, epoch+2))
		mu.Lock()
		present = epoch + 2
		mu.Unlock()
	}
	close(done)
	all.Wait()
}

// change stores a map that must be accepted.
func change(t *testing.T, d *directory.Directory, epoch int64, next *directory.Map) {
	t.Helper()
	if err := d.Change(t.Context(), epoch, next); err != nil {
		t.Fatalf("Change(%d) to %d = %v", epoch, next.Epoch, err)
	}
}

// wantMap checks the map that Load or Confirm returned; want is nil for a confirmation.
func wantMap(t *testing.T, what string, got *directory.Map, err error, want *directory.Map) {
	t.Helper()
	if err != nil {
		t.Errorf("%s = %v", what, err)
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wantLoad waits until Load returns a map. Until then it may return an old one, or none if that
// is nil: a member that is behind may answer.
func wantLoad(t *testing.T, what string, d *directory.Directory, old, want *directory.Map) {
	t.Helper()
	redistest.Eventually(t, what, func() bool {
		m, err := d.Load(t.Context())
		switch {
		case old == nil && errors.Is(err, directory.ErrNoFleet):
			return false
		case err == nil && old != nil && cmp.Equal(old, m):
			return false
		}
		wantMap(t, what, m, err, want)
		return true
	})
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}
