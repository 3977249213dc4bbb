package ick

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/registry"
)

// overlapPage is how many reserved members one script call compares with the waiting ones.
const overlapPage = 10_000

// Stats is the contents of an Ick at one moment.
type Stats struct {
	Name    string
	Version string
	At      time.Time // the server's time

	Waiting  SetStats
	Reserved SetStats

	Total    int // of both sets; a member in both counts twice, as in the gem
	Distinct int // members in either set
	Parked   int // members that failed and wait for their next try

	// OldestAge is how long the oldest mark has waited; 0 if there is none or its score is no
	// time.
	OldestAge time.Duration

	Owner string // the consumer that serves this Ick of a channel; empty for none

	Counters Counters
}

// SetStats describes one of the two sets.
type SetStats struct {
	Key  string
	Size int

	Oldest, Newest float64 // the lowest and the highest score; 0 when the set is empty
}

// Counters count since the Ick was created, over all Millrace processes; New includes the marks
// of other programs. A full server may lose counts, and Folded lacks the last tenth of a second
// of a producer that ends during a burst.
type Counters struct {
	New       int64 `json:"new" doc:"Marks of members that did not wait."`
	Folded    int64 `json:"folded" doc:"Marks of members that waited already."`
	Reserved  int64 `json:"reserved" doc:"Marks that were reserved."`
	Committed int64 `json:"committed" doc:"Members committed."`
	Kept      int64 `json:"kept" doc:"Members that were marked again before their commit."`
	Parked    int64 `json:"parked" doc:"Failures that were parked."`
	Retried   int64 `json:"retried" doc:"Parked members that were retried."`
	Dropped   int64 `json:"dropped" doc:"Parked members that were dropped."`
}

// Stats returns statistics and changes nothing. With more than 10,000 reserved members it takes
// several calls, and Distinct may be off by the changes between them. Errors:
// [millrace.ErrNotFound], [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Ick) Stats(ctx context.Context) (Stats, error) {
	s, both, err := k.stats(ctx, 0)
	for first := overlapPage; err == nil && first < s.Reserved.Size; first += overlapPage {
		var more int
		_, more, err = k.stats(ctx, first)
		both += more
	}
	s.Distinct = s.Total - both
	return s, err
}

// stats makes one call; both is how many of the reserved members from rank first on also wait.
func (k *Ick) stats(ctx context.Context, first int) (s Stats, both int, err error) {
	r, err := k.call(ctx, "stats", strconv.Itoa(first))
	if err != nil {
		return s, 0, err
	}
	version, exists := r.Maybe()
	if !exists && r.Err() == nil {
		return s, 0, errNotFound
	}
	s = Stats{Name: k.name, Version: version, At: r.MicroTime()}
	s.Waiting = SetStats{Key: key(k.name, keyPset), Size: int(r.Int())}
	s.Reserved = SetStats{Key: key(k.name, keyCset), Size: int(r.Int())}
	s.Parked = int(r.Int())
	both = int(r.Int())
	s.Waiting.Oldest, s.Waiting.Newest = readScore(r), readScore(r)
	s.Reserved.Oldest, s.Reserved.Newest = readScore(r), readScore(r)
	s.Counters = readCounters(r.Texts(), s.Waiting.Size)
	s.Total = s.Waiting.Size + s.Reserved.Size
	s.OldestAge = max(s.Waiting.oldestAge(s.At), s.Reserved.oldestAge(s.At))
	return s, both, r.Err()
}

func (s SetStats) oldestAge(now time.Time) time.Duration {
	if s.Size == 0 {
		return 0
	}
	oldest, _ := age(s.Oldest, now)
	return oldest
}

// readCounters reads the meta hash. A field that is no number counts as 0. New members are those
// that wait and those that left, so an add need not count them.
func readCounters(fields []string, waiting int) (c Counters) {
	var left int64
	into := map[string]*int64{
		"left": &left, "folded": &c.Folded, "reserved": &c.Reserved, "committed": &c.Committed,
		"kept": &c.Kept, "parked": &c.Parked, "retried": &c.Retried, "dropped": &c.Dropped,
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if n, err := strconv.ParseInt(fields[i+1], 10, 64); err == nil && into[fields[i]] != nil {
			*into[fields[i]] = n
		}
	}
	c.New = left + int64(waiting)
	return c
}

// Delete removes the whole Ick with its marks, and returns how many of the gem's three keys
// existed. Errors: [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Ick) Delete(ctx context.Context) (int, error) { return k.remove(ctx, "whole") }

// ForceDelete is Delete for a broken Ick: it removes the Ick's keys whatever they hold, also
// another program's value under the Ick's name.
func (k *Ick) ForceDelete(ctx context.Context) (int, error) { return k.remove(ctx, "force") }

func (k *Ick) remove(ctx context.Context, how string) (int, error) {
	reply, err := k.call(ctx, "delete", how)
	if err != nil {
		return 0, err
	}
	k.entry.Leave(ctx)
	return int(reply.Int()), reply.Err()
}

// List yields the names of the registered Icks, in no order. A Millrace process that adds or
// reserves registers its Ick; for one that only the gem uses see docs/WIRE.md. The cost grows
// with the number of structures only. Where servers do not answer, List yields the names of the
// others and then [millrace.ErrPartial].
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return registry.List(ctx, client, registry.Ick, checkName)
}
