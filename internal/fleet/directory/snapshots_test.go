package directory

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// snapshots returns what is known, by partition and without times, which must be
// those of attempts that began so long ago.
func snapshots(t *testing.T, d *Redis, ago time.Duration) []Snapshot {
	t.Helper()
	all, now, err := d.Snapshots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b Snapshot) int { return cmp.Compare(a.Partition, b.Partition) })
	for i := range all {
		for _, at := range []*time.Time{&all[i].Saved.At, &all[i].Archived.At, &all[i].Failed.At} {
			if age := now.Sub(*at); !at.IsZero() && (age < ago || age > ago+time.Minute) {
				t.Errorf("partition %d has a time %v ago, want %v", all[i].Partition, age, ago)
			}
			*at = time.Time{}
		}
	}
	return all
}

func TestSnapped(t *testing.T) {
	t.Parallel()
	d, _ := start(t)
	if got := snapshots(t, d, 0); len(got) != 0 {
		t.Errorf("Snapshots at first = %+v, want none", got)
	}
	const ago = time.Hour
	began := time.Now().Add(-ago)
	want := []Snapshot{
		{
			Partition: 0,
			Saved:     Saved{Addr: "a:1", Node: "a", Took: 1500 * time.Millisecond, Memory: 1 << 40, Copied: 12},
			Archived:  Archived{Addr: "a:1", Keeper: "archive2", Folder: "/mnt/ä", File: `x "y".rdb`, Bytes: 1 << 41},
		},
		{Partition: 12, Failed: Failed{Why: "no member\nanswers"}},
	}
	for range 2 { // a repeat does no harm
		for _, s := range want {
			if err := d.Snapped(t.Context(), began, s); err != nil {
				t.Fatal(err)
			}
		}
		if diff := gocmp.Diff(want, snapshots(t, d, ago)); diff != "" {
			t.Errorf("Snapshots (-want +got):\n%s", diff)
		}
	}

	// A failure leaves what was saved, and a success ends it.
	for _, s := range []Snapshot{
		{Partition: 0, Saved: Saved{Addr: "b:1"}, Failed: Failed{Addr: "b:1", Why: "the archive is full"}},
		{Partition: 12, Saved: Saved{Addr: "c:1"}},
	} {
		if err := d.Snapped(t.Context(), began.Add(time.Second), s); err != nil {
			t.Fatal(err)
		}
	}
	want[0].Saved, want[0].Failed = Saved{Addr: "b:1"}, Failed{Addr: "b:1", Why: "the archive is full"}
	want[1].Saved, want[1].Failed = Saved{Addr: "c:1"}, Failed{}
	if diff := gocmp.Diff(want, snapshots(t, d, ago-time.Second)); diff != "" {
		t.Errorf("Snapshots (-want +got):\n%s", diff)
	}
}

func TestSnapshotsThatNobodyCanRead(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	for field, text := range map[string]string{"x:saved": "1 {}", "1:saved": "x {}", "1:archived": "1 x", "1:failed": "1"} {
		must(t, server.Client(t), "DEL", snapshotsKey)
		must(t, server.Client(t), "HSET", snapshotsKey, field, text)
		if _, _, err := d.Snapshots(t.Context()); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Snapshots with %s = %q: %v, want an error that names it", field, text, err)
		}
	}
}
