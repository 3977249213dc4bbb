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

// Stats is the state of a queue at one moment.
type Stats struct {
	Name string
	At   time.Time // by the server's clock

	Waiting  int // messages that may be read
	InFlight int // messages that a reader has
	Delayed  int // messages that wait for their time
	Dead     int

	Abandoned    int           // of those in flight: their visibility has ended, and no reader and no upkeep has noticed
	AbandonedAge time.Duration // for how long, at most

	OldestAge time.Duration // how long the head of one of Flows has waited, at most; 0 for none
	Paused    bool

	Streams   int // 0 if flows are tenants
	PerTenant int // streams of a tenant

	FlowCount int         // flows in which messages wait or that sleep
	Flows     []FlowStats // those of them that come next, 1,024 at most, and about 100 tenants with messages in flight, the fullest first

	Schedules        int // that the queue keeps
	OverdueSchedules int // those whose tick is late by more than a minute and their jitter; of 100 at most

	Capacity int           // handlers of all Readers
	Readers  []ReaderStats // runs of Consume, seen in the last 15 seconds, by name
	Vanished []ReaderStats // runs that ended without a word in the last two minutes, if none goes on, by name
	Counters Counters
}

// FlowStats is one flow.
type FlowStats struct {
	Tenant string // empty if the flow is a stream
	Stream int    // -1 if the flow is a tenant

	Waiting   int
	InFlight  int           // messages with handlers of Consume, and where there are limits also with other readers
	OldestAge time.Duration // how long the head has waited
	Handling  time.Duration // mean time of handlers for the last messages; negative if unknown
	Held      bool          // the next message waits because its tenant has its share of the handlers, or its most in flight
	NotBefore time.Time     // until when it sleeps, because of its rate, a pause or a throttle; zero if it does not
	Paused    bool          // somebody must resume it
	Limits    Limits        // those that apply
}

// ReaderStats is one run of [Queue.Consume].
type ReaderStats struct {
	Name        string // [ConsumeConfig].Name
	Host        string
	Concurrency int
	InFlight    int
	LastSeen    time.Time
}

// Counters count since the queue was created, over all processes. None is lost on a full
// server: each is written with what it counts.
type Counters struct {
	Written   int64 `json:"written" doc:"Messages written, including delayed ones."`
	Delivered int64 `json:"delivered" doc:"Deliveries."`
	Acked     int64 `json:"acked" doc:"Messages acknowledged."`
	Nacked    int64 `json:"nacked" doc:"Deliveries that failed and were returned."`
	Returned  int64 `json:"returned" doc:"Deliveries returned without an attempt, because the reader had gone."`
	Reclaimed int64 `json:"reclaimed" doc:"Deliveries that ran out of time and were redelivered."`
	Expired   int64 `json:"expired" doc:"Messages that expired before their turn."`
	Cancelled int64 `json:"cancelled" doc:"Messages cancelled."`
	Buried    int64 `json:"buried" doc:"Messages that died."`
	Redriven  int64 `json:"redriven" doc:"Dead messages that were redelivered."`
	Purged    int64 `json:"purged" doc:"Dead messages that were purged."`
	Dropped   int64 `json:"dropped" doc:"Dead messages that were dropped because of their number or age."`
	Lost      int64 `json:"lost" doc:"Messages whose body was deleted by something else than the library."`
}

// Len returns how many messages a new reader could work on, for autoscalers: those that wait,
// are due, or were not settled in time. It is 0 for a queue that does not exist.
func (q *Queue) Len(ctx context.Context) (int, error) {
	reply, err := q.call(ctx, "len")
	if err != nil {
		return 0, err
	}
	n := int(reply.Int())
	return n, reply.Err()
}

// Ready returns nil if the queue's server takes messages now, whether or not there is a queue, and
// what a write would return if it does not: it does not answer, is full, or is a replica. It
// changes nothing. For probes of readiness.
func (q *Queue) Ready(ctx context.Context) error {
	_, err := q.call(ctx, "ready")
	return err
}

// Stats shows up to 1,024 flows, with a call for each 40.
const (
	maxFlows  = 1024
	flowsPage = 40
)

