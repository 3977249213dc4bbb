package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// Event is an entry of the log: what an agent did, or failed to do.
type Event struct {
	At        time.Time `json:"at,omitzero"` // by the directory's clock
	Agent     string    `json:"agent"`       // its name
	Partition int       `json:"partition"`   // -1 for the fleet as a whole
	Epoch     int64     `json:"epoch"`       // of the map, afterwards
	What      string    `json:"what"`        // in a few words
}

// Note implements Directory.
func (d *Redis) Note(ctx context.Context, event Event) error {
	event.At = time.Time{}
	text, err := json.Marshal(event)
	if err != nil {
		return err
	}
	_, _, err = d.write(ctx, "note", string(text))
	return err
}

// Events implements Directory.
func (d *Redis) Events(ctx context.Context) ([]Event, error) {
	texts, _, err := Ask(ctx, d.servers, int(d.master.Load()), func(ctx context.Context, s *script.Runner) ([]string, error) {
		return s.Client.Do(ctx, s.Client.B().Lrange().Key(baseKey+":log").Start(0).Stop(-1).Build()).AsStrSlice()
	})
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(texts))
	for i, text := range texts {
		at, err := stamped(text, &events[i])
		if err != nil {
			return nil, fmt.Errorf("the directory holds the event %q: %w", text, err)
		}
		events[i].At = at
	}
	return events, nil
}

// stamped reads JSON behind a time in milliseconds, which the directory writes.
func stamped(text string, to any) (time.Time, error) {
	stamp, rest, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(ms).UTC(), json.Unmarshal([]byte(rest), to)
}

// Snapshot describes the snapshots of one partition. Times are by the directory's clock.
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

// snapshotsKey is a hash that has, of each partition, the fields ID:saved, ID:archived
// and ID:failed.
const snapshotsKey = baseKey + ":snapshots"

// snapshotField is the stored form of each field, behind its time.
type snapshotField struct {
	Addr   string `json:"addr,omitempty"`
	Node   string `json:"node,omitempty"`
	Took   int64  `json:"took_ms,omitempty"`
	Memory int64  `json:"memory,omitempty"`
	Copied int64  `json:"copied,omitempty"`
	File   string `json:"file,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Snapped implements Directory. An attempt without a failure clears an earlier one.
func (d *Redis) Snapped(ctx context.Context, began time.Time, s Snapshot) error {
	args := []string{strconv.Itoa(s.Partition), milliseconds(time.Since(began))}
	for _, field := range []snapshotField{
		{Addr: s.Saved.Addr, Node: s.Saved.Node, Took: s.Saved.Took.Milliseconds(), Memory: s.Saved.Memory, Copied: s.Saved.Copied},
		{Addr: s.Archived.Addr, File: s.Archived.File, Bytes: s.Archived.Bytes},
		{Addr: s.Failed.Addr, Why: s.Failed.Why},
	} {
		text := []byte(nil)
		if field != (snapshotField{}) {
			var err error
			if text, err = json.Marshal(field); err != nil {
				return err
			}
		}
		args = append(args, string(text))
	}
	_, _, err := d.write(ctx, "snapped", args...)
	return err
}

// Snapshots implements Directory. The order is undefined.
func (d *Redis) Snapshots(ctx context.Context) (all []Snapshot, now time.Time, err error) {
	stored, _, err := Ask(ctx, d.servers, int(d.master.Load()), func(ctx context.Context, s *script.Runner) ([]rueidis.RedisResult, error) {
		b := s.Client.B()
		results := s.Client.DoMulti(ctx, b.Time().Build(), b.Hgetall().Key(snapshotsKey).Build())
		return results, errors.Join(results[0].Error(), results[1].Error())
	})
	if err != nil {
		return nil, now, err
	}
	clock, err := stored[0].AsIntSlice()
	if err != nil {
		return nil, now, err
	}
	fields, err := stored[1].AsStrMap()
	if err != nil {
		return nil, now, err
	}
	byID := map[int]*Snapshot{}
	for field, text := range fields {
		if err := readSnapshot(byID, field, text); err != nil {
			return nil, now, fmt.Errorf("the directory holds the snapshot %s %q: %w", field, text, err)
		}
	}
	for _, s := range byID {
		all = append(all, *s)
	}
	return all, time.Unix(clock[0], clock[1]*1000).UTC(), nil
}

// readSnapshot reads one field of the hash.
func readSnapshot(byID map[int]*Snapshot, field, text string) error {
	number, kind, _ := strings.Cut(field, ":")
	id, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	s := byID[id]
	if s == nil {
		s = &Snapshot{Partition: id}
		byID[id] = s
	}
	var j snapshotField
	at, err := stamped(text, &j)
	switch kind {
	case "saved":
		s.Saved = Saved{at, j.Addr, j.Node, time.Duration(j.Took) * time.Millisecond, j.Memory, j.Copied}
	case "archived":
		s.Archived = Archived{at, j.Addr, j.File, j.Bytes}
	case "failed":
		s.Failed = Failed{at, j.Addr, j.Why}
	}
	return err
}
