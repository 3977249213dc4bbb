package fairqueue

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

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

	OldestAge time.Duration // how long the head of one of Flows has waited, at most; 0 for none
	Paused    bool

	Streams   int // how many streams the flows are; 0 if they are the tenants
	PerTenant int // how many of them a tenant has

	FlowCount int         // flows in which messages wait
	Flows     []FlowStats // those of them that come next, 1,024 at most, the fullest first

	Capacity int           // handlers of all Readers
	Readers  []ReaderStats // those who Consume and said so in the last 15 seconds, by name
	Counters Counters
}

// FlowStats is one flow.
type FlowStats struct {
	Tenant string // empty if the flow is a stream
	Stream int    // -1 if the flow is a tenant

	Waiting   int
	InFlight  int           // with handlers of those who Consume
	OldestAge time.Duration // how long its head has waited

	// Handling is how long handlers took for its last messages, on average; negative
	// if nobody knows.
	Handling time.Duration

	// Held says that its next message waits for its handlers, which have their share of
	// all.
	Held bool
}

// ReaderStats is one run of [Queue.Consume].
type ReaderStats struct {
	Name        string // of the process, or [ConsumeConfig].Name
	Host        string
	Concurrency int
	InFlight    int // messages in its hands
	LastSeen    time.Time
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
	Dropped   int64 // dead messages that were dropped: see KeepDead
	Lost      int64 // messages whose body somebody deleted past the library
}

// Len returns how many messages a new reader could work on, in O(log N), for autoscalers;
// 0 for a queue that does not exist. Those that are due and those that were not settled in
// time count, also if nobody has noticed yet.
func (q *Queue) Len(ctx context.Context) (int, error) {
	reply, err := q.call(ctx, "len")
	if err != nil {
		return 0, err
	}
	n := int(reply.Int())
	return n, reply.Err()
}

// maxFlows is how many flows Stats describes at most.
const maxFlows = 1024

// Stats looks at the queue and changes nothing. It takes as long as the queue has
// flows and readers, up to 1,024 flows. Errors: [millrace.ErrNotFound],
// [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	s := Stats{Name: q.name}
	reply, flows, err := q.flows(ctx, &s)
	if err != nil {
		return Stats{}, err
	}
	if reply.None() {
		return Stats{}, errNotFound
	}
	s.Waiting, s.InFlight, s.Delayed = int(reply.Int()), int(reply.Int()), int(reply.Int())
	s.Dead, s.FlowCount = int(reply.Int()), int(reply.Int())
	record := reply.Fields()
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(record[field], 10, 64) // absent is 0
		return n
	}
	numbers := readNumbers(record["numbers"])
	streams := readStreams(record["streams"])
	s.Streams, s.PerTenant = streams.count, streams.perTenant
	s.Paused = record["paused"] == "1"
	s.Counters = Counters{
		Written: numbers.written, Delivered: numbers.delivered, Acked: numbers.acked, Nacked: number("nacked"),
		Returned: number("returned"), Reclaimed: number("reclaimed"), Expired: number("expired"),
		Cancelled: number("cancelled"), Buried: number("buried"), Redriven: number("redriven"),
		Purged: number("purged"), Dropped: number("dropped"), Lost: number("lost"),
	}
	s.readers(reply)
	if err := reply.Err(); err != nil {
		return s, err
	}
	for flows == costly && len(s.Flows) < maxFlows {
		if _, flows, err = q.flows(ctx, &s); err != nil {
			return s, err
		}
	}
	slices.SortStableFunc(s.Flows, func(a, b FlowStats) int { return cmp.Compare(b.Waiting, a.Waiting) })
	return s, nil
}

// flows adds the next flows to s, and returns how many there were and what else the script
// answers. A flow whose turn came meanwhile may be there twice, or be missing.
func (q *Queue) flows(ctx context.Context, s *Stats) (reply *script.Reply, n int, err error) {
	reply, err = q.call(ctx, "stats", strconv.Itoa(len(s.Flows)), strconv.Itoa(costly))
	if err != nil || reply.None() {
		return reply, 0, err
	}
	s.At = reply.MilliTime()
	list := reply.List()
	for ; list.More(); n++ {
		f := s.flow(list)
		s.OldestAge = max(s.OldestAge, f.OldestAge)
		s.Flows = append(s.Flows, f)
	}
	reply.Join(list)
	return reply, n, reply.Err()
}

// numbers are those of the record that scripts change at every call.
type numbers struct{ written, delivered, acked int64 }

func readNumbers(text string) (n numbers) {
	for i, word := range strings.Fields(text) {
		value, _ := strconv.ParseInt(word, 10, 64) // digits that scripts wrote
		switch i {
		case 9:
			n.written = value
		case 10:
			n.delivered = value
		case 11:
			n.acked = value
		}
	}
	return n
}

// readerTimeout is after what time a reader that says nothing is taken for gone, here as in
// the script beat.
const readerTimeout = 15 * time.Second

// readers reads what readers say of themselves: when, handlers, busy, name, host.
func (s *Stats) readers(reply *script.Reply) {
	for id, text := range reply.Fields() {
		parts := strings.Split(text, "\x01")
		if id == "" || len(parts) != 5 {
			continue
		}
		number := func(i int) int {
			n, _ := strconv.Atoi(parts[i]) // digits that this package wrote
			return n
		}
		seen := time.UnixMilli(int64(number(0)))
		if s.At.Sub(seen) > readerTimeout {
			continue
		}
		s.Capacity += number(1)
		s.Readers = append(s.Readers, ReaderStats{
			Name: parts[3], Host: parts[4], Concurrency: number(1), InFlight: number(2), LastSeen: seen,
		})
	}
	slices.SortFunc(s.Readers, func(a, b ReaderStats) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host), a.LastSeen.Compare(b.LastSeen))
	})
}

func (s *Stats) flow(reply *script.Reply) FlowStats {
	f := FlowStats{Stream: -1, Handling: -1}
	f.Tenant, f.Stream = readFlow(reply.Text())
	f.Waiting = int(reply.Int())
	head, since := reply.Text(), reply.MilliTime()
	f.Held = reply.Bool()
	state := strings.Fields(reply.Text())
	if head != "" {
		if since.IsZero() {
			since = written(head)
		}
		f.OldestAge = max(0, s.At.Sub(since))
	}
	if len(state) > 1 {
		f.InFlight, _ = strconv.Atoi(state[0]) // digits that scripts wrote
		if mean, err := strconv.Atoi(state[1]); err == nil && mean >= 0 {
			f.Handling = time.Duration(mean) * time.Millisecond
		}
	}
	return f
}
