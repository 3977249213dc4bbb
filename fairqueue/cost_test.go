package fairqueue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// setVirtual sets the virtual time of a queue in which no flow is active.
func setVirtual(t *testing.T, q *Queue, at float64) {
	t.Helper()
	key := baseKey(q.name) + ":hot"
	text, err := do(t, q.run.Client, "HGET", key, "t").ToString()
	if err != nil {
		t.Fatal(err)
	}
	value := binary.LittleEndian.AppendUint64(nil, math.Float64bits(at))
	if err := do(t, q.run.Client, "HSET", key, "t", string(value)+text[8:]).Error(); err != nil {
		t.Fatal(err)
	}
}

// writeDrafts writes messages and fails the test if that fails.
func writeDrafts(t testing.TB, q *Queue, drafts ...Draft) []Written {
	t.Helper()
	written, err := q.WriteBatch(t.Context(), drafts...)
	if err != nil {
		t.Fatal(err)
	}
	return written
}

// TestCostsInProportion: tenants that always have messages get delivered costs in proportion to their weights, within
// one largest message of each, also a tenant that has one message at a time, and where the virtual time passes 2^53.
func TestCostsInProportion(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	rapid.Check(t, func(r *rapid.T) {
		q := openOn(t, client, redistest.Name(t), Config{})
		writeDrafts(t, q, Draft{Tenant: "x"})
		mustRead(r, q, 1)
		setVirtual(t, q, rapid.SampledFrom([]float64{0, 1<<53 - 1e6}).Draw(r, "virtual time"))
		type share struct {
			weight, sum, largest float64
			costs                *rapid.Generator[int]
		}
		shares := map[string]*share{}
		draft := func(tenant string) Draft {
			d := Draft{Tenant: tenant, Cost: shares[tenant].costs.Draw(r, "cost")}
			shares[tenant].largest = max(shares[tenant].largest, float64(d.Cost))
			return d
		}
		var drafts []Draft
		for i := range rapid.IntRange(2, 5).Draw(r, "tenants") {
			tenant, most := fmt.Sprint("tenant", i), rapid.SampledFrom([]int{1, 3, 100, 10_000}).Draw(r, "most")
			s := &share{weight: rapid.SampledFrom([]float64{1, 1, 0.5, 2, 4}).Draw(r, "weight"), costs: rapid.IntRange((most+3)/4, most)}
			shares[tenant] = s
			if s.weight != 1 {
				if err := setWeight(q, t.Context(), tenant, s.weight); err != nil {
					r.Fatal(err)
				}
			}
			for range rapid.SampledFrom([]int{1, 1, 2, 20}).Draw(r, "messages") {
				drafts = append(drafts, draft(tenant))
			}
		}
		writeDrafts(t, q, drafts...)
		for range 60 {
			got := mustRead(r, q, 1)
			if len(got) != 1 {
				r.Fatalf("a read got %d messages, and one of each tenant waits", len(got))
			}
			shares[got[0].Tenant].sum += float64(got[0].Cost)
			for name, a := range shares {
				for other, b := range shares {
					ahead := a.sum/a.weight - b.sum/b.weight
					if most := 1.02 * (a.largest/a.weight + b.largest/b.weight); ahead > most {
						r.Fatalf("%s %+v is ahead of %s %+v by %g, want at most %g", name, *a, other, *b, ahead, most)
					}
				}
			}
			writeDrafts(t, q, draft(got[0].Tenant)) // so many wait as before, perhaps one
		}
		if _, err := q.Delete(t.Context()); err != nil {
			r.Fatal(err)
		}
	})
}

// TestVirtualTimeEnds: the virtual time is 0 again when a read finds no flow with a turn; and where numbers are so large
// that a turn would be lost in rounding, all tenants still have turns.
func TestVirtualTimeEnds(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	virtual := func() float64 {
		there, _ := readRaw(t, q)
		return there.virtual
	}
	for _, plain := range []bool{true, false} {
		d := Draft{Tenant: "x"}
		if !plain {
			d.Cost = 2
		}
		writeDrafts(t, q, d, d)
		read(t, q, 1)
		if virtual() == 0 {
			t.Fatal("the virtual time is 0 after a delivery: the test shows nothing")
		}
		read(t, q, 10)
		read(t, q, 10)
		want(t, fmt.Sprint("virtual time of an empty queue, plain ", plain), virtual(), 0.0, nil)
	}
	for _, at := range []float64{1 << 53, 1 << 57, 1 << 60} {
		writeDrafts(t, q, Draft{Tenant: "x"})
		read(t, q, 1)
		setVirtual(t, q, at)
		want(t, "weight", nil, nil, setWeight(q, t.Context(), "a", 100))
		var drafts []Draft
		for range 10 {
			drafts = append(drafts, Draft{Tenant: "a"}, Draft{Tenant: "b", Cost: 10})
		}
		for range 150 {
			drafts = append(drafts, Draft{Tenant: "a"})
		}
		writeDrafts(t, q, drafts...)
		got := map[string]int{}
		for range 140 {
			got[read(t, q, 1)[0].Tenant]++
		}
		if alone := at == 1<<53; alone != (got["b"] == 0) {
			t.Errorf("at %g, %d of 140 deliveries are b's, of cost 10 and weight 1 beside cost 1 and weight 100, want none at 2^53, and some far up", at, got["b"])
		}
		for len(read(t, q, 100)) > 0 {
			continue
		}
	}
}

