package fetch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestMemoryIsBounded: the memory stays within its bytes, whatever it holds.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(rapid.IntRange(1000, 100_000).Draw(t, "most"))
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			key := fmt.Sprint("k", rapid.IntRange(0, 50).Draw(t, "key"))
			switch rapid.IntRange(0, 3).Draw(t, "call") {
			case 0:
				m.forget(key)
			case 1:
				m.fail(key, errLoad, long)
			default:
				e := entry{kind: valueKind, payload: make([]byte, rapid.IntRange(0, 10_000).Draw(t, "size")), left: long}
				m.note(key, e)
				if got := m.recall(key); got.last.found() && len(got.last.payload) != len(e.payload) {
					t.Errorf("recall = %d bytes, want %d", len(got.last.payload), len(e.payload))
				}
			}
			bytes, n := 0, 0
			for at := m.order.Front(); at != nil; at = at.Next() {
				bytes, n = bytes+at.Value.(*memo).size(), n+1
			}
			if bytes != m.bytes || bytes > m.most || n != len(m.of) {
				t.Fatalf("%d bytes of %d, counted %d; %d in order, %d by key", bytes, m.most, m.bytes, n, len(m.of))
			}
		}
	})
}

// TestMemoryKeepsWhatIsUsed: the least recently used value goes first, and a big value
// pushes nothing out.
func TestMemoryKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	e := entry{kind: valueKind, payload: make([]byte, 100), left: long}
	m := newMemory(16 * (memoCost + len(e.payload) + 2))
	for i := range 16 {
		m.note(fmt.Sprintf("%02d", i), e)
	}
	m.recall("00")
	m.note("big", entry{kind: valueKind, payload: make([]byte, m.most/16+1), left: long})
	for key, want := range map[string]bool{"00": true, "01": false, "02": true, "15": true, "big": false} {
		if got := m.recall(key).last.found(); got != want {
			t.Errorf("%s is remembered: %v, want %v", key, got, want)
		}
	}
	m.fail("00", errLoad, time.Nanosecond)
	redistest.Eventually(t, "the failure is forgotten", func() bool { return m.recall("00").failure == nil })
	none := newMemory(-1)
	none.note("k", e)
	if none.recall("k").last.found() {
		t.Error("a memory of no bytes remembers")
	}
}

// TestLastValueInAnOutage: a value seen a moment ago is returned without a load. After that one
// caller computes, and the others get the last value meanwhile, or if that fails.
func TestLastValueInAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	c := openOn(t, server.Client(t), "c", Config{Away: time.Hour, Errors: time.Hour})
	want(t, c, "none", &source{err: millrace.ErrNotFound}, "", Miss, millrace.ErrNotFound)
	for _, key := range []string{"k", "fails", "forgotten"} {
		want(t, c, key, &source{value: "v"}, "v", Miss, nil)
	}
	want(t, c, "k", &source{}, "v", Hit, nil)
	c.timeout = 50 * time.Millisecond
	server.Kill()

	idle := &source{value: "never"}
	for range 3 {
		want(t, c, "k", idle, "v", Remembered, nil)
		want(t, c, "none", idle, "", Remembered, millrace.ErrNotFound)
	}
	wantLoads(t, idle, 0)
	_ = c.Forget(t.Context(), "forgotten") // Redis does not hear of it, but this process does
	want(t, c, "forgotten", &source{value: "new"}, "new", Bypass, nil)
	failing := &source{err: errLoad}
	for range 3 { // nothing is known of it, and it fails once
		want(t, c, "cold", failing, "", Failed, errLoad)
	}
	wantLoads(t, failing, 1)

	c.cfg.Away = -1 // as if it had passed
	s, release := blocked(t, "new")
	first := start(t.Context(), c, "k", s)
	<-s.begun
	want(t, c, "k", idle, "v", Remembered, nil) // while the first computes
	release()
	wantFrom(t, first, "new", Bypass, nil)
	again := &source{err: errLoad}
	for range 3 {
		want(t, c, "fails", again, "v", Remembered, nil)
	}
	wantLoads(t, again, 1)
	wantLoads(t, idle, 0)
}

