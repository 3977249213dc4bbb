package fairqueue

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// stepwise is a client whose pipelines go out command by command, with something else in front of each.
type stepwise struct {
	rueidis.Client
	between func(cmd []string)
}

func (c *stepwise) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(multi))
	for i, cmd := range multi {
		c.between(cmd.Commands())
		results[i] = c.Do(ctx, cmd)
	}
	return results
}

// mover moves messages of a queue, and remembers in which states each one was during a call.
type mover struct {
	t      *testing.T
	q      *Queue
	random *rand.Rand
	moves  int // that are left for the call
	state  map[string]State
	tenant map[string]string
	was    map[string]map[State]bool // since begin
	taken  map[string]Message        // in flight
}

func (m *mover) begin() {
	m.was = map[string]map[State]bool{}
	for id, s := range m.state {
		m.was[id] = map[State]bool{s: true}
	}
}

func (m *mover) set(id string, s State) {
	m.state[id] = s
	if m.was[id] == nil {
		m.was[id] = map[State]bool{}
	}
	m.was[id][s] = true
}

// some returns a message in the state, "" if there is none.
func (m *mover) some(s State) string {
	var ids []string
	for id, is := range m.state {
		if is == s {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	slices.Sort(ids)
	return ids[m.random.IntN(len(ids))]
}

// move does one thing to the queue.
func (m *mover) move() {
	ctx := context.Background() // that of the call has nothing to do with it
	check := func(n int, err error) {
		if n != 1 || err != nil {
			m.t.Errorf("a move of %d messages: %v", n, err)
		}
	}
	switch m.random.IntN(9) {
	case 0, 1:
		d := Draft{Tenant: []string{"a", "a", "a", "b", "c"}[m.random.IntN(5)], Body: []byte("x"), Priority: m.random.IntN(3) - 1}
		s := Waiting
		if m.random.IntN(4) == 0 {
			d.Delay, s = time.Hour, Delayed
		}
		id, err := m.q.Write(ctx, d)
		if err != nil {
			m.t.Error(err)
			return
		}
		m.tenant[id] = d.Tenant
		m.set(id, s)
	case 2, 3:
		if list, err := m.q.Read(ctx, ReadConfig{Visibility: time.Hour, Max: 1 + m.random.IntN(3)}); err == nil {
			for _, msg := range list {
				m.taken[msg.ID] = msg
				m.set(msg.ID, InFlight)
			}
		}
	case 4, 5:
		if id := m.some(InFlight); id != "" {
			receipt := m.taken[id].Receipt
			switch m.random.IntN(4) {
			case 0:
				check(m.q.Ack(ctx, receipt))
				m.set(id, Gone)
			case 1:
				check(m.q.Nack(ctx, NackConfig{Delay: time.Hour}, receipt))
				m.set(id, Delayed)
			case 2:
				check(m.q.Nack(ctx, NackConfig{Dead: true}, receipt))
				m.set(id, Dead)
			default:
				check(m.q.Nack(ctx, NackConfig{}, receipt))
				m.set(id, Waiting)
			}
		}
	case 6:
		if id := m.some([]State{Waiting, Delayed}[m.random.IntN(2)]); id != "" {
			states, err := m.q.Cancel(ctx, id)
			check(len(states), err)
			m.set(id, Gone)
		}
	case 7:
		if id := m.some(Dead); id != "" {
			check(m.q.Dead().Redrive(ctx, id))
			m.set(id, Waiting)
		}
	default:
		if id := m.some(Dead); id != "" {
			check(m.q.Dead().Purge(ctx, id))
			m.set(id, Gone)
		}
	}
}

// most is how many messages were in the state at some time during the call, of one tenant or of all.
func (m *mover) most(s State, tenant string) (n int) {
	for id, was := range m.was {
		if was[s] && (tenant == "" || m.tenant[id] == tenant) {
			n++
		}
	}
	return n
}

// TestCountsWhileMessagesMove: if one message moves between two commands of a read, no count is above how
// many there were, or below zero, and no flow is shown twice.
func TestCountsWhileMessagesMove(t *testing.T) {
	t.Parallel()
	shared := redistest.Shared(t)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := &mover{
				t: t, q: openOn(t, shared.Client(t), redistest.Name(t), Config{MaxAttempts: 1000}), random: rand.New(rand.NewPCG(seed, 1)),
				state: map[string]State{}, tenant: map[string]string{}, was: map[string]map[State]bool{}, taken: map[string]Message{},
			}
			client := &stepwise{Client: shared.Client(t), between: func([]string) {}}
			q, err := New(client, m.q.name, Config{})
			if err != nil {
				t.Fatal(err)
			}
			for len(m.state) < 120 {
				m.move()
			}
			client.between = func([]string) {
				if m.moves > 0 && m.random.IntN(4) == 0 {
					m.moves--
					m.move()
				}
			}
			for range 200 {
				m.count(t, q)
			}
		})
	}
}

// count counts the messages of the queue, while one of them moves.
func (m *mover) count(t *testing.T, q *Queue) {
	t.Helper()
	m.begin()
	m.moves = 1
	s, err := q.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for state, n := range map[State]int{Waiting: s.Waiting, InFlight: s.InFlight, Delayed: s.Delayed, Dead: s.Dead} {
		if most := m.most(state, ""); n < 0 || n > most {
			t.Errorf("Stats counts %d that are %s, and there were at most %d", n, state, most)
		}
	}
	flows := map[string]bool{}
	for _, f := range s.Flows {
		if most := m.most(Waiting, f.Tenant); f.Waiting > most || flows[f.Tenant] {
			t.Errorf("Stats counts %d of %s, seen %v, and at most %d waited", f.Waiting, f.Tenant, flows[f.Tenant], most)
		}
		flows[f.Tenant] = true
	}
	m.begin()
	m.moves = 1
	if n, err := q.Len(t.Context()); err != nil || n < 0 || n > m.most(Waiting, "") {
		t.Errorf("Len = %d, %v, and at most %d waited", n, err, m.most(Waiting, ""))
	}
}

// TestScheduleIsPausedMeanwhile: a schedule that is paused between the steps in which a process looks for ticks
// stays paused, also if the process cannot compute it.
func TestScheduleIsPausedMeanwhile(t *testing.T) {
	t.Parallel()
	shared := redistest.Shared(t)
	q := openOn(t, shared.Client(t), redistest.Name(t), Config{})
	setSchedule(t, q, hourly(t, "x"))
	_, entries, err := q.schedules(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.reschedule(t.Context(), &entries[0], "1", `{"spec":"at 0 3 * * * Mars/Olympus","tenant":"ops"}`); err != nil {
		t.Fatal(err)
	}
	paused := 0
	client := &stepwise{Client: shared.Client(t), between: func(cmd []string) {
		if cmd[len(cmd)-1] == "dx" && paused == 0 {
			paused++
			if err := q.Schedules().Pause(t.Context(), "x"); err != nil {
				t.Error(err)
			}
		}
	}}
	other, err := New(client, q.name, Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.keepSchedules(t.Context()); err != nil {
		t.Error(err)
	}
	score, err := do(t, q.run.Client, "ZSCORE", baseKey(q.name)+":ticks", "x").ToString()
	want(t, "when the next tick is looked for", score, "inf", err)
	want(t, "how often it was paused", paused, 1, nil)
}
