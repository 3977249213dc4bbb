package fairqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// headTest is a queue whose only flow is held: four handlers are there, and tenant a has two of them and a third message in front.
type headTest struct {
	*clockTest

	reader *registration
	held   string    // the id of the message in front
	other  []Message // of tenant b, which is in flight
}

// take takes up to so many messages for handlers, which must be those, and says whether the reader sleeps if there are none.
func (h *headTest) take(most int, bodiesWanted string, visibility time.Duration) (messages []Message) {
	h.t.Helper()
	o := order{roll: *h.reader.roll.Load(), most: most, visibility: visibility, enters: true}
	got, err := h.shared.take(h.t.Context(), o)
	if err != nil || got == nil {
		h.t.Fatalf("take = %+v, %v", got, err)
	}
	for _, item := range got.items {
		_, m, err := delivered(item, got.now)
		want(h.t, "delivered", nil, nil, err)
		messages = append(messages, m)
	}
	want(h.t, "taken", bodies(messages), bodiesWanted, nil)
	want(h.t, "sleeps", got.entered, bodiesWanted == "", nil)
	return messages
}

// openHead opens a queue of one stream with so many handlers, in which another tenant was served.
func openHead(t *testing.T, client rueidis.Client, handlers float64) *headTest {
	t.Helper()
	h := &headTest{clockTest: newClockTestOn(t, client, Config{Streams: 1, PerTenant: 1}), reader: readerOf(reader{id: "reader", handlers: handlers})}
	h.at(0)
	h.write(Draft{Tenant: "z", Body: []byte("first")})
	h.register()
	ack(t, h.Queue, h.take(1, "first", time.Hour)...)
	return h
}

// newHeadTest has b write or take its message by before, which is older than the one in front.
func newHeadTest(t *testing.T, client rueidis.Client, before func(h *headTest), third Draft) *headTest {
	t.Helper()
	h := openHead(t, client, 4)
	if before != nil {
		before(h)
	}
	h.write(Draft{Tenant: "a", Body: []byte("a1")})
	h.write(Draft{Tenant: "a", Body: []byte("a2")})
	h.take(2, "a1 a2", time.Hour)
	third.Tenant, third.Body = "a", []byte("a3")
	h.held = h.write(third)
	return h
}

// register registers the reader.
func (h *headTest) register() {
	h.t.Helper()
	_, err := h.beat(h.t.Context(), time.Hour, h.reader, nil)
	want(h.t, "beat", nil, nil, err)
}

func (h *headTest) write(d Draft) string {
	h.t.Helper()
	id, err := h.Write(h.t.Context(), d)
	want(h.t, "write", nil, nil, err)
	return id
}

func (h *headTest) writeB(d Draft) {
	h.t.Helper()
	d.Tenant, d.Body = "b", []byte("b1")
	h.write(d)
}

// later is when handlers of ten seconds have returned.
func (h *headTest) later() {
	h.t.Helper()
	h.at(11 * time.Second)
	h.upkeep()
}

