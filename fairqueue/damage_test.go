package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// everyCall makes each call of a queue once.
func everyCall(ctx context.Context, q *Queue, m Message, deadID string) map[string]func() error {
	return map[string]func() error{
		"Write":    func() error { _, err := q.Write(ctx, Draft{Tenant: "a", DedupeID: "other"}); return err },
		"Delayed":  func() error { _, err := q.Write(ctx, Draft{Tenant: "a", Delay: time.Hour}); return err },
		"Deadline": func() error { _, err := q.Write(ctx, Draft{Tenant: "a", TTL: time.Hour}); return err },
		"Source":   func() error { _, err := q.Write(ctx, Draft{Tenant: "a", Source: "s", Position: 1}); return err },
		"Sources":  func() error { _, err := q.Sources().All(ctx); return err },
		"Position": func() error { return q.Sources().SetPosition(ctx, "s", 5) },
		"Read":     func() error { _, err := q.Read(ctx, ReadConfig{Max: 10}); return err },
		"Ack":      func() error { _, err := q.Ack(ctx, m.Receipt); return err },
		"Nack":     func() error { _, err := q.Nack(ctx, NackConfig{}, m.Receipt); return err },
		"NackAs":   func() error { _, err := q.Nack(ctx, NackConfig{Delay: time.Hour}, m.Receipt); return err },
		"Die":      func() error { _, err := q.Nack(ctx, NackConfig{Dead: true}, m.Receipt); return err },
		"Extend":   func() error { _, err := q.Extend(ctx, time.Minute, m.Receipt); return err },
		"Cancel":   func() error { _, err := q.Cancel(ctx, m.ID); return err },
		"Redrive":  func() error { _, err := q.Dead().Redrive(ctx, deadID); return err },
		"Purge":    func() error { _, err := q.Dead().Purge(ctx, deadID); return err },
		"Resize":   func() error { return q.Resize(ctx, 2, 0) },
		"Pause":    func() error { return q.Pause(ctx) },
		"Resume":   func() error { return q.Resume(ctx) },
		"Weight":   func() error { return setWeight(q, ctx, "a", 2) },
		"Limits":   func() error { return q.Limits().Set(ctx, "", OwnLimits{MaxInFlight: new(1)}) },
		"Throttle": func() error {
			_, err := q.shared.work(ctx, []workRequest{{q: q, settle: []settlement{{m.receipt(), throttleVerb, settleArg(time.Hour, "")}}}}, false)
			return err
		},
		"PauseTenant":  func() error { return q.Limits().Pause(ctx, "a", time.Hour) },
		"ResumeTenant": func() error { return q.Limits().Resume(ctx, "a") },
		"PurgeTenant":  func() error { _, err := q.PurgeTenant(ctx, "a"); return err },
		"KeepDead":     func() error { return q.Dead().Keep(ctx, 1, 0) },
		"DeadAfter":    func() error { return q.Dead().After(ctx, 1) },
		"Stats":        func() error { _, err := q.Stats(ctx); return err },
		"Browse":       func() error { _, _, err := q.Browse(ctx, BrowseConfig{}); return err },
		"BrowseInFlight": func() error {
			_, _, err := q.Browse(ctx, BrowseConfig{State: InFlight, Tenant: "a"})
			return err
		},
		"BrowseDelayed": func() error { _, _, err := q.Browse(ctx, BrowseConfig{State: Delayed}); return err },
		"Len":           func() error { _, err := q.Len(ctx); return err },
		"Tend":          func() error { _, err := q.call(ctx, "tend", ""); return err },
		"Dead": func() error {
			for _, err := range q.Dead().All(ctx) {
				return err
			}
			return nil
		},
	}
}

// busyQueue returns a queue that has all of its keys: one message in flight that
// has moved, one that waits, one that is delayed and one that is dead.
func busyQueue(t *testing.T, client rueidis.Client) (q *Queue, flying Message, deadID string) {
	t.Helper()
	q = openOn(t, client, redistest.Name(t), Config{})
	if _, err := q.Write(t.Context(), Draft{Tenant: "a", Delay: time.Hour, DedupeID: "x"}); err != nil {
		t.Fatal(err)
	}
	write(t, q, "a:dead a:flying")
	both := read(t, q, 2)
	for i, cfg := range []NackConfig{{Dead: true}, {}} {
		nack(t, q, cfg, both[i])
	}
	flying = read(t, q, 1)[0]
	write(t, q, "a:waits")
	return q, flying, both[0].ID
}

