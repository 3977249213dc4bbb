package scatter

import (
	"cmp"
	"fmt"
	"time"

	"github.com/millrace/millrace"
)

// Bucket puts values into intervals of time, which expire. The bucket of a key that begins at
// a time is the key
//
//	KEY:START
//
// where START is that time in Unix seconds, a multiple of Every: "clicks" counted from 12:00 to
// 12:01 on 2024-05-01, UTC, is "clicks:1714564800". It has a plain Redis type and a Redis TTL.
type Bucket struct {
	// Every is the length of a bucket, in whole seconds. Defaults to 1 minute.
	Every time.Duration

	// Keep is how long a bucket stays after its end. The longest Keep of all writers wins.
	// Defaults to 4 hours.
	Keep time.Duration

	// At is the time of the event. An event whose bucket has expired is not stored. Defaults
	// to the server's clock at the flush.
	At time.Time
}

const maxBuckets = 10_000 // in one call of Keys

// Keys returns the names of all buckets of a key that overlap the time from from up to, but
// without, to; the oldest first. They are for a gather, such as [Gather.Int]. Errors:
// [millrace.ErrBadArgument] for more than 10,000 buckets.
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
	case (last-first)/every >= maxBuckets:
		return nil, millrace.ErrBadArgument.Errorf("there are %d buckets of %v in that time, more than %d", (last-first)/every+1, b.Every, maxBuckets)
	}
	var keys []string
	for start := first; start <= last; start += every {
		keys = append(keys, bucketKey(key, start))
	}
	return keys, nil
}

func (b Bucket) checked() (Bucket, error) {
	b.Every, b.Keep = cmp.Or(b.Every, time.Minute), cmp.Or(b.Keep, 4*time.Hour)
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

// interval is a bucket in the format of flush.lua. The zero value is none.
type interval struct {
	suffix string // of the key; empty if the script derives it from the server's clock
	life   string
}

// interval returns the checked bucket.
func (b Bucket) interval() interval {
	if b.At.IsZero() {
		return interval{life: fmt.Sprintf("%d/%d", b.Every.Milliseconds(), b.Keep.Milliseconds())}
	}
	start := b.start(b.At)
	ends := start*1000 + b.Every.Milliseconds() + b.Keep.Milliseconds()
	return interval{suffix: bucketKey("", start), life: fmt.Sprintf("@%d", ends)}
}

func bucketKey(key string, start int64) string { return fmt.Sprintf("%s:%d", key, start) }
