package expiry

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/script/scripttest"
)

// TestItemsAreBounded: what is too large for one call is refused before Redis is asked.
func TestItemsAreBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	h, k := openHashesOn(t, client, "n", HashesConfig{}), openKeysOn(t, client, "n", KeysConfig{})
	large := bytes.Repeat([]byte("x"), MaxValue+1)
	name := strings.Repeat("f", MaxField+1)
	ctx := t.Context()
	commands := server.Info("stats")["total_commands_processed"]
	for what, call := range map[string]func() error{
		"Keys.Set": func() error { _, err := k.Set(ctx, "a", large, keyLong, SetKeyConfig{}); return err },
		"Set":      func() error { _, err := h.Set(ctx, inHash, "a", large, SetConfig{}); return err },
		"SetMany": func() error {
			_, err := h.SetMany(ctx, inHash, map[string][]byte{"a": large[:MaxValue/2], "b": large[:MaxValue/2], "c": large[:2]}, SetConfig{})
			return err
		},
		"Set of a long name": func() error { _, err := h.Set(ctx, inHash, name, nil, SetConfig{}); return err },
		"Get":                func() error { _, _, err := h.Get(ctx, inHash, name); return err },
		"GetMany":            func() error { _, err := h.GetMany(ctx, inHash, "a", name); return err },
		"Incr":               func() error { _, err := h.Incr(ctx, inHash, name, 1); return err },
		"TTL":                func() error { _, err := h.TTL(ctx, inHash, name); return err },
		"Expire":             func() error { _, err := h.Expire(ctx, inHash, hashLong, ExpireConfig{}, name); return err },
		"Persist":            func() error { _, err := h.Persist(ctx, inHash, name); return err },
		"Delete":             func() error { _, err := h.Delete(ctx, inHash, name); return err },
	} {
		wantHashError(t, what, call(), millrace.ErrTooLarge)
	}
	if now := server.Info("stats")["total_commands_processed"]; now != fmt.Sprint(atoi(t, commands)+1) { // INFO itself
		t.Errorf("the server was sent commands: %s, then %s", commands, now)
	}
	setKey(t, k, "a", string(large[:MaxValue]), keyLong)
	put(t, h, inHash, name[:MaxField], string(large[:MaxValue]), 0)
	if len(getKey(t, k, "a")) != MaxValue || len(value(t, h, inHash, name[:MaxField])) != MaxValue {
		t.Error("the largest items do not come back")
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

// TestRepliesAreBounded: large values come in calls of about a mebibyte each.
func TestRepliesAreBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	h, k := openHashesOn(t, client, "n", HashesConfig{Shards: 1}), openKeysOn(t, client, "n", KeysConfig{Shards: 1})
	const n, size = 40, 100_000
	large := strings.Repeat("x", size)
	var names []string
	for i := range n {
		name := fmt.Sprint(i)
		names = append(names, name)
		put(t, h, inHash, name, large, hashLong)
		setKey(t, k, name, large, keyLong)
	}
	sent := func() int { return atoi(t, server.Info("stats")["total_net_output_bytes"]) }
	for what, call := range map[string]func() int{
		"GetMany":      func() int { many, _ := h.GetMany(t.Context(), inHash, names...); return len(many) },
		"GetAll":       func() int { return len(all(t, h, inHash)) },
		"Scan":         func() int { return len(scanned(t, h, inHash)) },
		"Keys.GetMany": func() int { many, _ := k.GetMany(t.Context(), names...); return len(many) },
	} {
		largest := func(library *script.Library, bytes int) int {
			calls := &largestReply{sent: sent, before: sent()}
			h.space.run.Scripts, k.space.run.Scripts = library, library
			h.space.pageBytes, k.space.pageBytes = bytes, bytes
			h.space.run.Hooks, k.space.run.Hooks = []millrace.Hook{calls}, []millrace.Hook{calls}
			defer func() { h.space.run.Hooks, k.space.run.Hooks = nil, nil }()
			if got := call(); got != n {
				t.Errorf("%s brought %d, want %d", what, got, n)
			}
			return calls.largest
		}
		const most = 1<<20 + 2*size
		if got := largest(library, script.MaxBytes); got > most {
			t.Errorf("a reply of %s has %d bytes", what, got)
		}
		if got := largest(scripttest.Without(t, library, "1048576", "1e9"), 1e9); got <= most {
			t.Errorf("a reply of %s has %d bytes without a limit: this shows nothing", what, got)
		}
	}
}

