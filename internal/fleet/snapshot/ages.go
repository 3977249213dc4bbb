package snapshot

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Ages are the ages of the snapshots of a fleet.
type Ages struct {
	// Now is when they were read, by the clock of this process.
	Now time.Time

	// Partitions has all partitions by their numbers.
	Partitions []directory.Snapshot

	// Saved is the loss if all members of a partition lose their memory, and one disk
	// with a snapshot is left.
	Saved Exposure

	// Archived is the loss if all disks are lost, too.
	Archived Exposure
}

// Age returns the age of a snapshot from that time, 0 if there is none.
func (a *Ages) Age(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return a.Now.Sub(at)
}

// Exposure is how many of the last writes would be lost.
type Exposure struct {
	Longest   time.Duration // the greatest age of a partition's newest snapshot
	Partition int           // with that age; -1 if there is none
	None      []int         // the partitions without a snapshot, which would lose all
}

// Read returns the ages of the snapshots of a fleet, from all keepers.
func Read(ctx context.Context, dir *directory.Directory) (Ages, error) {
	m, err := dir.Load(ctx)
	if err != nil {
		return Ages{}, err
	}
	return readAges(ctx, dir, m)
}

// readAges returns the ages of the snapshots of the partitions that a map has.
func readAges(ctx context.Context, dir *directory.Directory, m *directory.Map) (Ages, error) {
	stored, err := dir.Snapshots(ctx)
	if err != nil {
		return Ages{}, err
	}
	a := Ages{Now: time.Now().UTC(), Partitions: make([]directory.Snapshot, len(m.Partitions))}
	for id := range a.Partitions {
		a.Partitions[id].Partition = id
	}
	for _, s := range stored {
		if s.Partition < len(a.Partitions) {
			a.Partitions[s.Partition] = s
		}
	}
	a.Saved = a.exposure(func(s directory.Snapshot) time.Time { return s.Saved.At })
	a.Archived = a.exposure(func(s directory.Snapshot) time.Time { return s.Archived.At })
	return a, nil
}

func (a Ages) exposure(from func(directory.Snapshot) time.Time) Exposure {
	e := Exposure{Partition: -1}
	for _, s := range a.Partitions {
		at := from(s)
		switch age := a.Now.Sub(at); {
		case at.IsZero():
			e.None = append(e.None, s.Partition)
		case e.Partition < 0 || age > e.Longest:
			e.Longest, e.Partition = age, s.Partition
		}
	}
	return e
}