// TestLastValueHasItsTime: no value is given in an outage for longer than with Redis.
func TestLastValueHasItsTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	c := openOn(t, server.Client(t), "c", Config{TTL: 300 * time.Millisecond, Away: time.Hour})
	want(t, c, "k", &source{value: "v"}, "v", Miss, nil)
	c.timeout = 50 * time.Millisecond
	server.Kill()
	redistest.Eventually(t, "the value's time is over", func() bool {
		_, r, err := Get(t.Context(), c, "k", (&source{err: errLoad}).load)
		return r.Outcome == Failed && errors.Is(err, errLoad)
	})
}

// TestFailureIsShared: a load that failed in one process is not tried by the others, and is
// again after its time or when it is forgotten.
func TestFailureIsShared(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Errors: time.Minute})
	other := openOn(t, redistest.Shared(t).Client(t), c.name, c.cfg)
	idle := &source{value: "v"}
	want(t, c, "k", &source{err: errLoad}, "", Failed, errLoad)
	want(t, c, "k", idle, "", Failed, errLoad)
	want(t, other, "k", idle, "", Failed, ErrFailed)
	if _, _, err := Get(t.Context(), other, "k", idle.load); err == nil || !strings.Contains(err.Error(), errLoad.Error()) {
		t.Errorf("Get = %v, want how the load failed", err)
	}
	wantLoads(t, idle, 0)
	if err := other.Forget(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	want(t, other, "k", idle, "v", Miss, nil)

	c.cfg.Errors, other.cfg.Errors = 10*time.Millisecond, 10*time.Millisecond
	want(t, c, "soon", &source{err: errLoad}, "", Failed, errLoad)
	redistest.Eventually(t, "it is tried again", func() bool {
		_, _, err := Get(t.Context(), other, "soon", idle.load)
		return err == nil
	})
}

// TestFailureWhileOthersWait: a caller that waits in another process when a load fails does not
// load in turn.
func TestFailureWhileOthersWait(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Errors: time.Minute})
	s, release := blocked(t, "")
	s.err = errLoad
	first := start(t.Context(), c, "k", s)
	<-s.begun
	idle := &source{value: "v"}
	var waiting []<-chan got
	for range 3 {
		other := openOn(t, redistest.Shared(t).Client(t), c.name, c.cfg)
		waiting = append(waiting, start(t.Context(), other, "k", idle))
		awaitCallers(t, other, 1)
	}
	release()
	wantFrom(t, first, "", Failed, errLoad)
	for _, w := range waiting {
		wantFrom(t, w, "", Failed, ErrFailed)
	}
	wantLoads(t, idle, 0)
}

// TestOldValueRests: no process repeats a load that failed while there is an old value
// for a while, and the old value does not live longer for it.
func TestOldValueRests(t *testing.T) {
	t.Parallel()
	cfg := Config{TTL: time.Hour, Jitter: -1, Stale: time.Hour, Errors: 10 * time.Minute}
	c := open(t, cfg)
	other := openOn(t, redistest.Shared(t).Client(t), c.name, cfg)
	want(t, c, "k", &source{value: "old"}, "old", Miss, nil)
	age(t, c, "k", 50*time.Minute)
	failing, idle := &source{err: errLoad}, &source{value: "new"}
	want(t, c, "k", failing, "old", Stale, nil)
	for range 3 {
		want(t, c, "k", idle, "old", Stale, nil)
		want(t, other, "k", idle, "old", Stale, nil)
	}
	wantLoads(t, idle, 0)
	if _, left, err := c.keys.Get(t.Context(), "k"); err != nil || left > 50*time.Minute {
		t.Errorf("the old value has %v left, %v, want 50m at most", left, err)
	}
	age(t, c, "k", 39*time.Minute) // ten minutes later
	want(t, other, "k", idle, "new", Miss, nil)
}
