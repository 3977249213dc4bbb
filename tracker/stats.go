package tracker

import (
	"context"
	"iter"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/registry"
)

// Stats is what a tracker knows at one moment.
type Stats struct {
	Name    string
	At      time.Time // the server's time
	Tracked int       // identifiers

	// OldestCheck is the longest time since an identifier was last seen to have work
	// queued: what has finished is shown for that long at most, plus the time until
	// the verify slice has its turn. 0 when nothing is tracked.
	OldestCheck time.Duration

	Passes    int64         // full passes over the source; before the first, answers are Unknown
	PassAge   time.Duration // since the last full pass began; 0 before the first
	PassTime  time.Duration // how long that took; 0 before the first
	CursorAge time.Duration // since an add slice last moved the cursor; 0 when none did

	Counters Counters
}

// Counters count identifiers since the tracker's record began, over all processes.
type Counters struct {
	Added     int64 // that were not tracked, by producers and by passes
	Confirmed int64 // that were verified and have work
	Removed   int64 // that were verified and have none
}

// Len returns how many identifiers are tracked.
func (t *Tracker) Len(ctx context.Context) (int, error) {
	s, err := t.Stats(ctx)
	return s.Tracked, err
}

// Stats looks at the tracker and changes nothing. One that nobody has written to
// tracks nothing and has no pass. Errors: [millrace.ErrBroken], [millrace.ErrVersion].
func (t *Tracker) Stats(ctx context.Context) (Stats, error) {
	values, err := t.texts(ctx, &t.run, 10, "stats")
	if err != nil {
		return Stats{}, err
	}
	var n [10]int64
	for i := range n {
		if n[i], err = number(values[i]); err != nil {
			return Stats{}, err
		}
	}
	now := n[0]
	since := func(ms int64) time.Duration {
		if ms == 0 {
			return 0
		}
		return age(now, ms)
	}
	return Stats{
		Name: t.name, At: time.UnixMilli(now), Passes: n[1], Tracked: int(n[2]),
		OldestCheck: since(n[3]), PassAge: since(n[4]), PassTime: age(n[5], n[4]), CursorAge: since(n[6]),
		Counters: Counters{Added: n[7], Confirmed: n[8], Removed: n[9]},
	}, nil
}

// List goes through the names of the trackers that are registered, which each is by those
// who add to it, in no order. It takes as long as there are structures, whatever else Redis
// has.
//
// Where servers do not answer, it yields what the others have, and then an error: see
// [millrace.ErrPartial].
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range registry.List(ctx, client, registry.Tracker) {
			if (err != nil || CheckName(name) == nil) && !yield(name, err) {
				return
			}
		}
	}
}