// inOrder reads all that waits, one by one, and returns the bodies.
func inOrder(t *testing.T, q *Queue) (bodies []string) {
	t.Helper()
	for some := read(t, q, 1); len(some) > 0; some = read(t, q, 1) {
		bodies = append(bodies, string(some[0].Body))
	}
	return bodies
}

// TestCostOfAHeadThatChanges: a flow pays for the message that it gets. A head for which it paid and that loses its place is
// refunded, whatever takes it away, and pays when it is the head again.
func TestCostOfAHeadThatChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, q *Queue, id string){
		"cancelled": func(t *testing.T, q *Queue, id string) {
			got, err := q.Cancel(t.Context(), id)
			want(t, "cancelled", got, []State{Waiting}, err)
			writeDrafts(t, q, Draft{Tenant: "a", Body: []byte("next")})
		},
		"cancelled before another": func(t *testing.T, q *Queue, id string) {
			writeDrafts(t, q, Draft{Tenant: "a", Body: []byte("next")})
			got, err := q.Cancel(t.Context(), id)
			want(t, "cancelled", got, []State{Waiting}, err)
		},
		"behind an urgent one": func(t *testing.T, q *Queue, _ string) {
			writeDrafts(t, q, Draft{Tenant: "a", Body: []byte("next"), Priority: 4})
		},
		"expired": func(t *testing.T, q *Queue, id string) {
			writeDrafts(t, q, Draft{Tenant: "a", Body: []byte("next")})
			if err := do(t, q.run.Client, "ZADD", baseKey(q.name)+":deadlines", "1", id).Error(); err != nil {
				t.Fatal(err)
			}
			if _, err := q.tend(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		},
		"expired at its turn": func(t *testing.T, q *Queue, id string) {
			for range 5 {
				writeDrafts(t, q, Draft{Tenant: "a", Body: []byte("next")})
			}
			stored, err := do(t, q.run.Client, "HGET", baseKey(q.name)+":hot", id).ToString()
			want(t, "stored", stored[:5], "*500@", err)
			if err := do(t, q.run.Client, "HSET", baseKey(q.name)+":hot", id, "1"+stored).Error(); err != nil {
				t.Fatal(err)
			}
		},
		"of a batch that is cancelled at its turn": func(t *testing.T, q *Queue, _ string) {
			for range 5 {
				writeDrafts(t, q, Draft{Tenant: "a", Body: []byte("next")})
			}
			for b, err := range q.Batches().All(t.Context()) {
				want(t, "batches", nil, nil, err)
				want(t, "cancel", nil, nil, second(q.Batches().Cancel(t.Context(), b.ID)))
			}
		},
		"purged before others": func(t *testing.T, q *Queue, _ string) {
			for range 40 {
				writeDrafts(t, q, Draft{Tenant: "a", Body: []byte("next")})
			}
			_, err := q.changeTenant(t.Context(), "=a", "purge", "") // a page
			want(t, "purge", nil, nil, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atItsTurn := strings.HasSuffix(name, "at its turn")
			q := open(t, Config{})
			batch, err := q.Batches().Create(t.Context(), 0, Draft{Tenant: "a", Body: []byte("end")})
			want(t, "create a batch", nil, nil, err)
			id := writeDrafts(t, q, Draft{Tenant: "a", Body: []byte("large"), Cost: 500, Batch: batch})[0].ID
			for range 1000 {
				writeDrafts(t, q, Draft{Tenant: "b", Body: []byte("b")})
			}
			read(t, q, 2) // a has paid
			there, _ := readRaw(t, q)
			want(t, "the mark of a head that is paid for", there.flows["=a"][0][17:], entry("$"), nil)
			change(t, q, id)
			there, _ = readRaw(t, q)
			if !atItsTurn {
				want(t, "wrong with the keys", there.wrongs(), "", nil)
			}
			all := inOrder(t, q)
			next, last, large := slices.Index(all, "next"), len(all)-1, slices.Index(all, "large")
			for all[last] == "b" || all[last] == "end" {
				last--
			}
			switch {
			case atItsTurn: // nothing looks at it before
				if next < 400 || next > 510 || last > next+4 {
					t.Errorf("the five next messages are at places %d to %d, want them at about 500, in a row", next, last)
				}
			case next > 3:
				t.Errorf("the next message of a tenant whose head is gone is at place %d, want at most 3", next)
			case name == "behind an urgent one" && (large < 490 || large > 510):
				t.Errorf("a message of cost 500 is at place %d behind an urgent one, want about 500", large)
			}
		})
	}
	q := open(t, Config{})
	writeDrafts(t, q, Draft{Tenant: "a", Body: []byte("large"), Cost: 50})
	for range 1000 {
		writeDrafts(t, q, Draft{Tenant: "b", Body: []byte("b")})
	}
	for i := range 10 { // each overtakes the large one, which does not begin to wait anew
		read(t, q, 10)
		writeDrafts(t, q, Draft{Tenant: "a", Body: fmt.Append(nil, "urgent", i), Priority: 4})
	}
	if got := slices.Index(inOrder(t, q), "large"); got > 5 {
		t.Errorf("a message of cost 50 is delivered after 100 others and %d more, because its tenant wrote 10 urgent ones, want at most 5", got)
	}
}

