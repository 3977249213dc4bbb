package directorytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// log keeps the newest 200 events.
func log(t *testing.T, d *directory.Directory) {
	events, err := d.Events(t.Context())
	if err != nil || len(events) != 0 {
		t.Errorf("Events at first = %v, %v, want none", events, err)
	}
	began := time.Now()
	const number = 207
	for i := range number {
		event := directory.Event{Agent: "ä \"b\"", Partition: i%3 - 1, Epoch: int64(i), What: fmt.Sprint("event ", i)}
		if err := d.Note(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	events, err = d.Events(t.Context())
	if err != nil || len(events) != 200 {
		t.Fatalf("Events = %d of them, %v, want 200", len(events), err)
	}
	for i, got := range events {
		n := number - 1 - i
		if got.At.Before(began.Add(-time.Second)) || got.At.After(time.Now().Add(time.Second)) {
			t.Errorf("event %d has the time %v", n, got.At)
		}
		got.At = time.Time{}
		want := directory.Event{Agent: "ä \"b\"", Partition: n%3 - 1, Epoch: int64(n), What: fmt.Sprint("event ", n)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("event at %d (-want +got):\n%s", i, diff)
		}
	}
}

// snapshots keeps the newest result of each kind.
func snapshots(t *testing.T, d *directory.Directory) {
	const hour = time.Hour
	now := time.Now()
	told := func(ago time.Duration, s directory.Snapshot) {
		t.Helper()
		if err := d.Snapped(t.Context(), now.Add(-ago), s); err != nil {
			t.Fatal(err)
		}
	}
	// want compares the stored snapshots. The time of each result is how long ago it began.
	want := func(want ...directory.Snapshot) {
		t.Helper()
		got, err := d.Snapshots(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		near := cmp.Comparer(func(a, b time.Time) bool { return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Minute })
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Errorf("Snapshots (-want +got):\n%s", diff)
		}
	}
	got, err := d.Snapshots(t.Context())
	if err != nil || len(got) != 0 {
		t.Errorf("Snapshots at first = %v, %v, want none", got, err)
	}
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	saved := directory.Saved{Addr: "a:1", Node: "a", Took: 1500 * time.Millisecond, Memory: 1 << 40, Copied: 12}
	archived := directory.Archived{Addr: "a:1", File: `x "ä".rdb`, Bytes: 1 << 41}
	for range 2 { // a repeat does no harm
		told(10*hour, directory.Snapshot{Partition: 0, Saved: saved, Archived: archived})
		told(10*hour, directory.Snapshot{Partition: 12, Failed: directory.Failed{Why: "no member\nanswers"}})
		saved.At, archived.At = at(10*hour), at(10*hour)
		want(directory.Snapshot{Partition: 0, Saved: saved, Archived: archived},
			directory.Snapshot{Partition: 12, Failed: directory.Failed{At: at(10 * hour), Why: "no member\nanswers"}})
	}

	// A failure keeps the snapshot that was saved before, and a success ends the failure.
	full := directory.Failed{Addr: "b:1", Why: "the archive is full"}
	told(8*hour, directory.Snapshot{Partition: 0, Saved: directory.Saved{Addr: "b:1"}, Failed: full})
	told(8*hour, directory.Snapshot{Partition: 12, Saved: directory.Saved{Addr: "c:1"}})
	full.At = at(8 * hour)
	other := directory.Snapshot{Partition: 12, Saved: directory.Saved{At: at(8 * hour), Addr: "c:1"}}
	want(directory.Snapshot{Partition: 0, Saved: directory.Saved{At: at(8 * hour), Addr: "b:1"}, Archived: archived, Failed: full}, other)

	// A late result changes no field that is set, and fills in the empty ones.
	told(9*hour, directory.Snapshot{Partition: 0, Saved: directory.Saved{Addr: "old:1"}})
	told(9*hour, directory.Snapshot{Partition: 12, Archived: archived, Failed: directory.Failed{Why: "old"}})
	late := archived
	late.At = at(9 * hour)
	other.Archived, other.Failed = late, directory.Failed{At: at(9 * hour), Why: "old"}
	want(directory.Snapshot{Partition: 0, Saved: directory.Saved{At: at(8 * hour), Addr: "b:1"}, Archived: archived, Failed: full}, other)
}

// wrongClock: a result of a process whose clock is ahead hides no other one.
func wrongClock(t *testing.T, d *directory.Directory) {
	now := time.Now()
	saved := func(addr string, at time.Time, want string) {
		t.Helper()
		if err := d.Snapped(t.Context(), at, directory.Snapshot{Saved: directory.Saved{Addr: addr}}); err != nil {
			t.Fatal(err)
		}
		if all, err := d.Snapshots(t.Context()); err != nil || len(all) != 1 || all[0].Saved.Addr != want {
			t.Errorf("Snapshots = %+v, %v, want one of %q", all, err, want)
		}
	}
	saved("ahead:1", now.Add(24*time.Hour), "")
	saved("right:1", now, "right:1")
	saved("early:1", now.Add(-time.Hour), "right:1")
}
