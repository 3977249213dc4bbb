package scatter

import (
	"fmt"
	"time"

	"github.com/millrace/millrace"
)

// Bucket says into which stretches of time values are put, and for how long those are
// kept. The bucket of a key that begins at a time is the key
//
//	KEY:START
//
// where START is that time in Unix seconds, a multiple of Every: what was counted for
// "clicks" from 12:00 to 12:01 on 2024-05-01, UTC, is "clicks:1714564800". It is of a
// plain Redis type like any other, and has a Redis TTL.
type Bucket struct {
	// Every is how long a bucket lasts, in whole seconds. Defaults to 1 minute.
	Every time.Duration

	// Keep is for how long a bucket is kept after its end. Who keeps it longer wins.
	// Defaults to 4 hours.
	Keep time.Duration

	// At is when it happened. What is so late that its bucket has expired is not kept.
	// Defaults to the server's clock at the flush.
	At time.Time
}

// Defaults of Bucket.
const (
	DefaultEvery = time.Minute
	DefaultKeep  = 4 * time.Hour
)

// MaxBuckets is how many buckets are named at once.
const MaxBuckets = 10_000

// Keys returns the names of all buckets of a key that have a part of the time from
// from up to, but without, to; the oldest first. They are for a gather, such as
// [Gather.IntOver]. Errors: [millrace.ErrBadArgument] for more than MaxBuckets.
func (b Bucket) Keys(key string, from, to time.Time) ([]string, error) {
	b, err := b.checked()
	if err != nil {
		return nil, err
	}
	first, last := b.start(from), b.start(to.Add(-1))
	every := int64(b.Every / time.Second)
	switch {
	case first < 0:
		return nil, millrace.ErrBadArgument.Errorf("buckets begin with 1970, not %v", from)
	case !from.Before(to):
		return nil, nil
	case (last-first)/every >= MaxBuckets:
		return nil, millrace.ErrBadArgument.Errorf("there are %d buckets of %v in that time, more than %d", (last-first)/every+1, b.Every, MaxBuckets)
	}
	var keys []string
	for start := first; start <= last; start += every {
		keys = append(keys, bucketKey(key, start))
	}
	return keys, nil
}

// checked returns the bucket with its defaults.
func (b Bucket) checked() (Bucket, error) {
	if b.Every == 0 {
		b.Every = DefaultEvery
	}
	if b.Keep == 0 {
		b.Keep = DefaultKeep
	}
	switch {
	case b.Every < time.Second || b.Every%time.Second != 0:
		return b, millrace.ErrBadArgument.Errorf("a bucket lasts whole seconds, not %v", b.Every)
	case b.Keep < time.Millisecond:
		return b, millrace.ErrBadArgument.Errorf("a bucket is kept for a millisecond at least, not %v", b.Keep)
	case !b.At.IsZero() && b.At.Unix() < 0:
		return b, millrace.ErrBadArgument.Errorf("buckets begin with 1970, not %v", b.At)
	}
	return b, nil
}

// start returns when the bucket of that time begins, in Unix seconds.
func (b Bucket) start(at time.Time) int64 {
	every := int64(b.Every / time.Second)
	return at.Unix() / every * every
}

// stretch is a bucket as flush.lua wants it: the zero value is none.
type stretch struct {
	suffix string // of the key; empty if the script finds it by the server's clock
	life   string
}

// stretch returns the bucket, which was checked.
func (b Bucket) stretch() stretch {
	if b.At.IsZero() {
		return stretch{life: fmt.Sprintf("%d/%d", b.Every.Milliseconds(), b.Keep.Milliseconds())}
	}
	start := b.start(b.At)
	ends := start*1000 + b.Every.Milliseconds() + b.Keep.Milliseconds()
	return stretch{suffix: bucketKey("", start), life: fmt.Sprintf("@%d", ends)}
}

func bucketKey(key string, start int64) string { return fmt.Sprintf("%s:%d", key, start) }