// TestRateCountsCosts: a rate is of costs. A message that costs more than a burst starts when the bucket is full, and its
// tenant then waits until the rate has caught up, also if the message comes back meanwhile.
func TestRateCountsCosts(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	scripts := clocked(t, library)
	scripttest.Load(t, client, scripts)
	q := openOn(t, client, redistest.Name(t), Config{})
	q.run.Scripts = scripts
	now := time.Duration(0)
	pass := func(d time.Duration) {
		now += d
		micros := strconv.FormatInt((limitsStart + now).Microseconds(), 10)
		want(t, "clock", nil, nil, do(t, client, "SET", baseKey(q.name)+":clock", micros).Error())
	}
	pass(0)
	want(t, "limits", nil, nil, q.Limits().Set(t.Context(), "", ownOf(queuestats.Limits{Rate: 10, Burst: 10})))
	read10 := func(what string, costs ...int) (got []Message) {
		t.Helper()
		got = read(t, q, 10)
		var all []int
		for _, m := range got {
			all = append(all, m.Cost)
		}
		want(t, fmt.Sprint("costs of deliveries ", what, ", at ", now), all, costs, nil)
		return got
	}
	draft := func(cost int) Draft { return Draft{Tenant: "a", Cost: cost} }

	writeDrafts(t, q, draft(5), draft(5), draft(5), draft(1))
	read10("of a burst", 5, 5)
	pass(499 * time.Millisecond)
	read10("before the bucket has room for five")
	pass(time.Millisecond)
	read10("when it has room for five", 5)
	pass(100 * time.Millisecond)
	read10("when it has room for one", 1)

	pass(500 * time.Millisecond)
	writeDrafts(t, q, draft(100))
	read10("of one that is larger than a burst, before the bucket is full")
	pass(500 * time.Millisecond)
	nack(t, q, NackConfig{}, read10("when it is full", 100)...)
	writeDrafts(t, q, Draft{Tenant: "a", Priority: 4})
	pass(5 * time.Second)
	read10("while the tenant waits for the large one")
	pass(4*time.Second + 99*time.Millisecond)
	read10("while the tenant still waits")
	pass(time.Millisecond)
	read10("when the rate has caught up", 1)
	pass(999 * time.Millisecond)
	read10("before the bucket is full again")
	pass(time.Millisecond)
	read10("when it is full again", 100)
}

func TestBadCosts(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, cost := range []int{-1, maxCost + 1} {
		_, err := q.Write(t.Context(), Draft{Tenant: "a", Cost: cost})
		if e := (*millrace.Error)(nil); !errors.Is(err, millrace.ErrBadArgument) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("a write with cost %d = %v, want ErrBadArgument with a hint", cost, err)
		}
	}
	for _, options := range []string{"4 0 0 0 ", "4 0 0 1000001 ", "4 0 0 x ", "4 0 0 "} { // of another client
		if _, err := q.call(t.Context(), "write", "0", "1000", "0", "", "=a", options, "\x00body"); err == nil {
			t.Errorf("the script took the options %q, want an error", options)
		}
		n, err := do(t, q.run.Client, "EXISTS", baseKey(q.name)).AsInt64()
		want(t, "keys after a refusal", n, int64(0), err)
	}
}
