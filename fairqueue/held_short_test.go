package fairqueue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/reqid"
)

// shortCalls makes calls that must not need the general form, for handlers that all take 50 ms.
type shortCalls struct {
	*testing.T
	q      *Queue
	reader *registration
}

func newShortCalls(t *testing.T, handlers int) *shortCalls {
	t.Helper()
	q := open(t, Config{})
	q.run.Lanes = &reqid.Lanes{} // the first call makes the lane of all others known
	write(t, q, "z:first")
	s := &shortCalls{t, q, readerOf(reader{id: "reader", handlers: float64(handlers)})}
	if _, err := q.beat(t.Context(), time.Minute, s.reader, nil); err != nil {
		t.Fatal(err)
	}
	first, err := q.shared.takeAny(t.Context(), order{roll: *s.reader.roll.Load(), most: 1, visibility: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s.do("", 0, s.messages(first)...)
	return s
}

func (s *shortCalls) messages(a *taken) (messages []Message) {
	s.Helper()
	for _, item := range a.items {
		_, m, err := delivered(item, a.now)
		if err != nil {
			s.Fatal(err)
		}
		messages = append(messages, m)
	}
	return messages
}

// take makes one short call.
func (s *shortCalls) take(most int, enters bool, acks []settlement) (*taken, error) {
	return s.q.shared.takePlain(s.Context(), order{roll: *s.reader.roll.Load(), most: most, visibility: time.Minute, enters: enters, acks: acks})
}

// do acknowledges messages and takes up to so many, which must be those, in one call.
func (s *shortCalls) do(bodiesWanted string, most int, acks ...Message) []Message {
	s.Helper()
	var settle []settlement
	for _, m := range acks {
		settle = append(settle, settlement{m.receipt(), "a", "50"})
	}
	a, err := s.take(most, false, settle)
	if err != nil || a == nil || a.more || a.verdicts != strings.Repeat("1", len(acks)) {
		s.Fatalf("a short call = %+v, %v, want one that does all", a, err)
	}
	got := s.messages(a)
	if diff := cmp.Diff(bodiesWanted, bodies(got)); diff != "" {
		s.Fatalf("taken (-want +got):\n%s", diff)
	}
	if wrong, err := s.q.Check(s.Context()); len(wrong) > 0 || err != nil {
		s.Fatalf("the queue is wrong: %q, %v", wrong, err)
	}
	return got
}

// TestHeldInShortCalls: a slow tenant is held when it has as many handlers as are free, and has a turn again when it has
// fewer, because one of its own messages ended or others did, without a general call.
func TestHeldInShortCalls(t *testing.T) {
	t.Parallel()
	t.Run("others end", func(t *testing.T) {
		t.Parallel()
		s := newShortCalls(t, 6)
		write(t, s.q, "b:b1 b:b2 c:c1")
		others := s.do("b1 c1 b2", 3)
		write(t, s.q, "a:a1 a:a2 a:a3 a:a4")
		s.do("a1 a2", 4)
		s.do("", 1)
		write(t, s.q, "a:a5") // to a flow that is held
		s.do("a3", 1, others...)
		s.do("", 3)
	})
	t.Run("its own end", func(t *testing.T) {
		t.Parallel()
		s := newShortCalls(t, 4)
		write(t, s.q, "a:a1 a:a2 a:a3 a:a4")
		own := s.do("a1 a2", 3)
		write(t, s.q, "b:b1 c:c1")
		others := s.do("b1 c1", 3)
		s.do("", 0, own[0])
		if f := stats(t, s.q).Flows[0]; !f.Held {
			t.Errorf("the flow is %+v, want one that is held", f)
		}
		s.do("", 1)
		s.do("a3", 1, others[0])
		s.do("a4", 1, own[1])
	})
	t.Run("none is left", func(t *testing.T) {
		t.Parallel()
		s := newShortCalls(t, 2)
		write(t, s.q, "a:a1 a:a2 b:b1")
		some := s.do("a1 b1", 3)
		s.do("a2", 1, some[0])
	})
}

// TestHeldInShortCallsWakes: a call that gives more flows a turn than it takes messages wakes a reader.
func TestHeldInShortCallsWakes(t *testing.T) {
	t.Parallel()
	s := newShortCalls(t, 6)
	write(t, s.q, "b:b1 b:b2 c:c1")
	others := s.do("b1 c1 b2", 3)
	write(t, s.q, "a:a1 a:a2 a:a3")
	s.do("a1 a2", 4)
	sleeper, err := s.take(1, true, nil)
	if err != nil || sleeper == nil || !sleeper.entered {
		t.Fatalf("a reader that finds nothing = %+v, %v, want one that sleeps", sleeper, err)
	}
	tokens := func() int64 {
		n, err := do(t, redistest.Shared(t).Client(t), "LLEN", baseKey(s.q.name)+":wake").AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := tokens() // of writes to a new queue
	s.do("", 0, others...)
	want(t, "tokens", tokens()-before, int64(1), nil)
	s.do("a3", 1)
}

// TestWrongTypesWhereFlowsAreHeld: a short call that comes upon a key of another type changes nothing.
func TestWrongTypesWhereFlowsAreHeld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, key string }{
		{"hold", ":blocked"}, {"its own end", ":active"}, {"its own end", ":blocked"}, {"its own end", ":young"}, {"others end", ":active"},
		{"an old one ends", ":blocked"},
	} {
		t.Run(c.name+c.key, func(t *testing.T) {
			t.Parallel()
			s := newShortCalls(t, 4)
			write(t, s.q, "b:b1")
			acks := s.do("b1", 1)
			write(t, s.q, "a:a1 a:a2 a:a3")
			first := s.do("a1", 1)
			switch c.name {
			case "hold":
				s.do("a2", 1)
				acks = nil
			case "an old one ends":
				s.do("a2", 2)
				if _, err := s.q.beat(t.Context(), time.Minute, s.reader, []receipt{first[0].receipt()}); err != nil {
					t.Fatal(err)
				}
				acks = first
			case "its own end":
				s.do("a2", 2)
				acks = first
			default:
				s.do("a2", 2)
				acks = append(acks, first...)
			}
			if err := do(t, redistest.Shared(t).Client(t), "SET", baseKey(s.q.name)+c.key, "foreign").Error(); err != nil {
				t.Fatal(err)
			}
			before := dump(t, s.q)
			var settle []settlement
			for _, m := range acks {
				settle = append(settle, settlement{m.receipt(), "a", "50"})
			}
			a, err := s.take(1, false, settle)
			if err == nil {
				t.Errorf("a short call = %+v, want an error", a)
			}
			if diff := cmp.Diff(before, dump(t, s.q)); diff != "" {
				t.Errorf("a refused call changed the queue (-before +after):\n%s", diff)
			}
		})
	}
}

// TestWrongTypeBehindAHeldFlow: a short call that holds a flow, and then comes upon a key of another type, notes the first.
func TestWrongTypeBehindAHeldFlow(t *testing.T) {
	t.Parallel()
	s := newShortCalls(t, 2)
	client, young := redistest.Shared(t).Client(t), baseKey(s.q.name)+":young"
	write(t, s.q, "a:a1 a:a2")
	s.do("a1", 1)
	write(t, s.q, "b:b1")
	for _, words := range [][]string{{"RENAME", young, young + "2"}, {"SET", young, "foreign"}} {
		if err := do(t, client, words...).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := s.take(2, false, nil); err != nil || a == nil || !a.more {
		t.Errorf("a short call = %+v, %v, want one that leaves the rest to a general one", a, err)
	}
	if err := do(t, client, "RENAME", young+"2", young).Error(); err != nil {
		t.Fatal(err)
	}
	if wrong, err := s.q.Check(t.Context()); len(wrong) > 0 || err != nil {
		t.Errorf("the queue is wrong: %q, %v", wrong, err)
	}
	s.do("b1", 2)
}
