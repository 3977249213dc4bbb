package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Event is an entry of the log: a step that an agent did, or failed to do.
type Event struct {
	At        time.Time `json:"at,omitzero"` // by the agent's clock
	Agent     string    `json:"agent"`       // its name
	Partition int       `json:"partition"`   // -1 for the fleet as a whole
	Epoch     int64     `json:"epoch"`       // of the map, afterwards
	What      string    `json:"what"`        // in a few words
}

// Stopped begins the event that says why agents change nothing.
const Stopped = "the agents change nothing: "

// logLength is how many events are kept.
const logLength = 200

// Note adds an event to the log, with the present time. After a lost reply it may be there twice.
func (d *Directory) Note(ctx context.Context, event Event) error {
	event.At = time.Now().UTC().Truncate(time.Millisecond)
	return d.edit(ctx, "log", func(text string) (string, error) {
		events, err := parse[[]Event]("log", text)
		if err != nil {
			return "", err
		}
		events = slices.Insert(events, 0, event)
		return pack(events[:min(logLength, len(events))])
	})
}

// Events returns the log, the newest event first, up to 200.
func (d *Directory) Events(ctx context.Context) ([]Event, error) {
	events, err := list[[]Event](ctx, d, "log")
	if events == nil {
		events = []Event{}
	}
	return events, err
}

// list reads a value that is packed JSON, an old one if the directory has no other.
func list[T any](ctx context.Context, d *Directory, name string) (T, error) {
	values, err := d.Store.Get(ctx, Present, name)
	if err != nil {
		values, err = d.Store.Get(ctx, Any, name)
	}
	if err != nil {
		var none T
		return none, err
	}
	return parse[T](name, values[0].Text)
}

func parse[T any](name, text string) (all T, err error) {
	if text == "" {
		return all, nil
	}
	plain, err := unpack(text)
	if err == nil {
		err = json.Unmarshal(plain, &all)
	}
	if err != nil {
		err = fmt.Errorf("the directory's %s cannot be read: %w", name, err)
	}
	return all, err
}

// Snapshot describes the snapshots of one partition. Times are by the agents' clocks.
type Snapshot struct {
	Partition int      `json:"-"`
	Saved     Saved    `json:"saved,omitzero"`    // the newest one; zero if there is none
	Archived  Archived `json:"archived,omitzero"` // the newest one in the archive; zero if there is none
	Failed    Failed   `json:"failed,omitzero"`   // the failure of the last attempt; zero if it succeeded
}

// Saved is a snapshot on the disk of the member that wrote it.
type Saved struct {
	At     time.Time     `json:"at"`               // of its data
	Addr   string        `json:"addr"`             // of the member
	Node   string        `json:"node,omitempty"`   // of the member
	Took   time.Duration `json:"took_ns"`          // from the request until it was done
	Memory int64         `json:"memory,omitempty"` // of the member when it began, in bytes
	Copied int64         `json:"copied,omitempty"` // memory that it used in addition, for writes meanwhile, in bytes
}

// Archived is a snapshot in an archive.
type Archived struct {
	At    time.Time `json:"at"`    // of its data
	Addr  string    `json:"addr"`  // of the member that it was fetched from
	File  string    `json:"file"`  // in the archive's folder
	Bytes int64     `json:"bytes"` // its size
}

// Failed is an attempt that failed, wholly or in part.
type Failed struct {
	At   time.Time `json:"at"`             // when it began
	Addr string    `json:"addr,omitempty"` // of the member; empty if there was none to ask
	Why  string    `json:"why"`            // in a few words
}

// Snapped stores the result of a snapshot that began then. A part that is older than the stored
// one changes nothing. An attempt without a failure clears an earlier one.
func (d *Directory) Snapped(ctx context.Context, began time.Time, s Snapshot) error {
	at := began.UTC().Truncate(time.Millisecond)
	return d.edit(ctx, "snapshots", func(text string) (string, error) {
		all, err := parse[map[int]Snapshot]("snapshots", text)
		if err != nil {
			return "", err
		}
		if all == nil {
			all = map[int]Snapshot{}
		}
		now := time.Now()
		older := func(stored time.Time) bool { return stored.After(at) && !ahead(stored, now) }
		stored := all[s.Partition]
		if s.Saved != (Saved{}) && !older(stored.Saved.At) {
			stored.Saved = s.Saved
			stored.Saved.At = at
		}
		if s.Archived != (Archived{}) && !older(stored.Archived.At) {
			stored.Archived = s.Archived
			stored.Archived.At = at
		}
		if !older(stored.Failed.At) {
			if stored.Failed = s.Failed; stored.Failed != (Failed{}) {
				stored.Failed.At = at
			}
		}
		all[s.Partition] = stored
		return pack(all)
	})
}

// ahead reports whether a time is one of an agent whose clock is ahead: it counts for nothing.
func ahead(at, now time.Time) bool { return at.Sub(now) > time.Minute }

// Snapshots returns the results of each partition that has any, by number.
func (d *Directory) Snapshots(ctx context.Context) ([]Snapshot, error) {
	stored, err := list[map[int]Snapshot](ctx, d, "snapshots")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	var all []Snapshot
	for _, id := range slices.Sorted(maps.Keys(stored)) {
		s := stored[id]
		s.Partition = id
		if ahead(s.Saved.At, now) {
			s.Saved = Saved{}
		}
		if ahead(s.Archived.At, now) {
			s.Archived = Archived{}
		}
		all = append(all, s)
	}
	return all, nil
}
