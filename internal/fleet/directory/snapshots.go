package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// Snapshot describes the snapshots of one partition.
type Snapshot struct {
	Partition int
	Saved     Saved    // the newest one; zero if there is none
	Archived  Archived // the newest one in the archive; zero if there is none
	Failed    Failed   // what failed in the last attempt; zero if nothing did
}

// Saved is a snapshot on the disk of the member that wrote it.
type Saved struct {
	At     time.Time     // when its data is from, by the directory's clock
	Addr   string        // of the member
	Node   string        // on which that was
	Took   time.Duration // from asking for it until it was done
	Memory int64         // what the member used when it began, in bytes
	Copied int64         // what it used on top of that, for writes in the meantime, in bytes
}

// Archived is a snapshot in the archive.
type Archived struct {
	At    time.Time // when its data is from, by the directory's clock
	Addr  string    // of the member from which it was fetched
	File  string    // its name in the archive's folder
	Bytes int64     // its size
}

// Failed is an attempt that failed, wholly or in part.
type Failed struct {
	At   time.Time // when it began, by the directory's clock
	Addr string    // of the member; empty if there was none to ask
	Why  string    // in a few words; it stands for the whole
}

// snapshotsKey is a hash: of each partition what was saved, archived and failed,
// in the fields ID:saved, ID:archived and ID:failed.
func snapshotsKey(base string) string { return base + ":snapshots" }

// The parts of a snapshot as they are stored, without the time, which the directory
// puts in front.
type (
	savedJSON struct {
		Addr   string `json:"addr"`
		Node   string `json:"node,omitempty"`
		Took   int64  `json:"took_ms"`
		Memory int64  `json:"memory"`
		Copied int64  `json:"copied"`
	}
	archivedJSON struct {
		Addr  string `json:"addr"`
		File  string `json:"file"`
		Bytes int64  `json:"bytes"`
	}
	failedJSON struct {
		Addr string `json:"addr,omitempty"`
		Why  string `json:"why"`
	}
)

// Snapped implements Directory. An attempt without a failure clears an earlier failure.
// The directory sets the times in s.
func (d *Redis) Snapped(ctx context.Context, began time.Time, s Snapshot) error {
	args := []string{strconv.Itoa(s.Partition), strconv.FormatInt(time.Since(began).Milliseconds(), 10)}
	for _, part := range []struct {
		told bool
		json any
	}{
		{s.Saved.Addr != "", savedJSON{s.Saved.Addr, s.Saved.Node, s.Saved.Took.Milliseconds(), s.Saved.Memory, s.Saved.Copied}},
		{s.Archived.File != "", archivedJSON{s.Archived.Addr, s.Archived.File, s.Archived.Bytes}},
		{s.Failed.Why != "", failedJSON{s.Failed.Addr, s.Failed.Why}},
	} {
		text := []byte(nil)
		if part.told {
			var err error
			if text, err = json.Marshal(part.json); err != nil {
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
	stored, _, err := ask(ctx, d, int(d.master.Load()), func(ctx context.Context, s *script.Runner) ([]rueidis.RedisResult, error) {
		b := s.Client.B()
		results := s.Client.DoMulti(ctx, b.Time().Build(), b.Hgetall().Key(snapshotsKey(baseKey)).Build())
		for _, r := range results {
			if err := r.Error(); err != nil {
				return nil, err
			}
		}
		return results, nil
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
		if err := readPart(byID, field, text); err != nil {
			return nil, now, fmt.Errorf("the directory holds the snapshot %s %q: %w", field, text, err)
		}
	}
	for _, s := range byID {
		all = append(all, *s)
	}
	return all, time.Unix(clock[0], clock[1]*1000).UTC(), nil
}

// readPart reads one field of the hash.
func readPart(byID map[int]*Snapshot, field, text string) error {
	number, part, _ := strings.Cut(field, ":")
	id, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	stamp, rest, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return err
	}
	at := time.UnixMilli(ms).UTC()
	s := byID[id]
	if s == nil {
		s = &Snapshot{Partition: id}
		byID[id] = s
	}
	switch part {
	case "saved":
		var j savedJSON
		err = json.Unmarshal([]byte(rest), &j)
		s.Saved = Saved{at, j.Addr, j.Node, time.Duration(j.Took) * time.Millisecond, j.Memory, j.Copied}
	case "archived":
		var j archivedJSON
		err = json.Unmarshal([]byte(rest), &j)
		s.Archived = Archived{at, j.Addr, j.File, j.Bytes}
	case "failed":
		var j failedJSON
		err = json.Unmarshal([]byte(rest), &j)
		s.Failed = Failed{at, j.Addr, j.Why}
	}
	return err
}
