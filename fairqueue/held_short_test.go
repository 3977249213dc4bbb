package fairqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/test/redistest"
)

// shortCalls makes calls that must not need the general form, for handlers that all take 50 ms.
type shortCalls struct {
	*testing.T
	q       *Queue
	reader  *registration
	general bool // they take the general form nevertheless
}

func newShortCalls(t *testing.T, cfg Config, handlers int) *shortCalls {
	t.Helper()
	q := open(t, cfg)
	q.run.Lanes = &reqid.Lanes{} // the first call makes the lane of all others known
	write(t, q, "z:first")
	s := &shortCalls{t, q, readerOf(reader{id: "reader", handlers: float64(handlers)}), false}
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

// handlers has the reader report so many.
func (s *shortCalls) handlers(n float64) {
	s.Helper()
	if _, err := s.q.beat(s.Context(), time.Minute, readerOf(reader{id: "reader", handlers: n}), nil); err != nil {
		s.Fatal(err)
	}
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
	o := order{roll: *s.reader.roll.Load(), most: most, visibility: time.Minute, enters: enters, acks: acks}
	if s.general {
		return s.q.shared.takeAny(s.Context(), o)
	}
	return s.q.shared.takePlain(s.Context(), o)
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

// tokens returns how many wake readers.
func (s *shortCalls) tokens() int64 {
	s.Helper()
	n, err := do(s.T, redistest.Shared(s.T).Client(s.T), "LLEN", baseKey(s.q.name)+":wake").AsInt64()
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// TestHeldInShortCalls: a slow tenant is held when it has as many handlers as are free, and has a turn again when it has
// fewer, because one of its own messages ended or others did, without a general call.
func TestHeldInShortCalls(t *testing.T) {
	t.Parallel()
	t.Run("others end", func(t *testing.T) {
		t.Parallel()
		s := newShortCalls(t, Config{}, 6)
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
		s := newShortCalls(t, Config{}, 4)
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
		s := newShortCalls(t, Config{}, 2)
		write(t, s.q, "a:a1 a:a2 b:b1")
		some := s.do("a1 b1", 3)
		s.do("a2", 1, some[0])
	})
}

// TestHeldInShortCallsWakes: a call that gives more flows a turn than it takes messages wakes a reader.
func TestHeldInShortCallsWakes(t *testing.T) {
	t.Parallel()
	s := newShortCalls(t, Config{}, 6)
	write(t, s.q, "b:b1 b:b2 c:c1")
	others := s.do("b1 c1 b2", 3)
	write(t, s.q, "a:a1 a:a2 a:a3")
	s.do("a1 a2", 4)
	sleeper, err := s.take(1, true, nil)
	for err == nil && sleeper != nil && sleeper.due { // a busy machine: it must do due work first, and says so every tenth of a second
		if _, err = s.q.tend(t.Context(), "5"); err == nil {
			sleeper, err = s.take(1, true, nil)
		}
	}
	if err != nil || sleeper == nil || !sleeper.entered {
		t.Fatalf("a reader that finds nothing = %+v, %v, want one that sleeps", sleeper, err)
	}
	before := s.tokens() // of writes to a new queue
	s.do("", 0, others...)
	want(t, "tokens", s.tokens()-before, int64(1), nil)
	s.do("a3", 1)
}

// TestWrongTypesWhereFlowsAreHeld: a short call that comes upon a key of another type changes nothing.
func TestWrongTypesWhereFlowsAreHeld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, key string }{
		{"hold", ":blocked"}, {"its own end", ":active"}, {"its own end", ":blocked"}, {"others end", ":active"},
		{"an old one ends", ":blocked"},
	} {
		t.Run(c.name+c.key, func(t *testing.T) {
			t.Parallel()
			s := newShortCalls(t, Config{}, 4)
			write(t, s.q, "b:b1")
			acks := s.do("b1", 1)
			write(t, s.q, "a:a1 a:a2 a:a3")
			first := s.do("a1", 1)
			switch c.name {
			case "hold":
				s.handlers(2)
				acks = nil
			case "an old one ends":
				s.do("a2", 2)
				if _, err := s.q.beat(t.Context(), time.Minute, nil, []receipt{first[0].receipt()}); err != nil {
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

// TestWrongTypeBehindAFlow: a short call that holds a flow or gives one its turn, and then comes upon a key of another type,
// notes the first, and leaves the rest to a general call.
func TestWrongTypeBehindAFlow(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"held", "released"} {
		t.Run(c, func(t *testing.T) {
			t.Parallel()
			s := newShortCalls(t, Config{}, 3)
			client, young := redistest.Shared(t).Client(t), baseKey(s.q.name)+":young"
			write(t, s.q, "a:a1 a:a2")
			acks := s.do("a1", 1)
			s.handlers(2)
			if c == "released" {
				s.do("", 1)
			} else {
				acks = nil
			}
			write(t, s.q, "b:b1")
			for _, words := range [][]string{{"RENAME", young, young + "2"}, {"SET", young, "foreign"}} {
				if err := do(t, client, words...).Error(); err != nil {
					t.Fatal(err)
				}
			}
			var settle []settlement
			for _, m := range acks {
				settle = append(settle, settlement{m.receipt(), "a", "50"})
			}
			if a, err := s.take(1, false, settle); err != nil || a == nil || !a.more {
				t.Errorf("a short call = %+v, %v, want one that leaves the rest to a general one", a, err)
			}
			if err := do(t, client, "RENAME", young+"2", young).Error(); err != nil {
				t.Fatal(err)
			}
			if wrong, err := s.q.Check(t.Context()); len(wrong) > 0 || err != nil {
				t.Errorf("the queue is wrong: %q, %v", wrong, err)
			}
		})
	}
}

// TestWriteToAHeldFlowWakesNobody: such a message may not start, and a call that finds nothing costs as much as one that takes
// a message. The call that takes one of a flow that was held, and leaves others, wakes a reader for those.
func TestWriteToAHeldFlowWakesNobody(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"short", "general"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := newShortCalls(t, Config{}, 4)
			write(t, s.q, "a:a1 a:a2 a:a3 b:b1")
			s.do("a1 b1 a2", 3)
			sleep := func() {
				t.Helper()
				a, err := s.take(1, true, nil)
				for err == nil && a != nil && a.due { // a slow machine has bookkeeping to do first
					a, err = s.take(1, true, nil)
				}
				if err != nil || a == nil || !a.entered {
					t.Fatalf("a reader that finds nothing = %+v, %v, want one that sleeps", a, err)
				}
			}
			before := s.tokens() // of writes to a new queue
			sleep()
			sleep()
			write(t, s.q, "a:a4")
			want(t, "tokens after a write to a flow that is held", s.tokens()-before, int64(0), nil)
			s.handlers(6)
			s.do("", 0) // gives the flow its turn
			want(t, "tokens after its release", s.tokens()-before, int64(1), nil)
			write(t, s.q, "a:a5")
			want(t, "tokens after a write to a flow that was held", s.tokens()-before, int64(1), nil)
			s.general = form == "general"
			s.do("a3", 1)
			want(t, "tokens when others are left", s.tokens()-before, int64(2), nil)
		})
	}
}

// TestQuickTenantsOfStreams: a tenant of a stream whose handlers were quick may have all of them, also if it had none in flight
// in between, until its handlers are slow.
func TestQuickTenantsOfStreams(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"short", "general", "of a batch"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := newShortCalls(t, Config{Streams: 1, PerTenant: 1}, 1)
			s.general = form != "short"
			took := func(want, ms string, acks ...Message) []Message {
				t.Helper()
				var settle []settlement
				for _, m := range acks {
					settle = append(settle, settlement{m.receipt(), "a", ms})
				}
				a, err := s.take(1, false, settle)
				if err != nil || a == nil {
					t.Fatalf("a call = %+v, %v", a, err)
				}
				got := s.messages(a)
				if bodies(got) != want {
					t.Fatalf("a call took %q, want %q", bodies(got), want)
				}
				if wrong, err := s.q.Check(t.Context()); len(wrong) > 0 || err != nil {
					t.Fatalf("the queue is wrong: %q, %v", wrong, err)
				}
				return got
			}
			remembered := func(names string) {
				t.Helper()
				got, err := do(t, redistest.Shared(t).Client(t), "HGET", baseKey(s.q.name)+":hot", quickPrefix+"#0").ToString()
				want(t, "the field", got, names, err)
			}
			b := &batchTest{Queue: s.q, t: t}
			if form == "of a batch" {
				b.id = b.create(0)
			}
			for word := range strings.FieldsSeq("a:a1 b:b1 a:a2 a:a3 b:b2 b:b3 b:b4") {
				tenant, body, _ := strings.Cut(word, ":")
				want(t, "write", nil, nil, second(s.q.Write(t.Context(), Draft{Tenant: tenant, Body: []byte(body), Batch: b.id})))
			}
			a1 := took("a1", "")
			b1 := took("b1", "20", a1...)
			remembered("\x01=a\x01")
			slow := took("a2", "21", b1...)
			remembered("\x01=a\x01")
			slow = append(slow, took("a3", "")...) // beside a2, though no handler is free
			b2 := took("b2", "")
			took("", "")
			took("", "90", slow...)
			remembered("\x01")
			took("b3", "1", b2...)
			took("b4", "")
			if n, err := do(t, redistest.Shared(t).Client(t), "HEXISTS", baseKey(s.q.name)+":hot", quickPrefix+"#0").AsInt64(); n != 0 || err != nil {
				t.Errorf("an empty stream has names: %d, %v", n, err)
			}
		})
	}
}

