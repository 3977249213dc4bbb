package fairqueue

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// Stats is the state of a queue at one moment. Package queuestats has its fields, as plain data for programs that show,
// judge or export them.
type Stats = queuestats.Stats

// Len returns how many messages a new reader could work on, for autoscalers: those that wait,
// are due, or were not settled in time. It is 0 for a queue that does not exist. A message that
// moves meanwhile may be left out.
func (q *Queue) Len(ctx context.Context) (int, error) {
	l := look{q: q, name: "len"}
	reply, before, err := l.start(ctx, nil)
	var c counts
	if err == nil {
		now := strconv.FormatInt(reply.Clock/1000, 10)
		if reply, err = l.pipe(ctx, append(counting("("+now), []string{"ZCOUNT", ":flight", "-inf", now})); err == nil {
			c, err = readCounts(reply, before)
		}
	}
	if err != nil {
		return 0, ignore(err, millrace.ErrNotFound)
	}
	unsettled := int(reply.Int())
	return c.waiting + unsettled, reply.Err()
}

// counts are the numbers of messages by place.
type counts struct {
	record

	waiting, delayed, dead int
}

// counting returns the commands that count messages; of delayed messages, those from that score on.
func counting(delayed string) [][]string {
	return [][]string{{"ZCOUNT", ":delayed", delayed, "(inf"}, {"ZCOUNT", ":dead", "-inf", "(inf"}, {"HMGET", ":hot", "w", "t"}}
}

// readCounts reads the reply to those commands. The record was read before, too: one message that moves
// meanwhile is not counted as waiting if it never was.
func readCounts(reply *script.Reply, before record) (c counts, err error) {
	c.delayed, c.dead = int(reply.Int()), int(reply.Int())
	fields := reply.Texts()
	if err := reply.Err(); err != nil {
		return c, err
	}
	if fields[0] == "" {
		return c, errNotFound // it was deleted meanwhile
	}
	c.record, err = readRecord(fields)
	c.waiting = max(0, min(before.settled(), c.settled())-c.delayed-c.dead)
	return c, err
}

// Ready returns nil if the queue's server takes messages now, whether or not there is a queue.
// Otherwise the server does not answer, is full, or is a replica, and Ready returns the error of
// a write. It changes nothing. For probes of readiness.
func (q *Queue) Ready(ctx context.Context) error {
	_, err := q.call(ctx, "ready")
	return err
}

const (
	maxFlows   = 1024 // that Stats shows
	flowsPage  = 64   // that it reads in one step
	lastFew    = 100  // deliveries whose tenants it shows besides
	maxOverdue = 100  // schedules that are due that it looks at
)

// Stats returns the contents of the queue, and changes nothing. Its cost grows with the flows and
// readers, up to 1,024 flows. It reads one thing after the other, so it may leave out messages that
// move meanwhile. Errors: [millrace.ErrNotFound], [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	l := look{q: q, name: "stats"}
	commands := append(counting("-inf"), [][]string{
		{"HGETALL", ""}, {"HGET", ":hot", failingField}, {"HGETALL", ":readers"}, {"ZCARD", ":ticks"}, {"ZRANGE", ":ticks", "0", strconv.Itoa(maxOverdue - 1), "WITHSCORES"},
		{"HGET", ":limits", defaultField}, {"LRANGE", ":young", strconv.Itoa(-lastFew), "-1"},
	}...)
	sets := []string{":blocked", ":asleep", ":active"}
	for _, set := range sets {
		commands = append(commands, []string{"ZCARD", set}, []string{"ZRANGE", set, "0", strconv.Itoa(maxFlows)}) // and a placeholder
	}
	reply, before, err := l.start(ctx, commands)
	if err != nil {
		return Stats{}, err
	}
	c, err := readCounts(reply, before)
	if err != nil {
		return Stats{}, err
	}
	s := snapshot{Stats{Name: q.name, At: time.UnixMilli(reply.Clock / 1000), Waiting: c.waiting, InFlight: max(0, int(c.flying)), Delayed: c.delayed, Dead: c.dead}}
	s.settings(reply.Fields())
	s.Failing = failingAt(s.At, reply.Text())
	s.Counters.Written, s.Counters.Delivered, s.Counters.Acked = int64(c.written), int64(c.delivered), int64(c.acked)
	s.Counters.Cost += s.Counters.Delivered
	s.readers(reply.Fields())
	s.Schedules = max(0, int(reply.Int())-1)
	ticks, general, young := reply.Scores(), reply.Text(), reply.Texts()
	var flows []string
	held := map[string]bool{}
	for i := range sets {
		s.FlowCount += int(reply.Int())
		for _, flow := range reply.Texts() {
			if _, there := held[flow]; isFlow(flow) && !there && len(flows) < maxFlows {
				held[flow] = i == 0
				flows = append(flows, flow)
			}
		}
	}
	s.FlowCount = max(0, s.FlowCount-4) // the placeholders
	if err := reply.Err(); err != nil {
		return s.Stats, err
	}
	s.Refused = s.refused(ctx, q)
	if err := s.countOverdue(ctx, q, ticks); err != nil {
		return s.Stats, err
	}
	owners, err := s.deliveries(ctx, l, young)
	if err != nil {
		return s.Stats, err
	}
	for _, owner := range owners {
		if _, there := held[owner]; s.Streams == 0 && !there {
			held[owner] = false
			flows = append(flows, owner)
		}
	}
	for page := range slices.Chunk(flows, flowsPage) {
		if err := s.describe(ctx, l, page, readOwnLimits(general), held); err != nil {
			return s.Stats, err
		}
	}
	slices.SortStableFunc(s.Flows, func(a, b queuestats.Flow) int { return cmp.Compare(b.Waiting, a.Waiting) })
	return s.Stats, nil
}