// busyLimited returns such a queue in which tenants have limits.
func busyLimited(t *testing.T, client rueidis.Client) (q *Queue, flying Message, deadID string) {
	t.Helper()
	q, _, deadID = busyQueue(t, client)
	limits := OwnLimits{MaxInFlight: new(10), Rate: new(1000.0), MaxWaiting: new(100)}
	for _, err := range []error{
		q.Limits().Set(t.Context(), "", limits), q.Limits().Set(t.Context(), "x", limits),
		q.Limits().Pause(t.Context(), "b", 0),
	} {
		want(t, "limits", nil, nil, err)
	}
	for _, tenant := range []string{"x", "y"} {
		_, err := q.Write(t.Context(), Draft{Tenant: tenant})
		want(t, "write", nil, nil, err)
	}
	return q, read(t, q, 1)[0], deadID
}

// TestWrongTypesAreRefusedWhole: with a foreign value under any one of the
// queue's keys, each call either does all of its work, because it does not need
// that key, or fails with ErrBroken and changes nothing.
func TestWrongTypesAreRefusedWhole(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for name, busy := range map[string]func(*testing.T, rueidis.Client) (*Queue, Message, string){"": busyQueue, " with limits": busyLimited} {
		for part := range dump(t, func() *Queue { q, _, _ := busy(t, client); return q }()) {
			if name != "" && (!redistest.More() || !slices.Contains([]string{":limits", ":asleep", ":buckets", ":blocked", ":hot", ":active"}, part)) {
				continue // the others as without limits
			}
			t.Run("key"+part+name, func(t *testing.T) {
				t.Parallel()
				var q *Queue
				var flying Message
				var deadID string
				for call := range everyCall(t.Context(), nil, Message{}, "") {
					if q == nil {
						q, flying, deadID = busy(t, client)
						if err := do(t, client, "SET", baseKey(q.name)+part, "foreign").Error(); err != nil {
							t.Fatal(err)
						}
					}
					before := dump(t, q)
					err := everyCall(t.Context(), q, flying, deadID)[call]()
					if err == nil {
						q = nil // the next call begins with another one
						continue
					}
					if !errors.Is(err, millrace.ErrBroken) && (name == "" || call != "Resize") { // there are limits
						t.Errorf("%s: error = %v, want ErrBroken", call, err)
					}
					after := dump(t, q)
					if after[":wake"] == "" {
						delete(before, ":wake") // it has expired, as tokens that wake no reader do
					}
					if diff := cmp.Diff(before, after); diff != "" {
						t.Errorf("%s was refused and changed the queue (-before +after):\n%s", call, diff)
					}
				}
			})
		}
	}
}

// TestUnknownVersionIsRefused by each call, and the first design's, too.
func TestUnknownVersionIsRefused(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, version := range []string{"1", "2", "4"} {
		q, flying, deadID := busyQueue(t, client)
		if err := do(t, client, "HSET", baseKey(q.name), "version", version).Error(); err != nil {
			t.Fatal(err)
		}
		if err := do(t, client, "HSET", baseKey(q.name)+":hot", "w", "", "t", "").Error(); err != nil { // see docs/WIRE.md
			t.Fatal(err)
		}
		before := dump(t, q)
		for name, call := range everyCall(t.Context(), q, flying, deadID) {
			if err := call(); !errors.Is(err, millrace.ErrVersion) {
				t.Errorf("%s of version %s: error = %v, want ErrVersion", name, version, err)
			}
		}
		if diff := cmp.Diff(before, dump(t, q)); diff != "" {
			t.Errorf("refused calls changed the queue (-before +after):\n%s", diff)
		}
		wantError(t, q.Consume(t.Context(), ConsumeConfig{}, nil), millrace.ErrVersion)
		_, err := q.Sources().Position(t.Context(), "s")
		wantError(t, err, millrace.ErrVersion)
	}
}

// TestRecordIsLost: a queue whose own hash is gone is broken, whatever of it is
// left, and not an empty one (Q5 in docs/DEFECTS.md). Short calls do not need it, and messages come out.
func TestRecordIsLost(t *testing.T) {
	t.Parallel()
	q, flying, deadID := busyQueue(t, redistest.Shared(t).Client(t))
	for _, g := range []*general{&q.shared.general, &q.shared.generalWrite} { // for the general calls
		g.until.Store(time.Now().Add(time.Hour).UnixNano())
	}
	for _, key := range []string{"", ":hot", ":active", ":backlog", ":flight", ":delayed", ":dead"} { // one after the other
		if n, err := do(t, q.run.Client, "DEL", baseKey(q.name)+key).AsInt64(); n != 1 || err != nil {
			t.Fatalf("delete %q = %d, %v", key, n, err)
		}
		before := dump(t, q)
		for name, call := range everyCall(t.Context(), q, flying, deadID) {
			reads := slices.Contains([]string{"Stats", "Len", "Sources"}, name) // they read two keys, and find no queue
			if err := call(); !errors.Is(err, millrace.ErrBroken) && (key == "" || !reads) {
				t.Errorf("%s without the keys up to %q: error = %v, want ErrBroken", name, key, err)
			}
		}
		if diff := cmp.Diff(before, dump(t, q)); diff != "" {
			t.Errorf("refused calls changed the queue (-before +after):\n%s", diff)
		}
	}
	if _, err := q.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	want(t, "keys that Delete left", len(dump(t, q)), 0, nil)
}

