package fetch

import "time"

// Outcome is how a call came by its answer.
type Outcome int

// What may come of a call. The package's documentation draws how.
const (
	Failed     Outcome = iota // there is no answer, and the error says why
	Hit                       // a fresh value was there
	Negative                  // it was known that there is none: the error is millrace.ErrNotFound
	Stale                     // an old value was there, and somebody computes a new one or could not
	Miss                      // this call computed
	Waited                    // another call computed, in this process or elsewhere, and this one waited
	Bypass                    // this call, or one that it waited for, computed without Redis, and only this process remembers it
	Remembered                // Redis could not be asked, and this process remembered the value, or that there is none
	outcomes
)

// String returns the name of the outcome in lower case.
func (o Outcome) String() string {
	names := [outcomes]string{"failed", "hit", "negative", "stale", "miss", "waited", "bypass", "remembered"}
	if o < 0 || o >= outcomes {
		return "unknown"
	}
	return names[o]
}

// Result is a value and how a call came by it.
type Result[T any] struct {
	Value   T
	Outcome Outcome

	// Age is how long ago the value, or that there is none, was stored, by the
	// server's clock; 0 when it was not found but computed.
	Age time.Duration
}

// Stats is what a [Cache] did since it was opened, in this process. Each call is
// counted once, by its outcome; one whose load said [millrace.ErrNotFound] is a miss, or waited.
type Stats struct {
	Hits, Negatives, Stale, Misses, Waited, Bypassed, Remembered, Failed uint64

	Loads uint64 // computations that were begun, whatever came of them
	Early uint64 // times that one was to begin before its value was old, for no caller
}

// Stats returns what the cache did so far.
func (c *Cache) Stats() Stats {
	count := func(o Outcome) uint64 { return c.outcomes[o].Load() }
	return Stats{
		Hits: count(Hit), Negatives: count(Negative), Stale: count(Stale), Misses: count(Miss),
		Waited: count(Waited), Bypassed: count(Bypass), Remembered: count(Remembered), Failed: count(Failed),
		Loads: c.loads.Load(), Early: c.early.Load(),
	}
}