// snapshot is Stats while they are read.
type snapshot struct{ Stats }

// settings sets the fields that come from settings and counters of rare events.
func (s *snapshot) settings(fields map[string]string) {
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(fields[field], 10, 64) // absent is 0
		return n
	}
	streams := readStreams(fields["streams"])
	s.Streams, s.PerTenant = streams.count, streams.perTenant
	s.Paused = fields["paused"] == "1"
	s.DeadMost, s.DeadAge = DefaultDeadMost, DefaultDeadAge
	if fields["dead_most"] != "" {
		s.DeadMost = int(number("dead_most"))
	}
	if fields["dead_age"] != "" {
		s.DeadAge = time.Duration(number("dead_age")) * time.Millisecond
	}
	s.Counters = queuestats.Counters{
		Cost:   number("extra"), // beyond one of each delivery
		Nacked: number("nacked"), Returned: number("returned"), Reclaimed: number("reclaimed"), Expired: number("expired"),
		Cancelled: number("cancelled"), Buried: number("buried"), Redriven: number("redriven"),
		Purged: number("purged"), Dropped: number("dropped"), Lost: number("lost"),
	}
}

// countOverdue counts the schedules that are late by more than a minute and their jitter. A tick that was refused is tried again some seconds later, and
// keeps its instant.
func (s *snapshot) countOverdue(ctx context.Context, q *Queue, ticks []rueidis.ZScore) error {
	for page := range slices.Chunk(dueUntil(float64(s.At.Add(2*refusedPause).UnixMilli()), ticks), schedulesPage) {
		_, entries, err := q.schedules(ctx, page...)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.paused && s.At.Sub(e.next) > missedAfter+time.Duration(e.definition.Jitter)*time.Millisecond {
				s.OverdueSchedules++
			}
		}
	}
	return nil
}

// deliveries counts those that are abandoned, and returns the tenants of young ones as flows.
func (s *snapshot) deliveries(ctx context.Context, l look, young []string) (owners []string, err error) {
	reply, err := l.pipe(ctx, [][]string{
		{"ZCOUNT", ":flight", "-inf", strconv.FormatInt(s.At.UnixMilli(), 10)}, {"ZRANGE", ":flight", "0", "0", "WITHSCORES"},
		append([]string{"HMGET", ":hot", ""}, young...),
	})
	if err != nil {
		return nil, err
	}
	s.Abandoned = int(reply.Int())
	if first := reply.Scores(); s.Abandoned > 0 && len(first) > 0 && first[0].Member != "" {
		s.AbandonedAge = max(0, s.At.Sub(time.UnixMilli(int64(first[0].Score))))
	}
	for _, value := range reply.Texts() {
		if d, ok := readDelivery(value); ok { // else it is settled
			owners = append(owners, d.owner)
		}
	}
	return owners, reply.Err()
}

