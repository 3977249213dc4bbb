package ick

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

func wantError(t *testing.T, err error, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error = %v, want %v", err, want)
	}
}

// The tests in this file are the gem's behaviours, in the order of its tests.

func TestArgumentsAreCheckedBeforeRedisIsTouched(t *testing.T) {
	t.Parallel()
	// A client that would fail any call: it is never asked.
	for _, name := range []string{
		"", "a\nb", "a\x00b", "a\x7fb", strings.Repeat("x", 513), "{}abc", "abc{}", "x}y", "a{b", "a{b}c}d{",
	} {
		if _, err := New(nil, name, Config{}); name != "a{b}c}d{" {
			wantError(t, err, millrace.ErrBadName)
		} else if err != nil {
			t.Errorf("New(%q) = %v, want an Ick: its keys share a slot", name, err)
		}
	}
	for _, cfg := range []Config{{Settle: -1}} {
		_, err := New(nil, "x", cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
	k, err := New(nil, "x", Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, err = k.Add(ctx, Entry{"a", 1}, Entry{"b", math.NaN()})
	wantError(t, err, millrace.ErrBadArgument)
	_, err = k.Reserve(ctx, -1)
	wantError(t, err, millrace.ErrBadArgument)
	for _, token := range []string{"", "x", "-1", "1.5", "9007199254740993"} {
		_, err = k.Commit(ctx, token, "a")
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, cfg := range []ConsumeConfig{{Batch: -1}, {MaxAttempts: -1}, {RetryDelay: -1}} {
		wantError(t, k.Consume(ctx, cfg, nil), millrace.ErrBadArgument)
	}
}

func TestNoIckIsEmptyAndStaysSo(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	ctx := t.Context()
	_, err := k.Stats(ctx)
	wantError(t, err, millrace.ErrNotFound)
	for _, err := range k.Parked(ctx) {
		wantError(t, err, millrace.ErrNotFound)
	}
	wantReserve(t, k, 10, "")
	wantCommit(t, k, "1-ABCDEFGH", "a b", 0, 0)
	wantExchange(t, k, "1-ABCDEFGH", "a", 0, 0, 0, "")
	wantExchange(t, k, "1-ABCDEFGH", "a", 5, 0, 0, "")
	n, err := k.Retry(ctx, "a")
	want(t, "retry", n, 0, err)
	n, err = k.park(ctx, "1-ABCDEFGH", ConsumeConfig{}, "why", []string{"a"})
	want(t, "park", n, 0, err)
	n, err = k.Delete(ctx)
	want(t, "delete", n, 0, err)
	if got := keyspace(t, k); len(got) != 0 {
		t.Errorf("keys after reading an Ick that is not there = %v, want none", got)
	}
}

func TestAddOfNothingCreatesAnEmptyIck(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "", 0, 0)
	if diff := cmp.Diff([]string{k.name}, keyspace(t, k)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Total != 0 || s.Waiting.Oldest != 0 || s.Reserved.Oldest != 0 || s.OldestAge != 0 {
		t.Errorf("stats of an empty Ick = %+v, want sizes 0 and no bounds", s)
	}
}

func TestDeleteCountsTheGemsKeys(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	ctx := t.Context()
	wantAdd(t, k, "a1 b2", 2, 0)
	n, err := k.Delete(ctx)
	want(t, "delete after add", n, 2, err)

	wantAdd(t, k, "a1 b2", 2, 0)
	token := wantReserve(t, k, 1, "a1")
	if n, err := k.park(ctx, token, ConsumeConfig{MaxAttempts: 1}, "why", []string{"a"}); n != 1 || err != nil {
		t.Fatalf("park = %d, %v", n, err)
	}
	wantReserve(t, k, 1, "b2")
	wantAdd(t, k, "c3", 1, 0)
	n, err = k.Delete(ctx)
	want(t, "delete with both sets", n, 3, err)
	if got := keyspace(t, k); len(got) != 0 {
		t.Errorf("keys after delete = %v, want none", got)
	}
	n, err = k.Delete(ctx)
	want(t, "delete again", n, 0, err)
	wantAdd(t, k, "a1", 1, 0)
}

// TestAddFolds: of several scores of a member the lowest stays.
func TestAddFolds(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a10", 1, 0)
	wantAdd(t, k, "a20 b20", 1, 0)
	wantAdd(t, k, "a5 c30.5", 1, 1)
	wantAdd(t, k, "a5", 0, 0)
	wantAdd(t, k, "d9 d8 d10 d7", 1, 2) // as if added one after the other
	wantReserve(t, k, 9, "a5 d7 b20 c30.5")
}

// TestReserveIsOrderedLikeASortedSet compares the order of a reservation with that of ZRANGE.
func TestReserveIsOrderedLikeASortedSet(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	ctx := t.Context()
	list := marks(t, "m3 b1 z1 a2 q-7 f0.5 e1e9 k-0.25 c1")
	if _, err := k.Add(ctx, list...); err != nil {
		t.Fatal(err)
	}
	plain := "{" + k.name + "}:plain"
	for _, e := range list {
		if err := do(t, k.run.Client, "ZADD", plain, formatScore(e.Score), e.Member).Error(); err != nil {
			t.Fatal(err)
		}
	}
	scored, err := do(t, k.run.Client, "ZRANGE", plain, "0", "-1", "WITHSCORES").AsZScores()
	if err != nil {
		t.Fatal(err)
	}
	var order []Entry
	for _, z := range scored {
		order = append(order, Entry{Member: z.Member, Score: z.Score})
	}
	wantReserve(t, k, len(list), show(order))
}

func TestReserveAndCommit(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1 b2 c3 d4", 4, 0)
	wantReserve(t, k, 1, "a1")
	wantReserve(t, k, 2, "a1 b2")
	token := wantReserve(t, k, 2, "a1 b2")
	if again := wantReserve(t, k, 2, "a1 b2"); again != token {
		t.Errorf("token of a repeated reserve = %s, want %s: nothing was folded", again, token)
	}
	wantReserve(t, k, 1, "a1")
	wantCommit(t, k, token, "a x c", 1, 0) // x is unknown and c only waits
	token = wantReserve(t, k, 2, "b2 c3")
	wantReserve(t, k, 1, "b2")
	wantCommit(t, k, token, "b c", 2, 0)
	wantCommit(t, k, token, "b c", 0, 0)
	token = wantReserve(t, k, 9, "d4")
	wantCommit(t, k, token, "d", 1, 0)
	wantReserve(t, k, 9, "")
}

func TestReserveOfNothingMovesNothing(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1 b2", 2, 0)
	wantReserve(t, k, 0, "")
	if diff := cmp.Diff([]string{k.name, "pset", "wake"}, keyspace(t, k)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	wantReserve(t, k, 1, "a1")
	wantReserve(t, k, 0, "")
	wantReserve(t, k, 1, "a1")
}

// TestParkedWithoutAVersion: members that are parked in an Ick that has lost its version stay parked, or
// the Ick would be broken.
func TestParkedWithoutAVersion(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	if err := do(t, k.run.Client, "ZADD", key(k.name, "parked"), "1", "a").Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.call(t.Context(), "unpark", "due"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"parked"}, keyspace(t, k)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// TestRetireNeverGoesBack: an Ick that was retired under an epoch is not opened again by an earlier
// one, though a call that retires it under a still earlier one comes late.
func TestRetireNeverGoesBack(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	for _, epoch := range []int64{9, 7} {
		if done, err := k.retire(t.Context(), epoch); err != nil || !done {
			t.Fatalf("retire under epoch %d = %v, %v, want true", epoch, done, err)
		}
	}
	if err := k.reopen(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	if got, _ := do(t, k.run.Client, "GET", k.name).ToString(); got != "ick.retired:9" {
		t.Errorf("the Ick is %q, want ick.retired:9", got)
	}
}

// TestExchangeCreatesNothing: a consumer of a deleted Ick that commits its reservation leaves
// no key behind.
func TestExchangeCreatesNothing(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1", 1, 0)
	token := wantReserve(t, k, 1, "a1")
	if _, err := k.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCommit(t, k, token, "a", 0, 0)
	wantReserve(t, k, 1, "")
	reply, err := k.call(t.Context(), "stats", "0")
	if err != nil || reply.Text() != "" || reply.More() {
		t.Errorf("the script stats answers more than nil: %v", err)
	}
	if left := keyspace(t, k); len(left) != 0 {
		t.Errorf("keys of a deleted Ick: %q", left)
	}
}

func TestReAddedWhileReservedSurvivesItsCommit(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1", 1, 0)
	token := wantReserve(t, k, 1, "a1")
	wantAdd(t, k, "a5", 1, 0) // the consumer set does not count
	wantCommit(t, k, token, "a", 1, 0)
	token = wantReserve(t, k, 1, "a5")
	wantCommit(t, k, token, "a", 1, 0)
	wantReserve(t, k, 1, "")
}

func TestReserveWithoutBackwashKeepsItsMembers(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a10 b20", 2, 0)
	wantReserve(t, k, 2, "a10 b20")
	wantAdd(t, k, "b1 c2", 2, 0)
	wantReserve(t, k, 2, "a10 b20")   // full: nothing is folded
	wantReserve(t, k, 3, "b1 c2 a10") // b is folded and takes no room, so c finds some
}

func TestExchange(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1 b2 c3", 3, 0)
	token := wantExchange(t, k, "", "", 2, 0, 0, "a1 b2")
	wantAdd(t, k, "a11 b12 c13", 2, 0)
	token = wantExchange(t, k, token, "a", 2, 1, 0, "b2 c3")
	token = wantExchange(t, k, token, "b", 2, 1, 0, "c3 a11")
	token = wantExchange(t, k, token, "c", 2, 1, 0, "a11 b12")
	token = wantExchange(t, k, token, "a b", 2, 2, 0, "")
	wantCommit(t, k, token, "a", 0, 0)
	wantReserve(t, k, 2, "")
}

func TestBackwash(t *testing.T) {
	t.Parallel()
	k := open(t, Config{Backwash: true})
	wantAdd(t, k, "a70 b80", 2, 0)
	wantReserve(t, k, 2, "a70 b80")
	wantAdd(t, k, "x7 y8 z9", 3, 0)
	token := wantReserve(t, k, 2, "x7 y8")
	wantCommit(t, k, token, "a b", 0, 0) // they only wait now
	token = wantExchange(t, k, token, "y", 2, 1, 0, "x7 z9")
	wantExchange(t, k, token, "x", 2, 1, 0, "z9 a70")
	wantReserve(t, k, 1, "z9") // a smaller n sends the youngest back
	token = wantReserve(t, k, 2, "z9 a70")
	wantAdd(t, k, "c90", 1, 0)
	wantExchange(t, k, token, "z a", 2, 2, 0, "b80 c90")

	// A member in both sets with another score: the lower one counts, and a
	// reserve without backwash sees the new order.
	wantAdd(t, k, "c5 b85", 2, 0)
	token = wantReserve(t, k, 2, "c5 b80")
	k.cfg.Backwash = false
	wantReserve(t, k, 2, "c5 b80")
	wantCommit(t, k, token, "c b", 2, 0)
	wantReserve(t, k, 2, "b85") // dirtied again in flight, and not forgotten
}

func TestStats(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1 b2.5 c1700000000.123456", 3, 0)
	wantReserve(t, k, 2, "a1 b2.5")
	wantAdd(t, k, "a0.1 a9", 1, 0)
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.At.IsZero() || s.OldestAge <= 0 {
		t.Errorf("At = %v, OldestAge = %v, want the server's", s.At, s.OldestAge)
	}
	if got, want := s.At.UnixMicro()-int64(0.1*1e6), s.OldestAge.Microseconds(); got-want > 1 || want-got > 1 {
		t.Errorf("OldestAge = %d us, want %d", got, want)
	}
	s.At, s.OldestAge = s.At.Truncate(1<<62), 0
	wantStats := Stats{
		Name: k.name, Version: "ick.v1", At: s.At,
		Waiting:  SetStats{Key: k.name + "/ick/{" + k.name + "}/pset", Size: 2, Oldest: 0.1, Newest: 1700000000.123456},
		Reserved: SetStats{Key: k.name + "/ick/{" + k.name + "}/cset", Size: 2, Oldest: 1, Newest: 2.5},
		Total:    4, Distinct: 3,
		Counters: Counters{New: 4, Folded: 1, Reserved: 2},
	}
	if diff := cmp.Diff(wantStats, s); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestScoresKeepEveryDigit(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	list := []Entry{
		{"low", math.Inf(-1)}, {"tiny", math.SmallestNonzeroFloat64}, {"third", 1.0 / 3},
		{"time", 1700000000.123456}, {"big", 1<<53 - 1}, {"huge", math.MaxFloat64}, {"top", math.Inf(1)},
	}
	if _, err := k.Add(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	for range 2 { // from the producer set, then from the consumer set
		r, err := k.Reserve(t.Context(), len(list))
		want(t, "reserve", r.Entries, list, err)
	}
}

// Every key of the wrong type makes every operation fail that needs it, and stays as it was.
func TestWrongTypesAreRefusedWhole(t *testing.T) {
	t.Parallel()
	for _, part := range append([]string{""}, keyPset, keyCset, keyFolds, keyMeta, keyParked, keyFails, keyLanes+"0", keyLanes+"1") {
		t.Run("key "+part, func(t *testing.T) {
			t.Parallel()
			k := open(t, Config{})
			ctx := t.Context()
			wantAdd(t, k, "a1 b2", 2, 0)
			token := wantReserve(t, k, 1, "a1")
			bad := k.name
			if part != "" {
				bad = key(k.name, part)
			}
			if err := do(t, k.run.Client, "DEL", bad).Error(); err != nil {
				t.Fatal(err)
			}
			if err := do(t, k.run.Client, "RPUSH", bad, "rogue").Error(); err != nil {
				t.Fatal(err)
			}
			before := dump(t, k)
			for what, op := range map[string]func() error{
				"reserve":  func() error { _, err := k.Reserve(ctx, 2); return err },
				"commit":   func() error { _, err := k.Commit(ctx, token, "a"); return err },
				"exchange": func() error { _, _, err := k.Exchange(ctx, token, []string{"a"}, 2); return err },
				"add":      func() error { _, err := k.Add(ctx, Entry{"c", 3}); return err },
				"stats":    func() error { _, err := k.Stats(ctx); return err },
				"retry":    func() error { _, err := k.Retry(ctx, "a"); return err },
				"park":     func() error { _, err := k.park(ctx, token, ConsumeConfig{}, "", []string{"a"}); return err },
				"delete":   func() error { _, err := k.Delete(ctx); return err },
			} {
				gems := part == "" || part == keyPset || part == keyCset
				switch {
				case !gems && what == "delete": // it reads only the gem's keys
					continue
				case part != "" && part != keyPset && what == "add": // and an add the producer set
					continue
				case strings.HasPrefix(part, keyLanes) && what != "commit" && what != "exchange":
					continue
				}
				if err := op(); !errors.Is(err, millrace.ErrBroken) {
					t.Errorf("%s: error = %v, want ErrBroken", what, err)
				}
			}
			if diff := cmp.Diff(before, dump(t, k)); diff != "" {
				t.Errorf("a refused operation changed the Ick (-before +after):\n%s", diff)
			}
			if _, err := k.ForceDelete(ctx); err != nil {
				t.Fatal(err)
			}
			if got := keyspace(t, k); len(got) != 0 {
				t.Errorf("keys after a forced delete = %v, want none", got)
			}
		})
	}
}

// dump returns the bytes of all the Ick's keys but the counters.
func dump(t *testing.T, k *Ick) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range keys(k.name) {
		text, err := do(t, k.run.Client, "DUMP", name).ToString()
		if err == nil {
			all[name] = text
		}
	}
	return all
}

func TestMissingVersionAndUnknownVersion(t *testing.T) {
	t.Parallel()
	for _, part := range []string{keyPset, keyCset} {
		k := open(t, Config{})
		if err := do(t, k.run.Client, "ZADD", key(k.name, part), "1", "rogue").Error(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a refusal changes nothing, so the next one is the same
			_, err := k.Add(t.Context(), Entry{"a", 1})
			wantError(t, err, millrace.ErrBroken)
			if !strings.Contains(err.Error(), "the version key is missing") {
				t.Errorf("error = %v, want it to say what is wrong", err)
			}
			_, err = k.Reserve(t.Context(), 1)
			wantError(t, err, millrace.ErrBroken)
			_, err = k.Stats(t.Context())
			wantError(t, err, millrace.ErrBroken)
			_, err = k.Delete(t.Context())
			wantError(t, err, millrace.ErrBroken)
		}
		if err := do(t, k.run.Client, "DEL", key(k.name, part)).Error(); err != nil {
			t.Fatal(err)
		}
		wantAdd(t, k, "a1", 1, 0)
	}
	k := open(t, Config{})
	if err := do(t, k.run.Client, "SET", k.name, "ick.v9").Error(); err != nil {
		t.Fatal(err)
	}
	_, err := k.Add(t.Context(), Entry{"a", 1})
	wantError(t, err, millrace.ErrVersion)
	_, err = k.Reserve(t.Context(), 1)
	wantError(t, err, millrace.ErrVersion)
	_, err = k.Delete(t.Context())
	wantError(t, err, millrace.ErrVersion)
	_, err = k.retire(t.Context(), 1)
	wantError(t, err, millrace.ErrVersion)
	if got, _ := do(t, k.run.Client, "GET", k.name).ToString(); got != "ick.v9" {
		t.Errorf("the version is %q after refused calls, want ick.v9", got)
	}
	if !strings.Contains(err.Error(), "ick.v9") {
		t.Errorf("error = %v, want it to name the version", err)
	}
}

func TestBulk(t *testing.T) {
	t.Parallel()
	for _, backwash := range []bool{false, true} {
		for _, size := range []int{10, 20, 30, 999, 1000, 1001, 8000, 8010} {
			t.Run(fmt.Sprintf("%d members, backwash %v", size, backwash), func(t *testing.T) {
				t.Parallel()
				k := open(t, Config{Backwash: backwash})
				ctx := t.Context()
				list := make([]Entry, size)
				for i := range list {
					list[i] = Entry{Member: fmt.Sprintf("m%05d", i), Score: float64(i / 3)}
				}
				added, err := k.Add(ctx, list...)
				want(t, "add", added, Added{New: size}, err)
				r, err := k.Reserve(ctx, size)
				want(t, "reserve", r.Entries, list, err)
				c, err := k.Commit(ctx, r.Token, r.Members()...)
				want(t, "commit", c, Committed{Committed: size}, err)
				wantReserve(t, k, size, "")
				c, err = k.Commit(ctx, r.Token, r.Members()...)
				wantError(t, err, millrace.ErrStale)
				want(t, "commit again", c, Committed{}, nil)
			})
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	base := redistest.Name(t)
	wanted := map[string]bool{}
	for _, name := range []string{base, base + "/ick/nested", "{" + base + "}:tagged", base + " with spaces"} {
		k := openOn(t, client, name, Config{})
		wantAdd(t, k, "a1", 1, 0)
		wanted[name] = true
	}
	emptied := openOn(t, client, base+"-emptied", Config{})
	wantAdd(t, emptied, "a1", 1, 0)
	wantCommit(t, emptied, wantReserve(t, emptied, 1, "a1"), "a", 1, 0)
	wanted[emptied.name] = true
	if err := do(t, client, "SET", base+"/ick/{other}/pset", "no Ick").Error(); err != nil {
		t.Fatal(err)
	}

	found := map[string]bool{}
	for name, err := range List(t.Context(), client) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, base) {
			found[name] = true
		}
	}
	if diff := cmp.Diff(wanted, found); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}