// TestHeadOfAnotherTenant: a stream that is held for a slow tenant has a turn as soon as the message in front is another tenant's,
// whatever put it there, and a sleeping reader wakes.
func TestHeadOfAnotherTenant(t *testing.T) {
	t.Parallel()
	taken := func(visibility time.Duration) func(h *headTest) {
		return func(h *headTest) {
			h.writeB(Draft{})
			h.other = h.take(1, "b1", visibility)
		}
	}
	nacks := func(cfg NackConfig) func(h *headTest) {
		return func(h *headTest) { nack(h.t, h.Queue, cfg, h.other...) }
	}
	for name, row := range map[string]struct {
		before func(h *headTest)
		third  Draft
		behind func(h *headTest) // when the flow is held
		then   func(h *headTest)
	}{
		"a write goes first":        {nil, Draft{}, nil, func(h *headTest) { h.writeB(Draft{Priority: 1}) }},
		"the message is cancelled":  {nil, Draft{}, func(h *headTest) { h.writeB(Draft{}) }, func(h *headTest) { h.cancel(h.held) }},
		"the message expires":       {nil, Draft{TTL: 10 * time.Second}, func(h *headTest) { h.writeB(Draft{}) }, (*headTest).later},
		"a delay is over":           {func(h *headTest) { h.writeB(Draft{Delay: 10 * time.Second}) }, Draft{}, nil, (*headTest).later},
		"an older one is back":      {taken(time.Hour), Draft{}, nil, nacks(NackConfig{})},
		"an older one is retried":   {taken(time.Hour), Draft{}, nacks(NackConfig{Delay: 10 * time.Second}), (*headTest).later},
		"a visibility is over":      {taken(10 * time.Second), Draft{}, nil, (*headTest).later},
		"an older one is redriven":  {taken(time.Hour), Draft{}, nacks(NackConfig{Dead: true}), func(h *headTest) { h.redrive(h.other[0].ID) }},
		"sixteen are cancelled too": {nil, Draft{}, (*headTest).writeSixteen, (*headTest).cancelSixteen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeadTest(t, redistest.Shared(t).Client(t), row.before, row.third)
			if row.behind != nil {
				row.behind(h)
			}
			h.take(1, "", time.Hour)
			if f := stats(t, h.Queue).Flows; len(f) != 1 || !f[0].Held {
				t.Errorf("the flows are %+v, want one that is held", f)
			}
			client, wake := h.run.Client, baseKey(h.name)+":wake"
			want(t, "tokens", nil, nil, do(t, client, "DEL", wake).Error())
			row.then(h)
			n, err := do(t, client, "LLEN", wake).AsInt64()
			want(t, "tokens", n, int64(1), err)
			h.check()
			h.take(2, "b1", time.Hour)
			h.check()
		})
	}
}

func (h *headTest) check() {
	h.t.Helper()
	wrong, err := h.Check(h.t.Context())
	want(h.t, "wrong", wrong, []string(nil), err)
}

func (h *headTest) cancel(ids ...string) {
	h.t.Helper()
	_, err := h.Cancel(h.t.Context(), ids...)
	want(h.t, "cancel", nil, nil, err)
}

func (h *headTest) redrive(id string) {
	h.t.Helper()
	n, err := h.Dead().Redrive(h.t.Context(), id)
	want(h.t, "redriven", n, 1, err)
}

// writeSixteen fills the entries that lie in hot with messages of tenant a, so that b's is in backlog.
func (h *headTest) writeSixteen() {
	for i := range 15 {
		h.held += " " + h.write(Draft{Tenant: "a", Body: fmt.Append(nil, i)})
	}
	h.writeB(Draft{})
}

func (h *headTest) cancelSixteen() { h.cancel(strings.Fields(h.held)...) }

// TestHeldForAnotherTenantThanBefore: a stream that was held for one tenant, and then is for another one, waits for that one's
// share, also when a message of the first one ends.
func TestHeldForAnotherTenantThanBefore(t *testing.T) {
	t.Parallel()
	h := openHead(t, redistest.Shared(t).Client(t), 9)
	for i := range 6 {
		h.write(Draft{Tenant: "a", Body: fmt.Append(nil, "a", i)})
	}
	first := h.take(9, "a0 a1 a2 a3 a4", time.Hour)
	for range 3 {
		h.writeB(Draft{Priority: 1})
	}
	h.take(9, "b1 b1", time.Hour)
	h.write(Draft{Tenant: "c", Body: []byte("c1"), Priority: 2})
	h.take(9, "c1", time.Hour)
	h.at(time.Second) // a is slow
	ack(t, h.Queue, first[:2]...)
	h.take(9, "b1", time.Hour)
	h.check()
}

// TestHeadOnAFullServer: a write that goes first is refused, though it would give the stream a turn.
func TestHeadOnAFullServer(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	h := newHeadTest(t, client, nil, Draft{})
	h.take(1, "", time.Hour)
	want(t, "maxmemory", nil, nil, do(t, client, "CONFIG", "SET", "maxmemory", "1").Error())
	before := dump(t, h.Queue)
	_, err := h.Write(t.Context(), Draft{Tenant: "b", Priority: 1})
	wantError(t, err, millrace.ErrFull)
	want(t, "the queue", dump(t, h.Queue), before, nil)
	h.cancel(h.held) // what drains works
	want(t, "maxmemory", nil, nil, do(t, client, "CONFIG", "SET", "maxmemory", "0").Error())
	h.check()
}
