package fairqueue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/schedule"
)

// Headers of messages that a schedule writes.
const (
	HeaderSchedule = "millrace-schedule" // the schedule's name
	HeaderTick     = "millrace-tick"     // the instant of the tick in RFC 3339, UTC
)

// maxSchedules is how many schedules a queue has.
const maxSchedules = 1000

// Schedule writes a message into its queue at each tick. It lies in the queue, and no process
// owns it: see [Schedules.Set].
type Schedule struct {
	// Name is the schedule's name in its queue: 1 to 512 bytes without control characters.
	Name string

	// Spec says when it ticks.
	Spec schedule.Spec

	// Draft is the message. It has no Delay, DedupeID, Source and Batch; [HeaderSchedule] and
	// [HeaderTick] are added.
	Draft Draft

	// Jitter delays each tick by a part of Jitter that depends on its instant and the
	// schedule's name, so that schedules of one hour do not tick together. At most a day.
	// Defaults to 0.
	Jitter time.Duration

	// Missed decides about ticks that no process noticed for more than a minute.
	// Defaults to [schedule.Once].
	Missed schedule.Missed
}

// Schedules are the schedules of a queue.
type Schedules struct{ q *Queue }

// Schedules returns the schedules of the queue.
func (q *Queue) Schedules() Schedules { return Schedules{q} }

// ScheduleState is a schedule and where it is.
type ScheduleState struct {
	Schedule

	Paused      bool
	Next        time.Time // the next tick, without its jitter
	Last        time.Time // the last tick with a message; zero for none
	LastID      string    // of that message
	Ticks       int64     // messages
	MissedTicks int64     // ticks without one
	Trouble     string    // the code of the error because of which a tick that is due waits; empty for none
}

func (s Schedule) check() error {
	bad := millrace.ErrBadArgument
	if err := names.CheckText(bad, "name of a schedule", s.Name, maxLabel); err != nil {
		return err
	}
	switch {
	case s.Spec == (schedule.Spec{}):
		return bad.Errorf("schedule %q has no Spec", s.Name).WithHint("Make one with schedule.Every or cron.Parse.")
	case s.Draft.Delay != 0 || s.Draft.DedupeID != "" || s.Draft.Source != "" || s.Draft.Batch != "":
		return bad.Errorf("the draft of schedule %q has a delay, a dedupe id, a source or a batch", s.Name).
			WithHint("Leave them out: each tick makes one message.")
	case s.Jitter < 0 || s.Jitter > 24*time.Hour:
		return bad.Errorf("the jitter of schedule %q is from 0 to 24h, not %s", s.Name, s.Jitter)
	case !slices.Contains([]schedule.Missed{"", schedule.Once, schedule.Skip, schedule.All}, s.Missed):
		return bad.Errorf("invalid policy for missed ticks %q: once, skip or all", s.Missed)
	}
	if err := s.Draft.check(); err != nil {
		return err
	}
	_, err := s.message(time.Unix(0, 0)).encode(0) // not too large
	return err
}

// message is the draft of a tick.
func (s Schedule) message(tick time.Time) Draft {
	d := s.Draft
	d.Headers = map[string]string{HeaderSchedule: s.Name, HeaderTick: tick.UTC().Format(time.RFC3339)}
	for name, value := range s.Draft.Headers {
		if d.Headers[name] == "" {
			d.Headers[name] = value
		}
	}
	return d
}

// Set creates a schedule, or replaces the one of that name. The first tick is the first
// of the Spec from now on, by the server's clock. A schedule that is replaced keeps its next tick
// if it keeps its Spec, and stays paused if it was. A queue has at most 1,000 schedules.
//
// There is no leader: any process that reads the queue, or runs [Jobs], notices that a tick is due and
// writes its message. One script writes the message and sets the next tick, if the schedule is still
// as the process saw it. So each tick makes one message, whatever crashes, stalls or repeats. If no
// process is there for more than a minute, [Schedule].Missed decides.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrTooLarge], [millrace.ErrFull],
// [millrace.ErrBroken], [millrace.ErrVersion].
func (of Schedules) Set(ctx context.Context, s Schedule) error {
	if err := s.check(); err != nil {
		return err
	}
	text, err := json.Marshal(newDefinition(s))
	if err != nil {
		return err
	}
	return of.q.changeSchedule(ctx, s.Name, true, func(now time.Time, e *scheduleEntry) (string, error) {
		if e.state == "" {
			list, err := of.q.scheduleNames(ctx)
			if err != nil && !errors.Is(err, millrace.ErrNotFound) { // changeSchedule creates the queue
				return "", err
			}
			if len(list) >= maxSchedules {
				return "", millrace.ErrBadArgument.Errorf("the queue has %d schedules already", maxSchedules)
			}
			e.progress = progress{}
		}
		if e.state == "" || e.definition.Spec != s.Spec.String() {
			e.next = s.Spec.Next(now)
		}
		e.nonce = rand.Text()[:12]
		e.trouble = ""
		e.definition = newDefinition(s)
		return string(text), nil
	})
}

