package expiry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// TestItemsAreBounded: items too large for one call are refused before Redis is asked.
func TestItemsAreBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	h := openOn(t, client, "n", Config{})
	large := bytes.Repeat([]byte("x"), shards.MaxValue+1)
	name := strings.Repeat("f", maxField+1)
	ctx := t.Context()
	commands := server.Info("stats")["total_commands_processed"]
	for what, call := range map[string]func() error{
		"Set": func() error { _, err := h.Set(ctx, inHash, "a", large, SetConfig{}); return err },
		"SetMany": func() error {
			_, err := h.SetMany(ctx, inHash, map[string][]byte{"a": large[:shards.MaxValue/2], "b": large[:shards.MaxValue/2], "c": large[:2]}, SetConfig{})
			return err
		},
		"Set of a long name": func() error { _, err := h.Set(ctx, inHash, name, nil, SetConfig{}); return err },
		"Get":                func() error { _, _, err := h.Get(ctx, inHash, name); return err },
		"GetMany":            func() error { _, err := h.GetMany(ctx, inHash, "a", name); return err },
		"Incr":               func() error { _, err := h.Incr(ctx, inHash, name, 1); return err },
		"TTL":                func() error { _, err := timesLeft(ctx, h, inHash, name); return err },
		"Expire":             func() error { _, err := h.Expire(ctx, inHash, hashLong, ExpireConfig{}, name); return err },
		"Persist":            func() error { _, err := h.Expire(ctx, inHash, NoTTL, ExpireConfig{}, name); return err },
		"Delete":             func() error { _, err := h.Remove(ctx, inHash, name); return err },
	} {
		wantHashError(t, what, call(), millrace.ErrTooLarge)
	}
	if now := server.Info("stats")["total_commands_processed"]; now != fmt.Sprint(atoi(t, commands)+1) { // INFO itself
		t.Errorf("the server was sent commands: %s, then %s", commands, now)
	}
	put(t, h, inHash, name[:maxField], string(large[:shards.MaxValue]), 0)
	if len(value(t, h, inHash, name[:maxField])) != shards.MaxValue {
		t.Error("the largest item does not come back")
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n := 0
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRepliesAreBounded: large values come in calls of a mebibyte each.
func TestRepliesAreBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{400_000, 50_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			repliesAreBounded(t, 8_000_000/size, size)
		})
	}
}

// repliesAreBounded reads a hash of n fields of that size.
func repliesAreBounded(t *testing.T, n, size int) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	h := openOn(t, server.Client(t), "n", Config{Shards: 1})
	large := strings.Repeat("x", size)
	var names []string
	for i := range n {
		name := fmt.Sprint(i)
		names = append(names, name)
		put(t, h, inHash, name, large, hashLong)
	}
	// HSCAN brings whole buckets, and up to three of them while the hash grows. Their fields follow the server's seed:
	// more than twelve beyond the limit are not to be expected in a million runs.
	const bucket = 12
	calls := map[string]struct {
		beyond int // fields beyond a mebibyte
		get    func() int
	}{
		"GetMany": {1, func() int { many, _ := h.GetMany(t.Context(), inHash, names...); return len(many) }},
		"GetAll":  {bucket, func() int { return len(all(t, h, inHash)) }},
		"Scan":    {bucket, func() int { return len(scanned(t, h, inHash)) }},
	}
	if 10*size > script.MaxBytes { // GetMany requests ten fields before it knows a size
		delete(calls, "GetMany")
	}
	for what, call := range calls {
		largest := func(library *script.Library, bytes int) int {
			reply := shardstest.Measure(server)
			h.space.Run.Scripts, h.space.PageBytes, h.space.Run.Hooks = library, bytes, []millrace.Hook{reply}
			defer func() { h.space.Run.Hooks = nil }()
			if got := call.get(); got != n {
				t.Errorf("%s brought %d, want %d", what, got, n)
			}
			return reply.Bytes
		}
		most := 1<<20 + call.beyond*size
		if got := largest(kind.Library, script.MaxBytes); got > most {
			t.Errorf("a reply of %s has %d bytes, want at most %d", what, got, most)
		}
		if got := largest(scripttest.Without(t, kind.Library, "1048576", "1e9"), 1e9); got <= most {
			t.Errorf("a reply of %s has %d bytes without a limit: this shows nothing", what, got)
		}
	}
}

