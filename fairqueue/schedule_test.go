package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
	"github.com/millrace/millrace/schedule"
)

// hourly is a schedule that ticks in an hour at most.
func hourly(t *testing.T, name string) Schedule {
	t.Helper()
	return Schedule{Name: name, Spec: every(t, time.Hour), Draft: Draft{Tenant: "ops", Body: []byte(name), Headers: map[string]string{"k": "v"}}}
}

func setSchedule(t *testing.T, q *Queue, s Schedule) {
	t.Helper()
	if err := q.Schedules().Set(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func scheduleOf(t *testing.T, q *Queue, name string) ScheduleState {
	t.Helper()
	s, err := q.Schedules().Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rewind sets the next tick of a schedule to an earlier one, as if no process had noticed it.
func rewind(t *testing.T, q *Queue, name string, to time.Time) {
	t.Helper()
	_, entries, err := q.schedules(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	entries[0].next = to
	done, err := q.reschedule(t.Context(), &entries[0], entries[0].due(), "")
	want(t, "rewind", done, true, err)
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	s := hourly(t, "report")
	if _, err := q.Schedules().Get(t.Context(), "report"); !errors.Is(err, millrace.ErrNotFound) {
		t.Fatalf("a queue that does not exist: %v", err)
	}
	for _, err := range q.Schedules().All(t.Context()) {
		t.Fatalf("a queue that does not exist: %v", err)
	}
	setSchedule(t, q, s) // creates the queue
	now := stats(t, q).At
	state := scheduleOf(t, q, "report")
	if state.Next.Before(now) || state.Next.Sub(now) > time.Hour || state.Next.Minute() != 0 {
		t.Errorf("the next tick of an hourly schedule is %s, now is %s", state.Next, now)
	}
	s.Missed = schedule.Once // the default, in words
	if diff := cmp.Diff(s, state.Schedule, cmp.Comparer(func(a, b schedule.Spec) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if got := read(t, q, 10); len(got) > 0 {
		t.Fatalf("there is a message before the tick: %+v", got)
	}

	tick := state.Next.Add(-time.Hour)
	rewind(t, q, "report", tick)
	got, err := q.Read(t.Context(), ReadConfig{Max: 10, Block: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || string(got[0].Body) != "report" || got[0].Tenant != "ops" {
		t.Fatalf("at the tick: %+v", got)
	}
	want(t, "headers", got[0].Headers, map[string]string{"k": "v", HeaderSchedule: "report", HeaderTick: tick.Format(time.RFC3339)}, nil)
	after := scheduleOf(t, q, "report")
	want(t, "last, its id, messages, next", []any{after.Last, after.LastID, after.Ticks, after.Next}, []any{tick, got[0].ID, int64(1), state.Next}, nil)

	// The same Spec keeps the next tick, another one does not.
	s.Draft.Body = []byte("other")
	setSchedule(t, q, s)
	want(t, "the same Spec", scheduleOf(t, q, "report").Next, state.Next, nil)
	s.Spec = every(t, 10*time.Second)
	setSchedule(t, q, s)
	if next := scheduleOf(t, q, "report").Next; next.Sub(now) > time.Minute {
		t.Errorf("the new Spec ticks at %s, now is %s", next, now)
	}

	id, err := q.Schedules().Run(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, q, 10); len(got) == 0 || got[0].ID != id || string(got[0].Body) != "other" {
		t.Errorf("a run gives %+v, not %s", got, id)
	}
	want(t, "removed", nil, nil, q.Schedules().Remove(t.Context(), "report"))
	for name, call := range map[string]func() error{
		"remove": func() error { return q.Schedules().Remove(t.Context(), "report") },
		"pause":  func() error { return q.Schedules().Pause(t.Context(), "report") },
		"resume": func() error { return q.Schedules().Resume(t.Context(), "report") },
		"run":    func() error { _, err := q.Schedules().Run(t.Context(), "report"); return err },
		"show":   func() error { _, err := q.Schedules().Get(t.Context(), "report"); return err },
	} {
		if err := call(); !errors.Is(err, millrace.ErrNotFound) {
			t.Errorf("%s what is removed: %v", name, err)
		}
	}
}

// TestPauseSchedule: a paused schedule has no ticks, and none are made up for when it goes on.
func TestPauseSchedule(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	s := hourly(t, "x")
	s.Missed = schedule.All
	setSchedule(t, q, s)
	want(t, "pause", nil, nil, q.Schedules().Pause(t.Context(), "x"))
	next := scheduleOf(t, q, "x").Next
	rewind(t, q, "x", next.Add(-5*time.Hour))
	setSchedule(t, q, s) // stays paused
	if got := read(t, q, 10); len(got) > 0 || !scheduleOf(t, q, "x").Paused {
		t.Fatalf("a paused schedule ticks: %+v", got)
	}
	want(t, "resume", nil, nil, q.Schedules().Resume(t.Context(), "x"))
	if got := read(t, q, 10); len(got) > 0 {
		t.Errorf("a pause counts as missed: %+v", got)
	}
	state := scheduleOf(t, q, "x")
	if state.Paused || !state.Next.After(stats(t, q).At) {
		t.Errorf("after the pause: %+v", state)
	}
	want(t, "resume again", nil, nil, q.Schedules().Resume(t.Context(), "x"))
	want(t, "resume again keeps", scheduleOf(t, q, "x").Next, state.Next, nil)
}

// TestMissedTicks runs more ticks than one step may.
func TestMissedTicks(t *testing.T) {
	t.Parallel()
	for missed, messages := range map[schedule.Missed]int{schedule.Once: 1, schedule.Skip: 0, schedule.All: 100} {
		q := open(t, Config{})
		s := hourly(t, "x")
		s.Missed = missed
		setSchedule(t, q, s)
		next := scheduleOf(t, q, "x").Next
		rewind(t, q, "x", next.Add(-100*time.Hour))
		var ticks []string
		for got := read(t, q, 100); len(got) > 0; got = read(t, q, 100) {
			for _, m := range got {
				ticks = append(ticks, m.Headers[HeaderTick])
			}
			ack(t, q, got...)
		}
		state := scheduleOf(t, q, "x")
		// The last tick is missed, but in the first minute of an hour.
		if len(ticks) != messages && (missed == schedule.All || len(ticks) != messages+1) {
			t.Errorf("%s: messages for %v", missed, ticks)
		}
		want(t, "ticks", []int64{state.Ticks, state.MissedTicks}, []int64{int64(len(ticks)), int64(100 - len(ticks))}, nil)
		want(t, "next", state.Next, next, nil)
	}
}

func TestBadSchedules(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for name, change := range map[string]func(*Schedule){
		"no name":     func(s *Schedule) { s.Name = "" },
		"a bad name":  func(s *Schedule) { s.Name = "a\x01b" },
		"no spec":     func(s *Schedule) { s.Spec = schedule.Spec{} },
		"no tenant":   func(s *Schedule) { s.Draft.Tenant = "" },
		"a delay":     func(s *Schedule) { s.Draft.Delay = time.Second },
		"a dedupe id": func(s *Schedule) { s.Draft.DedupeID = "x" },
		"a source":    func(s *Schedule) { s.Draft.Source, s.Draft.Position = "x", 1 },
		"jitter":      func(s *Schedule) { s.Jitter = -1 },
		"a policy":    func(s *Schedule) { s.Missed = "never" },
	} {
		s := hourly(t, "x")
		change(&s)
		if err := q.Schedules().Set(t.Context(), s); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := hourly(t, "x")
	s.Draft.Body = make([]byte, maxMessage)
	wantError(t, q.Schedules().Set(t.Context(), s), millrace.ErrTooLarge)
	if _, err := q.Stats(t.Context()); !errors.Is(err, millrace.ErrNotFound) {
		t.Errorf("a bad schedule created the queue: %v", err)
	}
}

// TestManySchedules are listed in order, all of them, and are bounded.
func TestManySchedules(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for i := range 45 {
		s := hourly(t, fmt.Sprintf("s%02d", 44-i))
		s.Draft.Body = make([]byte, 100<<10) // ten of them are a mebibyte
		setSchedule(t, q, s)
	}
	i := 0
	for s, err := range q.Schedules().All(t.Context()) {
		want(t, "name", s.Name, fmt.Sprintf("s%02d", i), err)
		i++
	}
	want(t, "schedules", i, 45, nil)
	var fill redistest.Pipeline
	for i := range maxSchedules {
		fill.Add("ZADD", baseKey(q.name)+":ticks", "+inf", fmt.Sprint("more", i))
	}
	fill.Send(t, redistest.Shared(t))
	wantError(t, q.Schedules().Set(t.Context(), hourly(t, "one more")), millrace.ErrBadArgument)
	setSchedule(t, q, hourly(t, "s00")) // one that exists
}

// TestScheduleOnAFullServer: the tick waits, and its message comes when there is room.
func TestScheduleOnAFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	q := openOn(t, client, "x", Config{})
	setSchedule(t, q, hourly(t, "x"))
	tick := scheduleOf(t, q, "x").Next.Add(-time.Hour)
	rewind(t, q, "x", tick)
	if err := do(t, client, "CONFIG", "SET", "maxmemory", "1").Error(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, q, 1); len(got) > 0 {
		t.Fatalf("a full server took %+v", got)
	}
	want(t, "trouble", scheduleOf(t, q, "x").Trouble, millrace.ErrFull.Code, nil)
	if err := do(t, client, "CONFIG", "SET", "maxmemory", "0").Error(); err != nil {
		t.Fatal(err)
	}
	m, err := q.Read(t.Context(), ReadConfig{Block: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "tick", m[0].Headers[HeaderTick], tick.Format(time.RFC3339), nil)
	want(t, "trouble is over", scheduleOf(t, q, "x").Trouble, "", nil)
}

// TestUpkeepKeepsSchedules of a queue without readers, and does not remove it for being idle.
func TestUpkeepKeepsSchedules(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{IdleExpiry: time.Millisecond})
	write(t, q, "a:1") // registers the queue
	ack(t, q, read(t, q, 1)...)
	setSchedule(t, q, hourly(t, "x"))
	job := Jobs(q.client)[0]
	redistest.Eventually(t, "upkeep writes the tick", func() bool {
		if s := scheduleOf(t, q, "x"); s.Ticks == 0 && s.Next.After(stats(t, q).At) {
			rewind(t, q, "x", s.Next.Add(-time.Hour))
		}
		if _, err := job.Slice(t.Context()); err != nil {
			t.Fatal(err)
		}
		return stats(t, q).Waiting == 1
	})
}

// TestSleepersWakeForATick: a reader that sleeps has the message when it is due, not when it would
// have looked.
func TestSleepersWakeForATick(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	s := hourly(t, "x")
	s.Spec = every(t, time.Second)
	setSchedule(t, q, s)
	for range 2 {
		m, err := q.Read(t.Context(), ReadConfig{Block: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if m[0].Headers[HeaderSchedule] != "x" {
			t.Fatalf("headers %v", m[0].Headers)
		}
	}
}

// tickHistories are how a tick could be written twice or not at all.
var tickHistories = map[string]func(t *testing.T, q *Queue, entry scheduleEntry, now time.Time) error{
	"a process stalls and writes the tick of long ago": func(t *testing.T, q *Queue, entry scheduleEntry, now time.Time) error {
		if err := q.keepSchedules(t.Context()); err != nil {
			return err
		}
		return q.keepSchedule(t.Context(), now, entry)
	},
	"two processes notice the same tick": func(t *testing.T, q *Queue, entry scheduleEntry, now time.Time) error {
		return errors.Join(q.keepSchedule(t.Context(), now, entry), q.keepSchedule(t.Context(), now, entry))
	},
	"the schedule is removed and set again meanwhile": func(t *testing.T, q *Queue, entry scheduleEntry, now time.Time) error {
		s := hourly(t, "x")
		if err := q.Schedules().Remove(t.Context(), "x"); err != nil {
			return err
		}
		setSchedule(t, q, s)
		rewind(t, q, "x", entry.next)
		return errors.Join(q.keepSchedules(t.Context()), q.keepSchedule(t.Context(), now, entry))
	},
}

// playTicks returns an error unless the history leaves exactly one message.
func playTicks(t *testing.T, history func(*testing.T, *Queue, scheduleEntry, time.Time) error, lib *script.Library) error {
	q := open(t, Config{})
	q.run = &script.Runner{Client: q.client, Scripts: lib}
	q.shared.run.Scripts = lib
	setSchedule(t, q, hourly(t, "x"))
	rewind(t, q, "x", scheduleOf(t, q, "x").Next.Add(-time.Hour))
	now, entries, err := q.schedules(t.Context(), "x")
	if err != nil {
		return err
	}
	if err := history(t, q, entries[0], now); err != nil {
		return err
	}
	if n := stats(t, q).Waiting; n != 1 {
		return fmt.Errorf("the tick has %d messages", n)
	}
	return nil
}

// TestEachTickOnce: a process that stalls, a second one and a schedule that is set again write no second message
// of a tick; without the protection they do.
func TestEachTickOnce(t *testing.T) {
	t.Parallel()
	for name, history := range tickHistories {
		if err := playTicks(t, history, library); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// Without the comparison of the state, the history has two messages.
		without := scripttest.Without(t, library, "state[1] == was and state[2]", "state[2]")
		without = scripttest.Without(t, without, "and tonumber(state[2]) <= now)", ")")
		if err := playTicks(t, history, without); err == nil {
			t.Errorf("%s: it holds without the protection", name)
		}
	}
}

// TestRepliesOfTicksAreLost: the repeat of a write whose reply was lost writes nothing.
func TestRepliesOfTicksAreLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	q := openOn(t, proxy.Client(t), "x", Config{})
	s := hourly(t, "x")
	s.Missed = schedule.All
	setSchedule(t, q, s)
	rewind(t, q, "x", scheduleOf(t, q, "x").Next.Add(-50*time.Hour))
	calls := 0
	proxy.DropReplyWhen(func(cmd []string) bool {
		if redistest.Script(cmd) {
			calls++
		}
		return redistest.Script(cmd) && calls%3 == 0
	})
	seen := map[string]bool{}
	for len(seen) < 50 {
		got, err := q.Read(t.Context(), ReadConfig{Max: 100, Block: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got {
			if seen[m.Headers[HeaderTick]] {
				t.Fatalf("two messages for %s", m.Headers[HeaderTick])
			}
			seen[m.Headers[HeaderTick]] = true
		}
	}
	proxy.Heal()
	want(t, "ticks", scheduleOf(t, q, "x").Ticks, int64(50), nil)
	want(t, "messages written", stats(t, q).Counters.Written, int64(50), nil)
}

// TestUnknownZone: a process without the time zone leaves the schedule to others.
func TestUnknownZone(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	setSchedule(t, q, hourly(t, "x"))
	setSchedule(t, q, hourly(t, "y"))
	_, entries, err := q.schedules(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	text := `{"spec":"at 0 3 * * * Mars/Olympus","tenant":"ops"}`
	if _, err := q.reschedule(t.Context(), &entries[0], "1", text); err != nil {
		t.Fatal(err)
	}
	rewind(t, q, "y", entries[0].next.Add(-time.Hour))
	if got := read(t, q, 10); len(got) != 1 || string(got[0].Body) != "y" {
		t.Errorf("the other schedule: %+v", got)
	}
	errs := 0
	for s, err := range q.Schedules().All(t.Context()) {
		if err != nil {
			errs++
			want(t, "name", s.Name, "x", nil)
			if !strings.Contains(err.Error(), "Mars") {
				t.Errorf("error %v", err)
			}
		}
	}
	want(t, "schedules that cannot be read", errs, 1, nil)
}

// TestNoClockOfAClient: decisions about ticks ask no clock, so that the clocks of processes
// may step. Now is the server's, from a reply.
func TestNoClockOfAClient(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"schedule.go", "ticks.go", "../schedule/spec.go", "../schedule/calendar.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, clock := range []string{"time.Now", "time.Since", "time.Until", "time.After"} {
			if strings.Contains(string(source), clock) {
				t.Errorf("%s uses %s", file, clock)
			}
		}
	}
}

// TestScheduleCallsCanBeCancelled keeps a hung server from hanging callers.
func TestScheduleCallsCanBeCancelled(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Schedules().Set(ctx, hourly(t, "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

// TestARepeatChangesNoScheduleTwice: a change of a schedule whose reply was lost is not made again, and says that it was made.
func TestARepeatChangesNoScheduleTwice(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	q := openOn(t, proxy.Client(t), redistest.Name(t), Config{})
	setSchedule(t, q, hourly(t, "x"))
	proxy.DropReply(evalsha)
	want(t, "remove", nil, nil, q.Schedules().Remove(t.Context(), "x"))
	if proxy.Dropped() != 1 {
		t.Fatalf("%d replies were lost, want 1", proxy.Dropped())
	}
}

// TestTenantOfAScheduleIsAnyBytes as that of a message is.
func TestTenantOfAScheduleIsAnyBytes(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	s := hourly(t, "x")
	s.Draft.Tenant = "caf\xe9"
	setSchedule(t, q, s)
	want(t, "tenant", scheduleOf(t, q, "x").Draft.Tenant, "caf\xe9", nil)
}

// TestAnUnreadableScheduleStopsNoOther: neither other schedules nor readers.
func TestAnUnreadableScheduleStopsNoOther(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, name := range []string{"a", "b"} {
		setSchedule(t, q, hourly(t, name))
		rewind(t, q, name, scheduleOf(t, q, name).Next.Add(-time.Hour))
	}
	want(t, "damage", nil, nil, do(t, q.run.Client, "HSET", baseKey(q.name)+":schedules", "da", "{").Error())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := ""
	err := q.Consume(ctx, ConsumeConfig{}, func(_ context.Context, m Message) error {
		got = string(m.Body)
		cancel()
		return nil
	})
	wantError(t, err, context.Canceled)
	want(t, "message", got, "b", nil)
	var names, failed []string
	for s, err := range q.Schedules().All(t.Context()) {
		names = append(names, s.Name)
		if err != nil {
			failed = append(failed, s.Name)
		}
	}
	want(t, "schedules, and those that cannot be read", [][]string{names, failed}, [][]string{{"a", "b"}, {"a"}}, nil)
}
