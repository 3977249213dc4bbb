package fairqueue

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a{b", "a}", "a\n", strings.Repeat("x", 513)} {
		_, err := New(nil, name, Config{})
		wantError(t, err, millrace.ErrBadName)
	}
	for _, cfg := range []Config{
		{Streams: -1}, {Streams: maxStreams + 1}, {Streams: 1, PerTenant: -1}, {PerTenant: 1}, {MaxAttempts: -1}, {DedupeWindow: -1}, {Gzip: -1},
		{Legacy: []Legacy{{Stream: "x"}}}, {Legacy: []Legacy{{Group: "g"}}}, {Legacy: []Legacy{{Stream: "x", Shuffle: "y", Group: "g"}}},
		{Legacy: []Legacy{{Stream: strings.Repeat("x", 401), Group: "g"}}}, {Legacy: []Legacy{{Shuffle: "x", Group: "g", ClaimAfter: -1}}}, {IdleExpiry: -1}, {ExpireFull: true},
	} {
		_, err := New(nil, "x", cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
	long := strings.Repeat("x", 513)
	q := openOn(t, nil, "x", Config{}) // none of this asks Redis
	for _, d := range []Draft{
		{}, {Tenant: long}, {Tenant: "a", DedupeID: long}, {Tenant: "a", Delay: -1}, {Tenant: "a", TTL: -1}, {Tenant: "a", TTL: 1},
		{Tenant: "a", Priority: 5}, {Tenant: "a", Priority: -5}, {Tenant: "a", Headers: map[string]string{"k": "\xff"}},
	} {
		_, err := q.WriteBatch(t.Context(), Draft{Tenant: "fine"}, d)
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, cfg := range []ReadConfig{{Max: -1}, {Max: 1001}, {Visibility: time.Millisecond}, {Visibility: 13 * time.Hour}} {
		_, err := q.Read(t.Context(), cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, receipt := range []string{"", "x", "!", receipt("x").String(), receipt("c0000000000000000").String(), receipt(strings.Repeat("0", 60)).String()} {
		_, err := q.Ack(t.Context(), receipt)
		wantError(t, err, millrace.ErrBadArgument)
		_, err = q.Nack(t.Context(), NackConfig{}, receipt)
		wantError(t, err, millrace.ErrBadArgument)
		_, err = q.Extend(t.Context(), time.Minute, receipt)
		wantError(t, err, millrace.ErrBadArgument)
	}
	_, err := q.Extend(t.Context(), time.Millisecond)
	wantError(t, err, millrace.ErrBadArgument)
	for _, id := range []string{"", "x", "1-1", "123456789012345", "12345678901234567", "123456789012345x"} {
		_, err := q.Cancel(t.Context(), id)
		wantError(t, err, millrace.ErrBadArgument)
		_, err = q.Dead().Redrive(t.Context(), id)
		wantError(t, err, millrace.ErrBadArgument)
		_, err = q.Dead().Purge(t.Context(), id)
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, cfg := range []BrowseConfig{
		{Max: -1}, {Max: 1001}, {State: "x"}, {Tenant: long}, {After: "x"}, {After: "!"}, {After: receipt("1").String()},
		{After: receipt("12345678901234567 1").String()},
	} {
		_, _, err := q.Browse(t.Context(), cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
	_, err = q.Nack(t.Context(), NackConfig{Delay: -1}, "x")
	wantError(t, err, millrace.ErrBadArgument)
	for _, size := range [][2]int{{-1, 0}, {maxStreams + 1, 1}, {4, 5}, {4, -1}, {0, 1}} {
		wantError(t, q.Resize(t.Context(), size[0], size[1]), millrace.ErrBadArgument)
	}
	wantError(t, q.Dead().Keep(t.Context(), -1, 0), millrace.ErrBadArgument)
	wantError(t, q.Dead().Keep(t.Context(), 0, -1), millrace.ErrBadArgument)
	for _, weight := range []float64{-1, 0, 0.009, 101, nan()} {
		wantError(t, setWeight(q, t.Context(), "a", weight), millrace.ErrBadArgument)
	}
	for _, l := range []OwnLimits{
		{MaxInFlight: new(-1)}, {MaxShare: new(1.1)}, {Rate: new(1e7)}, {Rate: new(1e-7)}, {Burst: new(-1)}, {Rate: new(0.0), Burst: new(1)},
		{Rate: new(1e-6), Burst: new(1000)}, {MaxWaiting: new(-1)},
	} {
		wantError(t, q.Limits().Set(t.Context(), "a", l), millrace.ErrBadArgument)
		wantError(t, q.Limits().SetIfUnset(t.Context(), "a", l), millrace.ErrBadArgument)
	}
	wantError(t, q.Limits().Clear(t.Context(), "a", "weight", "x"), millrace.ErrBadArgument)
	wantError(t, setWeight(q, t.Context(), long, 1), millrace.ErrBadArgument)
	for _, cfg := range []ConsumeConfig{
		{Concurrency: -1}, {Concurrency: 1001}, {Visibility: 1}, {Drain: -1}, {Timeout: -1}, {MaxRun: -1}, {Name: "a\nb"}, {Name: long},
	} {
		wantError(t, q.Consume(t.Context(), cfg, nil), millrace.ErrBadArgument)
	}
}

// nan is no number.
func nan() float64 { zero := 0.0; return zero / zero }

// TestNoQueue checks the results of calls on a queue that does not exist.
func TestNoQueue(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ctx := t.Context()
	_, err := q.Stats(ctx)
	wantError(t, err, millrace.ErrNotFound)
	for _, call := range []func() error{
		func() error { return q.Pause(ctx) }, func() error { return q.Resume(ctx) }, func() error { return q.Resize(ctx, 4, 2) },
		func() error { return q.Dead().Keep(ctx, 1, 0) }, func() error { return q.Limits().Pause(ctx, "a", 0) },
	} {
		wantError(t, call(), millrace.ErrNotFound)
	}
	for _, call := range []func() (int, error){
		func() (int, error) { return q.Dead().Redrive(ctx, "1234567890123456") },
		func() (int, error) { return q.Dead().Purge(ctx, "1234567890123456") },
		func() (int, error) { return q.Delete(ctx) },
		func() (int, error) { return q.Len(ctx) },
	} {
		n, err := call()
		want(t, "count", n, 0, err)
	}
	places, err := q.Cancel(ctx, "1234567890123456")
	want(t, "cancel", places, []State{Gone}, err)
	for m, err := range q.Dead().All(ctx) {
		t.Errorf("dead = %v, %v", m, err)
	}
	want(t, "keys", len(dump(t, q)), 0, nil)
}

// TestTooLarge: a message has a mebibyte with all that travels with it, and a batch that is
// larger goes in several calls.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	_, err := q.WriteBatch(t.Context(), Draft{Tenant: "a"}, Draft{Tenant: "a", Body: make([]byte, maxMessage)})
	wantError(t, err, millrace.ErrTooLarge)
	_, err = q.Write(t.Context(), Draft{Tenant: "a", Body: make([]byte, maxMessage-100), Headers: map[string]string{"k": strings.Repeat("x", 100)}})
	wantError(t, err, millrace.ErrTooLarge)
	want(t, "keys", len(dump(t, q)), 0, nil)
	large := Draft{Tenant: "a", Body: make([]byte, maxMessage-2)}
	written, err := q.WriteBatch(t.Context(), large, large, Draft{Tenant: "b"})
	want(t, "written", len(written), 3, err)
	got := read(t, q, 10)
	if len(got) == 0 || len(got) == 3 && len(got[0].Body)+len(got[2].Body) > 1<<20+1<<18 {
		t.Errorf("a read brought %d messages of a mebibyte", len(got))
	}
	ack(t, q, got...)
	for range 3 {
		ack(t, q, read(t, q, 10)...)
	}
	wantSizes(t, q, 0, 0, 0, 0)
	shared := openOn(t, redistest.Shared(t).Client(t), q.name, Config{Gzip: 1000})
	_, err = shared.Write(t.Context(), Draft{Tenant: "a", Body: make([]byte, 4*maxMessage)}) // zeros, which gzip makes small
	want(t, "write of what is small when it is compressed", nil, nil, err)
	if m := read(t, q, 1)[0]; len(m.Body) != 4*maxMessage {
		t.Errorf("%d bytes", len(m.Body))
	}
}