// TestKeyIsLost: a queue that has lost a key says so when it is read, or has all messages
// come out all the same. It does not hide them.
func TestKeyIsLost(t *testing.T) {
	t.Parallel()
	for _, part := range []string{":hot", ":backlog", ":active", ":young", ":flight", ":delayed", ":blocked", ":deadlines", ":dead", ":deaths"} {
		t.Run("key"+part, func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{})
			write(t, q, "a:dead a:flying b:waiting")
			nack(t, q, NackConfig{Dead: true, Reason: "x"}, read(t, q, 1)[0])
			if _, err := q.Read(t.Context(), ReadConfig{Visibility: minVisibility}); err != nil {
				t.Fatal(err)
			}
			if _, err := q.Write(t.Context(), Draft{Tenant: "a", Body: []byte("delayed"), Delay: minVisibility}); err != nil {
				t.Fatal(err)
			}
			if n, err := do(t, q.run.Client, "DEL", baseKey(q.name)+part).AsInt64(); n != 1 || err != nil {
				t.Fatalf("there was no key %s: the test shows nothing (%v)", part, err)
			}
			passes(t, q.run.Client, 2*minVisibility)
			seen := map[string]bool{}
			redistest.Eventually(t, "it is said, or all come out", func() bool {
				some, err := q.Read(t.Context(), ReadConfig{Max: 10})
				for _, m := range some {
					seen[string(m.Body)] = true
				}
				if err != nil && !errors.Is(err, ErrEmpty) && !errors.Is(err, millrace.ErrBroken) {
					t.Fatalf("read: %v", err)
				}
				if errors.Is(err, millrace.ErrBroken) {
					return true
				}
				dead := 0
				for m, err := range q.Dead().All(t.Context()) {
					if errors.Is(err, millrace.ErrBroken) {
						return true
					}
					if m.Reason != "" {
						dead++
					}
				}
				return stats(t, q).Counters.Lost > 0 || len(seen) == 3 && dead == 1
			})
		})
	}
}

// TestCancelledCallsReturn pauses the server, so that only the context can end a
// call. The best of several tries must return within 50 ms of the cancel: a busy
// machine may delay some, but not all.
func TestCancelledCallsReturn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q, flying, deadID := busyQueue(t, server.Client(t))
	calls := everyCall(t.Context(), nil, Message{}, "")
	defer server.Resume()
	server.Pause()
	for name := range calls {
		for _, deadline := range []bool{false, true} {
			best := time.Hour
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				if deadline { // one that is far away must not hide the cancel
					ctx, cancel = context.WithTimeout(ctx, time.Minute)
				}
				var cancelled time.Time
				timer := time.AfterFunc(5*time.Millisecond, func() {
					cancelled = time.Now()
					cancel()
				})
				err := everyCall(ctx, q, flying, deadID)[name]()
				timer.Stop()
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: error = %v, want context.Canceled", name, err)
				}
				best = min(best, time.Since(cancelled))
				cancel()
			}
			if best > 50*time.Millisecond {
				t.Errorf("%s (deadline: %v) returns %v after the cancel, more than 50 ms", name, deadline, best)
			}
		}
	}
}

// TestBodyIsLost: messages whose bodies another program deleted are counted as lost, and hide no
// others.
func TestBodyIsLost(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ids := write(t, q, "a:1 a:2 a:3 b:4")
	for _, id := range ids[:2] {
		do(t, q.run.Client, "HDEL", baseKey(q.name)+":hot", id)
	}
	seen := map[string]bool{}
	for _, m := range read(t, q, 10) {
		seen[string(m.Body)] = true
		ack(t, q, m)
	}
	want(t, "read", fmt.Sprint(seen), fmt.Sprint(map[string]bool{"3": true, "4": true}), nil)
	want(t, "lost", stats(t, q).Counters.Lost, int64(2), nil)
	wantSizes(t, q, 0, 0, 0, 0)
}