// Pause stops a schedule until [Schedules.Resume]. Errors: [millrace.ErrNotFound], and
// those of [Schedules.Set].
func (of Schedules) Pause(ctx context.Context, name string) error {
	return of.q.changeSchedule(ctx, name, false, func(_ time.Time, e *scheduleEntry) (string, error) {
		e.paused = true
		return "", e.mustExist()
	})
}

// Resume continues a schedule with the first tick from now on. Ticks during the pause are
// not missed. Errors: as of [Schedules.Pause].
func (of Schedules) Resume(ctx context.Context, name string) error {
	return of.q.changeSchedule(ctx, name, false, func(now time.Time, e *scheduleEntry) (string, error) {
		if err := e.mustExist(); err != nil || !e.paused {
			return "", err
		}
		s, err := e.schedule()
		if err != nil {
			return "", err
		}
		e.paused, e.next = false, s.Spec.Next(now)
		return "", nil
	})
}

// Remove removes a schedule. The messages that it wrote stay. Errors: as of
// [Schedules.Pause].
func (of Schedules) Remove(ctx context.Context, name string) error {
	return of.q.changeSchedule(ctx, name, false, func(_ time.Time, e *scheduleEntry) (string, error) {
		e.removed = true
		return "", e.mustExist()
	})
}

// Run writes a message of a schedule now, beside its ticks, and returns the message's id.
// Its [HeaderTick] is the server's time. Errors: as of [Schedules.Pause] and [Queue.Write].
func (of Schedules) Run(ctx context.Context, name string) (string, error) {
	now, entries, err := of.q.schedules(ctx, name)
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "", errNoSchedule(name)
	}
	s, err := entries[0].schedule()
	if err != nil {
		return "", err
	}
	return of.q.Write(ctx, s.message(now))
}

// Get returns a schedule. Errors: as of [Schedules.Pause].
func (of Schedules) Get(ctx context.Context, name string) (ScheduleState, error) {
	_, entries, err := of.q.schedules(ctx, name)
	if err != nil {
		return ScheduleState{}, err
	}
	if len(entries) == 0 {
		return ScheduleState{}, errNoSchedule(name)
	}
	return entries[0].show()
}

// All yields the schedules of the queue in the order of their names. A queue that does not
// exist has none. A schedule that this process cannot read, for example because it does not know the
// time zone, yields its name and an error, and the others follow.
func (of Schedules) All(ctx context.Context) iter.Seq2[ScheduleState, error] {
	return func(yield func(ScheduleState, error) bool) {
		list, err := of.q.scheduleNames(ctx)
		for page := range slices.Chunk(list, schedulesPage) {
			var entries []scheduleEntry
			if _, entries, err = of.q.schedules(ctx, page...); err != nil {
				break
			}
			for _, e := range entries {
				if !yield(e.show()) {
					return
				}
			}
		}
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			yield(ScheduleState{}, err)
		}
	}
}

// schedulesPage is how many schedules one call shows.
const schedulesPage = 20

func errNoSchedule(name string) error {
	return millrace.ErrNotFound.Errorf("there is no schedule %q", name).
		WithHint("List the schedules with: millrace schedule ls")
}