// describe adds flows, without those that were emptied meanwhile.
func (s *snapshot) describe(ctx context.Context, l look, flows []string, general OwnLimits, held map[string]bool) error {
	fields := slices.Clone(flows)
	for _, flow := range flows {
		fields = append(fields, ownerPrefix+flow)
	}
	reply, err := l.pipe(ctx, [][]string{append([]string{"HMGET", ":hot"}, fields...), append([]string{"HMGET", ":limits"}, flows...)})
	if err != nil {
		return err
	}
	hot, limits := reply.Texts(), reply.Texts()
	if err := reply.Err(); err != nil {
		return err
	}
	all, heads := make([]queuestats.Flow, len(flows)), make([]string, len(flows))
	var commands [][]string
	for i, flow := range flows {
		f := &all[i]
		f.Tenant, f.Stream = readFlow(flow)
		f.Held = held[flow]
		handlers(f, hot[len(flows)+i])
		if f.Stream < 0 {
			f.Limits = readOwnLimits(limits[i]).over(general)
		}
		f.Paused = f.Limits.Paused
		if hot[i] != "" {
			entries, _, err := readEntries(hot[i])
			if err != nil {
				return err
			}
			f.Waiting, heads[i] = len(entries), entries[0].id()
		}
		// Entries behind those; since when the head waits, if not since its write; until when the flow sleeps.
		commands = append(commands, []string{"ZLEXCOUNT", ":backlog", "[" + flow + "\x01", "(" + flow + "\x02"},
			[]string{"HGET", ":hot", pastPrefix + heads[i]}, []string{"ZSCORE", ":asleep", flow})
	}
	if reply, err = l.pipe(ctx, commands); err != nil {
		return err
	}
	for i, f := range all {
		f.Waiting += int(reply.Int())
		if since, past := readPast(reply.Text()); past {
			f.OldestAge = max(0, s.At.Sub(since))
		} else if heads[i] != "" {
			f.OldestAge = max(0, s.At.Sub(writtenAt(heads[i])))
		}
		score := reply.Text()
		f.NotBefore, f.ByRate = wakeTime(score)
		f.Paused = f.Paused || f.NotBefore.Equal(farFuture)
		if f.Waiting+f.InFlight > 0 || score != "" {
			s.OldestAge = max(s.OldestAge, f.OldestAge)
			s.Flows = append(s.Flows, f)
		}
	}
	return reply.Err()
}

// readerTimeout is after how long a reader that does not report is removed, here as in the
// script beat.
const readerTimeout = 15 * time.Second

// missedTimeout is for how long a reader is missed that does not report and that no other one has replaced, here as in the
// script beat.
const missedTimeout = 24 * time.Hour

// lostTimeout is how long a lost reader may take to report again before it is shown, where others live: after a jump of the
// clock, or when the server was away, they all do.
const lostTimeout = 2 * beatInterval

// readers reads the readers: each is its last report in milliseconds, handlers, busy, name, host; then how many handlers had been
// brought, and for a lost one since when it is.
func (s *snapshot) readers(fields map[string]string) {
	capacity := 0.0
	var since []time.Time
	for id, text := range fields {
		parts := strings.Split(text, "\x01")
		if id == "" || len(parts) < 5 {
			continue
		}
		r := queuestats.Reader{Name: parts[3], Host: parts[4], LastSeen: milliTime(parts[0])}
		handlers, _ := strconv.ParseFloat(parts[1], 64) // that the library wrote
		r.Concurrency = int(math.Ceil(handlers))
		r.InFlight, _ = strconv.Atoi(parts[2])
		isLost := len(parts) > 6
		switch silent := s.At.Sub(r.LastSeen); { // a clock that was ahead counts for nothing
		case silent.Abs() <= readerTimeout && !isLost:
			capacity += handlers
			s.Readers = append(s.Readers, r)
		case silent > 0 && silent <= missedTimeout:
			lost := s.At
			if isLost {
				lost = milliTime(parts[6])
			}
			s.Vanished, since = append(s.Vanished, r), append(since, lost)
		}
	}
	if len(s.Readers) > 0 {
		s.Capacity = max(1, int(math.Round(capacity)))
		missed := s.Vanished[:0]
		for i, r := range s.Vanished {
			if s.At.Sub(since[i]) >= lostTimeout {
				missed = append(missed, r)
			}
		}
		s.Vanished = missed
	}
	for _, list := range [][]queuestats.Reader{s.Readers, s.Vanished} {
		slices.SortFunc(list, func(a, b queuestats.Reader) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host), a.LastSeen.Compare(b.LastSeen))
		})
	}
}

// refused asks why no reader reports, if there are some: the server may take no writes, as when it cannot save to its disk.
func (s *snapshot) refused(ctx context.Context, q *Queue) string {
	reports := func(r queuestats.Reader) bool { return s.At.Sub(r.LastSeen) <= beatInterval*3/2 }
	if len(s.Readers)+len(s.Vanished) == 0 || slices.ContainsFunc(s.Readers, reports) {
		return ""
	}
	key := baseKey(q.name) + ":none" // as script ready does
	_, err := script.Prompt(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, q.run.Client.Do(ctx, q.run.Client.B().Zadd().Key(key).Xx().ScoreMember().ScoreMember(0, "").Build()).Error()
	})
	if _, answered := rueidis.IsRedisErr(err); answered && retry.Transient(err) {
		return err.Error()
	}
	return ""
}

// handlers sets the fields of a flow that come from the flow's field as an owner.
func handlers(f *queuestats.Flow, field string) {
	f.Handling = -1
	if field == "" {
		return
	}
	o := readOwner(field)
	f.InFlight = max(0, int(o.n+o.others))
	if o.mean >= 0 {
		f.Handling = time.Duration(o.mean) * time.Millisecond
	}
}