// TestLargeFieldsAreChanged: a call changes deadlines of about a mebibyte of large fields;
// after a mebibyte of old values a write goes by the index.
func TestLargeFieldsAreChanged(t *testing.T) {
	t.Parallel()
	h := open(t, Config{Shards: 1})
	ctx := t.Context()
	const n, size = 40, 100_000
	large := []byte(strings.Repeat("x", size))
	var names []string
	small := map[string][]byte{}
	for i := range n {
		name := fmt.Sprint(i)
		names, small[name] = append(names, name), []byte("small")
		cfg := SetConfig{TTL: hashLong}
		if i%2 == 1 {
			cfg = SetConfig{}
		}
		if _, err := h.Set(ctx, inHash, name, large, cfg); err != nil {
			t.Fatal(err)
		}
	}
	calls := &callCount{}
	h.space.Run.Hooks = []millrace.Hook{calls}
	codes, err := h.Expire(ctx, inHash, 2*hashLong, ifLonger, append(names, "none", "0")...)
	h.space.Run.Hooks = nil
	want := make([]Outcome, n+2)
	for i := range n {
		want[i] = Outcome(1 - i%2)
	}
	want[n], want[n+1] = HasNoField, NotMet // fields set in another call have a deadline that is no longer
	if codes[n+1] == Applied {
		want[n+1] = Applied // but for the milliseconds between them
	}
	if diff := cmp.Diff(want, codes); err != nil || diff != "" || calls.n < 2 || calls.n > 4 {
		t.Errorf("Expire in %d calls: %v (-want +got):\n%s", calls.n, err, diff)
	}
	expire(t, h, inHash, "1", "2", "38") // of which the first has no deadline
	if got, err := h.SetMany(ctx, inHash, small, SetConfig{IfExist: true}); err != nil || got {
		t.Errorf("SetMany if all are there = %+v, %v", got, err)
	}
	if got, err := h.SetMany(ctx, inHash, small, SetConfig{KeepTTL: true}); err != nil || !got {
		t.Errorf("SetMany = %v, %v", got, err)
	}
	for name, has := range map[string]bool{"0": true, "1": false, "2": false, "36": true, "38": false, "39": false} {
		if ttl := ttlOf(t, h, inHash, name); (ttl > 0) != has {
			t.Errorf("TTL of %s = %v", name, ttl)
		}
	}
	if n, err := h.Remove(ctx, inHash, names...); err != nil || n != len(names) {
		t.Errorf("Delete = %d, %v", n, err)
	}
}

// callCount counts calls.
type callCount struct{ n int }

func (c *callCount) OnCall(ctx context.Context, _ millrace.Call) (context.Context, func(error)) {
	c.n++
	return ctx, nil
}

// TestNothingStaysForEver: when the last value has gone, and the lanes rest, a namespace
// keeps a few small keys, the same whatever it held.
func TestNothingStaysForEver(t *testing.T) {
	t.Parallel()
	if err := leaveBehind(t, kind.Library); err != nil {
		t.Error(err)
	}
	if leaveBehind(t, scripttest.Without(t, kind.Library, "\ntidy_lanes()\n", "\n")) == nil {
		t.Error("lanes that rest are forgotten by themselves: this shows nothing")
	}
}

// leaveBehind uses a namespace, a little and then much, until it is empty. It returns
// an error if too much remains.
func leaveBehind(t *testing.T, library *script.Library) (wrong error) {
	t.Helper()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	h := openOn(t, client, "n", Config{Shards: 1})
	h.space.Run.Scripts = library
	ctx := t.Context()
	use := func(n int) []string {
		for i := range n {
			name := fmt.Sprint(i)
			put(t, h, name, "a", "1", hashLong)
			put(t, h, name, "b", "1", 0)
			expire(t, h, name, "a")
			if _, err := h.Remove(ctx, name, "b"); err != nil {
				t.Fatal(err)
			}
		}
		h.space.Run.Lanes = &reqid.Lanes{} // so many calls at once have as many lanes
		for range n {
			h.space.Run.Request(ctx)
			if _, err := h.Set(ctx, "last", "a", nil, SetConfig{Deadline: time.Unix(1, 0), IfNone: true}); err != nil {
				t.Fatal(err)
			}
		}
		shardstest.AgeLanes(t, client, baseOf(t, h, "a"))
		for range 3 {
			if _, err := h.Jobs()[0].Slice(ctx); err != nil {
				t.Fatal(err)
			}
		}
		left, err := shardstest.KeysLeft(t, client)
		wrong = errors.Join(wrong, err)
		return left
	}
	few := use(2)
	if len(few) != 5 { // the record, and four keys of the shard
		wrong = fmt.Errorf("left are %v", few)
	}
	if diff := cmp.Diff(few, use(100)); diff != "" {
		wrong = fmt.Errorf("keys after more use (-want +got):\n%s", diff)
	}
	return wrong
}
