package fairqueue

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// Stats is what a queue holds at one moment.
type Stats struct {
	Name string
	At   time.Time // the server's time

	Waiting  int // messages that may be read
	InFlight int // messages that a reader has
	Delayed  int // messages that are set aside until their time
	Dead     int

	OldestAge time.Duration // how long a message has waited since it could be read, at most; 0 for none
	Paused    bool
	Group     string

	StreamCount int           // streams that writers use
	PerTenant   int           // how many of them a tenant has
	Streams     []StreamStats // those that hold messages, by index; also of those that are no longer used

	Counters Counters
}

// StreamStats is one stream.
type StreamStats struct {
	Index     int
	Waiting   int
	InFlight  int
	OldestAge time.Duration // how long one of those that wait has done so, at most; 0 for none
}

// Counters count since the queue began, over all processes. A full server may
// lose none of them: each is written with what it counts.
type Counters struct {
	Written   int64 // messages written, also those with a delay
	Delivered int64 // deliveries
	Acked     int64 // messages acknowledged
	Nacked    int64 // deliveries given back because they failed
	Returned  int64 // deliveries handed back because nobody was there any more
	Reclaimed int64 // deliveries whose reader did not finish in time
	Expired   int64 // messages whose deadline came before their turn
	Cancelled int64
	Buried    int64 // messages that died
	Redriven  int64 // dead messages that were given another try
	Purged    int64 // dead messages that were forgotten
}

// Len returns how many messages wait, in O(1), for autoscalers; 0 for a queue
// that does not exist.
func (q *Queue) Len(ctx context.Context) (int, error) {
	c := q.run.Client
	counts, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisMessage, error) {
		return c.Do(ctx, c.B().Hmget().Key(baseKey(q.name)).Field("in", "out").Build()).ToArray()
	})
	if err != nil {
		return 0, q.run.Name(err)
	}
	var n [2]int64
	for i := range n {
		if counts[i].IsNil() {
			continue
		}
		if n[i], err = counts[i].AsInt64(); err != nil {
			return 0, millrace.ErrBroken.With(err)
		}
	}
	return int(max(0, n[0]-n[1])), nil
}

// Stats looks at the queue and changes nothing. It takes as long as the queue has
// streams. Errors: [millrace.ErrNotFound], [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	reply, err := q.call(ctx, "stats")
	if err != nil {
		return Stats{}, err
	}
	s := Stats{Name: q.name, At: reply.MilliTime()}
	if s.At.IsZero() && reply.Err() == nil {
		return Stats{}, errNotFound
	}
	s.Delayed, s.Dead = int(reply.Int()), int(reply.Int())
	record := reply.Fields()
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(record[field], 10, 64) // absent is 0
		return n
	}
	s.StreamCount, s.PerTenant = int(number("streams")), int(number("per_tenant"))
	s.Paused, s.Group = record["paused"] == "1", record["group"]
	s.Counters = Counters{
		Written:   number("in") - number("moved") + number("later"),
		Delivered: number("delivered"), Acked: number("acked"), Nacked: number("nacked"),
		Returned:  number("unread"),
		Reclaimed: number("reclaimed"), Expired: number("expired"), Cancelled: number("cancelled"),
		Buried: number("buried"), Redriven: number("redriven"), Purged: number("purged"),
	}
	for reply.More() {
		stream := reply.List()
		one := s.stream(stream)
		reply.Join(stream)
		s.Waiting += one.Waiting
		s.InFlight += one.InFlight
		s.OldestAge = max(s.OldestAge, one.OldestAge)
		s.Streams = append(s.Streams, one)
	}
	return s, reply.Err()
}

func (s Stats) stream(reply *script.Reply) StreamStats {
	one := StreamStats{Index: int(reply.Int()), Waiting: int(reply.Int()), InFlight: int(reply.Int())}
	if oldest := reply.MilliTime(); !oldest.IsZero() {
		one.OldestAge = max(0, s.At.Sub(oldest))
	}
	return one
}