// Stats returns what the queue holds, and changes nothing. Its cost grows with the flows and
// readers, up to 1,024 flows. Errors: [millrace.ErrNotFound], [millrace.ErrBroken],
// [millrace.ErrVersion].
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
	streams := readStreams(record["streams"])
	s.Streams, s.PerTenant = streams.count, streams.perTenant
	s.Paused = record["paused"] == "1"
	s.Counters = Counters{
		Written: number("written"), Delivered: number("delivered"), Acked: number("acked"),
		Nacked: number("nacked"), Returned: number("returned"), Reclaimed: number("reclaimed"), Expired: number("expired"),
		Cancelled: number("cancelled"), Buried: number("buried"), Redriven: number("redriven"),
		Purged: number("purged"), Dropped: number("dropped"), Lost: number("lost"),
	}
	s.readers(reply)
	s.Schedules, s.OverdueSchedules = int(reply.Int()), int(reply.Int())
	s.Abandoned = int(reply.Int())
	if since := reply.MilliTime(); !since.IsZero() {
		s.AbandonedAge = max(0, s.At.Sub(since))
	}
	var busy []string
	for list := reply.List(); list.More(); {
		busy = append(busy, list.Text())
	}
	if err := reply.Err(); err != nil {
		return s, err
	}
	for flows == flowsPage && len(s.Flows) < maxFlows {
		if _, flows, err = q.flows(ctx, &s); err != nil {
			return s, err
		}
	}
	if s.Streams == 0 {
		err = q.describe(ctx, &s, busy)
	}
	if err != nil {
		return s, err
	}
	slices.SortStableFunc(s.Flows, func(a, b FlowStats) int { return cmp.Compare(b.Waiting, a.Waiting) })
	return s, nil
}

// describe adds tenants, given by their flows, that are not there.
func (q *Queue) describe(ctx context.Context, s *Stats, flows []string) error {
	there, missing := map[string]bool{}, []string(nil)
	for _, f := range s.Flows {
		there[f.Tenant] = true
	}
	for _, name := range flows {
		tenant, _ := readFlow(name)
		if name == "" || there[tenant] { // the placeholder has no name
			continue
		}
		there[tenant] = true
		missing = append(missing, name)
	}
	for some := range slices.Chunk(missing, flowsPage) {
		reply, err := q.call(ctx, "stats", append([]string{"-1", "0"}, some...)...)
		if err != nil || reply.None() {
			return err
		}
		reply.MilliTime() // the server's clock
		for list := reply.List(); list.More(); {
			f := s.flow(list)
			if f.Waiting+f.InFlight > 0 { // else it has gone meanwhile
				s.Flows = append(s.Flows, f)
			}
		}
	}
	return nil
}

// flows adds the next flows to s. It returns the rest of the reply and how many flows there
// were. A flow whose turn came meanwhile may be there twice, or be missing.
func (q *Queue) flows(ctx context.Context, s *Stats) (reply *script.Reply, n int, err error) {
	reply, err = q.call(ctx, "stats", strconv.Itoa(len(s.Flows)), strconv.Itoa(min(flowsPage, maxFlows-len(s.Flows))))
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

// readerTimeout is after how long a reader that does not report is removed, here as in the
// script beat.
const readerTimeout = 15 * time.Second

// vanishedTimeout is for how long it is shown that a reader does not report. Another reader
// removes it before.
const vanishedTimeout = 2 * time.Minute

// readers reads the readers: each is its last report in milliseconds, handlers, busy, name,
// host.
func (s *Stats) readers(reply *script.Reply) {
	for id, text := range reply.Fields() {
		parts := strings.Split(text, "\x01")
		if id == "" || len(parts) != 5 {
			continue
		}
		r := ReaderStats{Name: parts[3], Host: parts[4], LastSeen: milliTime(parts[0])}
		r.Concurrency, _ = strconv.Atoi(parts[1]) // digits that the library wrote
		r.InFlight, _ = strconv.Atoi(parts[2])
		switch silent := s.At.Sub(r.LastSeen); {
		case silent <= readerTimeout:
			s.Capacity += r.Concurrency
			s.Readers = append(s.Readers, r)
		case silent <= vanishedTimeout:
			s.Vanished = append(s.Vanished, r)
		}
	}
	if len(s.Readers) > 0 {
		s.Vanished = nil
	}
	for _, list := range [][]ReaderStats{s.Readers, s.Vanished} {
		slices.SortFunc(list, func(a, b ReaderStats) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host), a.LastSeen.Compare(b.LastSeen))
		})
	}
}

// flow reads one flow.
func (s *Stats) flow(reply *script.Reply) FlowStats {
	f := FlowStats{Handling: -1}
	f.Tenant, f.Stream = readFlow(reply.Text())
	f.Waiting = int(reply.Int())
	head, since := reply.Text(), reply.MilliTime()
	f.Held = reply.Bool()
	state := strings.Fields(reply.Text())
	f.notBefore(reply.Text())
	f.Limits = readLimits(reply.Text())
	f.Paused = f.Paused || f.Limits.Paused
	if head != "" {
		if since.IsZero() {
			since = writtenAt(head)
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