// definition is a schedule as it is stored.
type definition struct {
	Spec     string            `json:"spec"`
	Missed   string            `json:"missed,omitempty"`
	Jitter   int64             `json:"jitter_ms,omitempty"`
	Tenant   string            `json:"tenant"` // empty if it is no UTF-8
	Bytes    []byte            `json:"tenant_base64,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Body     []byte            `json:"body,omitempty"`
	Priority int               `json:"priority,omitempty"`
	Cost     int               `json:"cost,omitempty"`
	TTL      int64             `json:"ttl_ms,omitempty"`
}

func newDefinition(s Schedule) definition {
	d := s.Draft
	stored := definition{
		Spec: s.Spec.String(), Missed: string(cmp.Or(s.Missed, schedule.Once)), Jitter: s.Jitter.Milliseconds(),
		Tenant: d.Tenant, Headers: d.Headers, Body: d.Body, Priority: d.Priority, Cost: d.Cost, TTL: d.TTL.Milliseconds(),
	}
	if !utf8.ValidString(d.Tenant) {
		stored.Tenant, stored.Bytes = "", []byte(d.Tenant)
	}
	return stored
}

func (d definition) schedule(name string) (Schedule, error) {
	s := Schedule{Name: name, Jitter: time.Duration(d.Jitter) * time.Millisecond, Draft: Draft{
		Tenant: cmp.Or(d.Tenant, string(d.Bytes)), Headers: d.Headers, Body: d.Body, Priority: d.Priority, Cost: d.Cost, TTL: time.Duration(d.TTL) * time.Millisecond,
	}}
	s.Missed = schedule.Missed(cmp.Or(d.Missed, string(schedule.Once)))
	var err error
	s.Spec, err = schedule.ParseSpec(d.Spec)
	return s, err
}

// progress is the state of a schedule. Scripts compare its text: two texts are the same
// only if nothing happened between them.
type progress struct {
	nonce         string // of the last Set
	next          time.Time
	paused        bool
	last          time.Time
	lastID        string
	ticks, missed int64
	trouble       string
}

// none is the text of an absent value.
const none = "-"

func (p progress) String() string {
	text := func(s string) string {
		if s == "" {
			return none
		}
		return s
	}
	last := int64(0)
	if !p.last.IsZero() {
		last = p.last.UnixMilli()
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return strings.Join([]string{
		p.nonce, number(p.next.UnixMilli()), flag(p.paused), number(last), text(p.lastID), number(p.ticks), number(p.missed), text(p.trouble),
	}, " ")
}

// readProgress reads the text of String. Unreadable text gives zero values.
func readProgress(text string) (p progress) {
	f := strings.Fields(text)
	if len(f) != 8 {
		return p
	}
	word := func(s string) string { return strings.TrimSuffix(s, none) }
	number := func(s string) int64 {
		n, _ := strconv.ParseInt(s, 10, 64)
		return n
	}
	p = progress{
		nonce: f[0], next: time.UnixMilli(number(f[1])).UTC(), paused: f[2] == "1", lastID: word(f[4]),
		ticks: number(f[5]), missed: number(f[6]), trouble: word(f[7]),
	}
	if last := number(f[3]); last > 0 {
		p.last = time.UnixMilli(last).UTC()
	}
	return p
}

// scheduleEntry is a schedule as Redis has it.
type scheduleEntry struct {
	progress

	name       string
	state      string // the text of the progress; empty if there is no such schedule
	definition definition
	unreadable error // why the definition cannot be read
	removed    bool
}

// schedule returns the schedule, with an error only its name.
func (e *scheduleEntry) schedule() (Schedule, error) {
	if e.unreadable != nil {
		return Schedule{Name: e.name}, e.unreadable
	}
	return e.definition.schedule(e.name)
}

func (e *scheduleEntry) mustExist() error {
	if e.state == "" {
		return errNoSchedule(e.name)
	}
	return nil
}

// show returns the entry for users.
func (e scheduleEntry) show() (ScheduleState, error) {
	s, err := e.schedule()
	return ScheduleState{
		Schedule: s, Paused: e.paused, Next: e.next, Last: e.last, LastID: e.lastID, Ticks: e.ticks, MissedTicks: e.missed,
		Trouble: e.trouble,
	}, err
}

// due returns when the next tick is looked for, as scripts take it.
func (e *scheduleEntry) due() string {
	if e.paused {
		return "+inf"
	}
	return strconv.FormatInt(e.next.Add(jitter(e.name, e.next, time.Duration(e.definition.Jitter)*time.Millisecond)).UnixMilli(), 10)
}

// changeSchedule applies a change to a schedule, again if others changed it meanwhile. The change
// returns the definition to store, or "" to keep it. It may create the queue.
func (q *Queue) changeSchedule(ctx context.Context, name string, create bool, change func(now time.Time, e *scheduleEntry) (string, error)) error {
	for {
		now, entries, err := q.schedules(ctx, name)
		if errors.Is(err, millrace.ErrNotFound) && create {
			if err := q.create(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		e := scheduleEntry{name: name}
		if len(entries) > 0 {
			e = entries[0]
		}
		text, err := change(now, &e)
		if err != nil {
			return err
		}
		if done, err := q.reschedule(ctx, &e, e.due(), text); done || err != nil {
			return err
		}
	}
}

// reschedule stores the new state of an entry, if its state is still the one that was read.
func (q *Queue) reschedule(ctx context.Context, e *scheduleEntry, due, text string) (bool, error) {
	becomes := e.String()
	if e.removed {
		becomes = ""
	}
	reply, err := q.call(ctx, "reschedule", e.name, due, e.state, becomes, text)
	if err != nil {
		return false, err
	}
	n := reply.Int()
	return n == 1, reply.Err()
}

// create creates the queue if there is none.
func (q *Queue) create(ctx context.Context) error {
	_, err := q.shared.write(ctx, []writeRequest{{q: q}})
	return err
}

// scheduleNames returns the names of all schedules, sorted.
func (q *Queue) scheduleNames(ctx context.Context) ([]string, error) {
	reply, _, err := q.schedulesLook().start(ctx, [][]string{{"ZRANGE", ":ticks", "0", strconv.Itoa(maxSchedules)}}) // and the placeholder
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(reply.Texts(), func(name string) bool { return name == "" })
	slices.Sort(list)
	return list, reply.Err()
}

// schedulesLook is a look at schedules. The master answers, since changes are based on the reply.
func (q *Queue) schedulesLook() look { return look{q: q, name: "schedules", master: true} }

// dueSchedules returns the server's time and up to 20 schedules whose tick is due.
func (q *Queue) dueSchedules(ctx context.Context) (now time.Time, entries []scheduleEntry, err error) {
	reply, _, err := q.schedulesLook().start(ctx, [][]string{{"ZRANGE", ":ticks", "0", strconv.Itoa(schedulesPage - 1), "WITHSCORES"}})
	if err != nil {
		return now, nil, err
	}
	list := dueUntil(float64(reply.Clock/1000), reply.Scores())
	if reply.Err() != nil || len(list) == 0 {
		return now, nil, reply.Err()
	}
	return q.schedules(ctx, list...)
}

// dueUntil returns the names of those first ticks that are due until then.
func dueUntil(then float64, ticks []rueidis.ZScore) (list []string) {
	for _, tick := range ticks {
		if tick.Member != "" && tick.Score <= then {
			list = append(list, tick.Member)
		}
	}
	return list
}

// schedules returns the server's time and up to 20 schedules, of those that exist. A schedule is
// changed only in the state that one command reads here with its definition.
func (q *Queue) schedules(ctx context.Context, list ...string) (now time.Time, entries []scheduleEntry, err error) {
	commands := make([][]string, len(list))
	for i, name := range list {
		commands[i] = []string{"HMGET", ":schedules", "s" + name, "d" + name}
	}
	reply, _, err := q.schedulesLook().start(ctx, commands)
	if err != nil {
		return now, nil, err
	}
	for _, name := range list {
		texts := reply.Texts()
		if reply.Err() != nil {
			return now, nil, reply.Err()
		}
		if texts[0] == "" || texts[1] == "" {
			continue
		}
		e := scheduleEntry{name: name, state: texts[0], progress: readProgress(texts[0])}
		if err := json.Unmarshal([]byte(texts[1]), &e.definition); err != nil {
			e.unreadable = millrace.ErrBroken.Errorf("the definition of schedule %q cannot be read", name).Wrap(err)
		}
		entries = append(entries, e)
	}
	return time.UnixMilli(reply.Clock / 1000), entries, nil
}