// TestLargeFieldsAreChanged: deadlines of large fields are changed about a mebibyte of them
// in a call, and behind a mebibyte of what was there before a write goes by the index.
func TestLargeFieldsAreChanged(t *testing.T) {
	t.Parallel()
	h := openHashes(t, HashesConfig{Shards: 1})
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
	h.space.run.Hooks = []millrace.Hook{calls}
	codes, err := h.Expire(ctx, inHash, 2*hashLong, ExpireConfig{Only: Longer}, append(names, "none", "0")...)
	h.space.run.Hooks = nil
	want := make([]Outcome, n+2)
	for i := range n {
		want[i] = Outcome(1 - i%2)
	}
	want[n], want[n+1] = HasNoField, NotMet // what was set in another call has a deadline that is no longer
	if codes[n+1] == Applied {
		want[n+1] = Applied // but for the milliseconds between them
	}
	if diff := cmp.Diff(want, codes); err != nil || diff != "" || calls.n < 2 || calls.n > 4 {
		t.Errorf("Expire in %d calls: %v (-want +got):\n%s", calls.n, err, diff)
	}
	expire(t, h, inHash, "1", "2", "38") // of which the first has no deadline
	if got, err := h.SetMany(ctx, inHash, small, SetConfig{IfExist: true}); err != nil || got.Set {
		t.Errorf("SetMany if all are there = %+v, %v", got, err)
	}
	if got, err := h.SetMany(ctx, inHash, small, SetConfig{KeepTTL: true}); err != nil || got.Created != 2 {
		t.Errorf("SetMany = %+v, %v, want 2 that were expired", got, err)
	}
	for name, has := range map[string]bool{"0": true, "1": false, "2": false, "36": true, "38": false, "39": false} {
		if ttl := ttlOf(t, h, inHash, name); (ttl > 0) != has {
			t.Errorf("TTL of %s = %v", name, ttl)
		}
	}
	if n, err := h.Delete(ctx, inHash, names...); err != nil || n != len(names) {
		t.Errorf("Delete = %d, %v", n, err)
	}
}

// callCount counts calls.
type callCount struct{ n int }

func (c *callCount) OnCall(ctx context.Context, _ millrace.Call) (context.Context, func(error)) {
	c.n++
	return ctx, nil
}

// largestReply is how many bytes the server sent for one call, at most.
type largestReply struct {
	sent    func() int
	before  int
	largest int
}

func (r *largestReply) OnCall(ctx context.Context, _ millrace.Call) (context.Context, func(error)) {
	return ctx, func(error) {
		now := r.sent()
		r.largest, r.before = max(r.largest, now-r.before), r.sent()
	}
}

// TestNothingStaysForEver: when the last value has gone, and the lanes rest, what is left of
// a namespace is a few small keys, the same whatever there was.
func TestNothingStaysForEver(t *testing.T) {
	t.Parallel()
	if err := leaveBehind(t, library); err != nil {
		t.Error(err)
	}
	if leaveBehind(t, scripttest.Without(t, library, "\ntidy_lanes()\n", "\n")) == nil {
		t.Error("lanes that rest are forgotten by themselves: this shows nothing")
	}
}

// leaveBehind uses two namespaces, a little and then much, until nothing is in them. It
// returns what is wrong with what is left.
func leaveBehind(t *testing.T, library *script.Library) (wrong error) {
	t.Helper()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	h, k := openHashesOn(t, client, "n", HashesConfig{Shards: 1}), openKeysOn(t, client, "n", KeysConfig{Shards: 1})
	h.space.run.Scripts, k.space.run.Scripts = library, library
	ctx := t.Context()
	use := func(n int) {
		for i := range n {
			name := fmt.Sprint(i)
			put(t, h, name, "a", "1", hashLong)
			put(t, h, name, "b", "1", 0)
			expire(t, h, name, "a")
			if _, err := h.Delete(ctx, name, "b"); err != nil {
				t.Fatal(err)
			}
			setKey(t, k, name, "x", keyLong)
			setKey(t, k, name+" over", "x", keyLong)
			keyOver(t, k, name+" over")
			if _, err := k.Delete(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		// So many calls at once have as many lanes.
		h.space.run.Lanes, k.space.run.Lanes = &reqid.Lanes{}, &reqid.Lanes{}
		for range n {
			h.space.run.Request(ctx)
			k.space.run.Request(ctx)
			if _, err := h.Set(ctx, "last", "a", nil, SetConfig{Deadline: time.Unix(1, 0)}); err != nil {
				t.Fatal(err)
			}
			setKey(t, k, "last", "x", keyLong)
		}
		if _, err := k.Delete(ctx, "last"); err != nil {
			t.Fatal(err)
		}
		for _, base := range []string{baseOf(t, h, "a"), keyBase(t, k, "a")} {
			rest(t, client, base)
		}
	}
	left := func() map[string]int64 {
		for _, job := range []millrace.Job{h.ReapJob(), k.ReapJob()} {
			for range 3 {
				if _, err := job.Slice(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		names, err := client.Do(ctx, client.B().Keys().Pattern("*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		sizes := map[string]int64{}
		for _, name := range names {
			if strings.HasPrefix(name, "mr:registry:") {
				continue // which has an entry of each namespace
			}
			if sizes[name] = integer(t, client, "MEMORY", "USAGE", name); sizes[name] > 300 {
				wrong = fmt.Errorf("%s takes %d bytes", name, sizes[name])
			}
		}
		return sizes
	}
	use(2)
	few := left()
	if len(few) != 11 { // two records, and four and five keys of the shards
		wrong = fmt.Errorf("left are %v", few)
	}
	use(100)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(few)), slices.Sorted(maps.Keys(left()))); diff != "" {
		wrong = fmt.Errorf("keys after more use (-want +got):\n%s", diff)
	}
	return wrong
}