// TestQuickTenantsOfStreamsAreBounded: a stream remembers the newest, in 1,000 bytes.
func TestQuickTenantsOfStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := newShortCalls(t, Config{Streams: 1, PerTenant: 1}, 1)
	var drafts []Draft
	for i := range 31 {
		drafts = append(drafts, Draft{Tenant: fmt.Sprintf("%03d%s", i, strings.Repeat("x", 97))})
	}
	if _, err := s.q.WriteBatch(t.Context(), drafts...); err != nil {
		t.Fatal(err)
	}
	var acks []settlement
	for i := range 31 {
		s.general = i%5 == 4
		a, err := s.take(1, false, acks)
		if err != nil || a == nil || len(a.items) != 1 {
			t.Fatalf("a call = %+v, %v", a, err)
		}
		acks = []settlement{{s.messages(a)[0].receipt(), "a", "1"}}
		if wrong, err := s.q.Check(t.Context()); len(wrong) > 0 || err != nil {
			t.Fatalf("the queue is wrong: %q, %v", wrong, err)
		}
		if i == 29 {
			got, err := do(t, redistest.Shared(t).Client(t), "HGET", baseKey(s.q.name)+":hot", quickPrefix+"#0").ToString()
			if err != nil || len(got) < 800 || !strings.Contains(got, "\x01="+drafts[28].Tenant+"\x01") {
				t.Errorf("the field = %q, %v, want the last tenants", got, err)
			}
		}
	}
}
