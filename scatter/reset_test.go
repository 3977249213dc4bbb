package scatter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
)

// TestReset begins an epoch: what there was is put aside, once.
func TestReset(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 3))
	g := newGroup(t, list, direct)
	g.fill(20)
	key := g.prefix + "int"
	for epoch, added := range []int64{0, 6, 3} { // by fill, and below
		if epoch == 0 {
			continue
		}
		for range 2 {
			if err := g.Reset(t.Context(), int64(epoch), key, g.prefix+"set", g.prefix+"nothing"); err != nil {
				t.Fatal(err)
			}
		}
		r := g.Gather()
		now, ended := r.Int(key), r.Int(g.Ended(int64(epoch), key))
		if err := r.Read(t.Context()); err != nil || now.Value != 0 || ended.Value != added {
			t.Errorf("epoch %d begins with %d, and ended %d, %v; want 0 and %d", epoch, now.Value, ended.Value, err, added)
		}
		for _, c := range direct {
			must(t, c, "INCRBY", key, "1")
		}
	}
	if err := g.Reset(t.Context(), 1, key); err != nil {
		t.Error(err)
	}
	r := g.Gather()
	now, first, set, nothing := r.Int(key), r.Int(g.Ended(1, key)), r.Set(g.Ended(1, g.prefix+"set")), r.Int(g.Ended(1, g.prefix+"nothing"))
	if err := r.Read(t.Context()); err != nil || now.Value != 3 || first.Value != 6 || len(set.Value) == 0 || nothing.Value != 0 {
		t.Errorf("after a reset to an earlier epoch: %d, %d, %v, %v", now.Value, first.Value, set.Value, err)
	}
	for _, c := range direct {
		if ttl := integer(t, c, "PTTL", g.Ended(1, key)); ttl <= 0 || ttl > EndedLife.Milliseconds() {
			t.Errorf("what was put aside expires in %d ms", ttl)
		}
	}
	wantError(t, g.Reset(t.Context(), 0, key), ErrConfig)
	wantError(t, g.Reset(t.Context(), 1, ""), ErrName)
	wantError(t, g.Reset(t.Context(), 1, "mr:x"), ErrName)
	// Epochs of any size are in order.
	for _, epoch := range []int64{999_999_999, 9_007_199_254_740_993, 9_223_372_036_854_775_807} {
		must(t, direct[0], "INCRBY", key, "1")
		if err := g.Reset(t.Context(), epoch-1, key); err != nil {
			t.Fatal(err)
		}
		must(t, direct[0], "INCRBY", key, "1")
		if err := g.Reset(t.Context(), epoch, key); err != nil {
			t.Fatal(err)
		}
		if got := text(t, direct[0], "GET", g.Ended(epoch, key)); got != "1" {
			t.Errorf("epoch %d ended %q, want 1", epoch, got)
		}
	}
}

// TestResetOfAGroupThatIsAway: who does not answer is named, nobody is reset, and the
// same call again does it.
func TestResetOfAGroupThatIsAway(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Start(t, redistest.Options{AOF: true}), redistest.Start(t, redistest.Options{AOF: true})}
	list, direct := clients(t, servers)
	g := newGroup(t, list, direct)
	g.cfg.Timeout = 2 * time.Second
	for _, c := range direct {
		must(t, c, "SET", g.prefix+"n", "2")
	}
	servers[1].Kill()
	err := g.Reset(t.Context(), 1, g.prefix+"n")
	partial, ok := errors.AsType[*PartialError](err)
	if !ok || !slices.Equal(partial.Missing, []string{"s1"}) || partial.Answered != 1 {
		t.Fatalf("Reset = %v, want it to name s1", err)
	}
	must(t, direct[0], "INCRBY", g.prefix+"n", "1")
	servers[1].Restart()
	g.cfg.Timeout = foldPatience
	if err := g.Reset(t.Context(), 1, g.prefix+"n"); err != nil {
		t.Fatal(err)
	}
	r := g.Gather()
	now, ended := r.Int(g.prefix+"n"), r.Int(g.Ended(1, g.prefix+"n"))
	if err := r.Read(t.Context()); err != nil || now.Value != 0 || ended.Value != 5 {
		t.Errorf("the new epoch has %d, and the old one had %d, %v; want 0 and 5", now.Value, ended.Value, err)
	}
}

// TestResetOnAFullServer: nothing that is put aside needs memory.
func TestResetOnAFullServer(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 2))
	g := newGroup(t, list, direct)
	must(t, direct[0], "SET", g.prefix+"n", "2")
	must(t, direct[0], "CONFIG", "SET", "maxmemory", "1")
	if err := g.Reset(t.Context(), 1, g.prefix+"n", g.prefix+"m"); err != nil {
		t.Error(err)
	}
}

// TestGrowingAfterAReset: a server that is new knows nothing of epochs, and what it has
// counts all the same; also after the next reset.
func TestGrowingAfterAReset(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 3))
	g := newGroup(t, list, direct)
	old := scatterOver(t, list[:2], g.cfg)
	var keys []string
	for i := range 1500 {
		keys = append(keys, fmt.Sprint(g.prefix, i))
	}
	if err := old.Reset(t.Context(), 3, keys...); err != nil {
		t.Fatal(err)
	}
	must(t, direct[0], "INCRBY", keys[1], "1")
	must(t, direct[2], "INCRBY", keys[1], "2")
	r := g.Gather()
	now, ended := r.Int(keys[1]), r.Int(g.Ended(7, keys[1]))
	if err := r.Read(t.Context()); err != nil || now.Value != 3 {
		t.Errorf("the sum is %d, %v, want what both have", now.Value, err)
	}
	if err := g.Reset(t.Context(), 7, keys...); err != nil {
		t.Fatal(err)
	}
	must(t, direct[2], "INCRBY", keys[1], "4")
	if err := r.Read(t.Context()); err != nil || now.Value != 4 || ended.Value != 3 {
		t.Errorf("after the next reset: %d, and before it %d, %v; want 4 and 3", now.Value, ended.Value, err)
	}
}

// TestNotResetYet: a server that has been told of the old epoch, and not of the new one,
// counts for nothing.
func TestNotResetYet(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 2))
	g := newGroup(t, list, direct)
	n := g.prefix + "n"
	must(t, direct[0], "INCRBY", n, "1")
	must(t, direct[1], "INCRBY", n, "2")
	if err := errors.Join(g.date(t.Context(), []string{n}), g.resetOn(t.Context(), g.servers[0], "1", []string{n})); err != nil {
		t.Fatal(err)
	}
	r := g.Gather()
	now, ended := r.Int(n), r.Int(g.Ended(1, n))
	if err := r.Read(t.Context()); err != nil || now.Value != 0 || ended.Value != 1 {
		t.Errorf("half a reset: %d, and before it %d, %v; want 0 and 1", now.Value, ended.Value, err)
	}
}

// TestFoldOfANewServer: one that knows of no epoch is folded into one that does, and the
// other way round.
func TestFoldOfANewServer(t *testing.T) {
	t.Parallel()
	for _, leaving := range []string{"s0", "s1"} {
		list, direct := clients(t, startServers(t, 2))
		g := newGroup(t, list, direct)
		n := g.prefix + "n"
		if err := scatterOver(t, list[:1], g.cfg).Reset(t.Context(), 5, n); err != nil {
			t.Fatal(err)
		}
		must(t, direct[0], "INCRBY", n, "1")
		must(t, direct[1], "INCRBY", n, "2")
		if _, err := g.Fold(t.Context(), leaving, FoldConfig{Match: g.prefix + "*"}); err != nil {
			t.Fatal(err)
		}
		r := g.Gather()
		now := r.Int(n)
		if err := r.Read(t.Context()); err != nil || now.Value != 3 {
			t.Errorf("after %s has left: %d, %v, want 3", leaving, now.Value, err)
		}
	}
}

// TestResetAmongWriters resets counters while sessions write, and while a server is
// being left. What all epochs had together is what was written.
func TestResetAmongWriters(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 3))
	for _, folding := range []bool{false, true} {
		t.Run(fmt.Sprint("folding ", folding), func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, list, direct)
			keys := []string{g.prefix + "a", g.prefix + "b"}
			var large []string
			for i := range 3500 {
				large = append(large, fmt.Sprint("old ", i))
			}
			must(t, direct[0], append([]string{"SADD", g.prefix + "set"}, large...)...)
			writing, stop := context.WithCancel(t.Context())
			var mu sync.Mutex
			written := 0
			var wg sync.WaitGroup
			for range 3 {
				sc := g.again()
				sc.cfg.Shard = RoundRobin()
				wg.Go(func() {
					s := sc.Session("")
					for writing.Err() == nil {
						s.Add(keys[0], 1)
						s.Add(keys[1], 2)
						if err := s.Flush(t.Context()); err != nil {
							t.Errorf("Flush = %v", err)
							return
						}
						mu.Lock()
						written++
						mu.Unlock()
					}
				})
			}
			const epochs = 12
			if folding {
				wg.Go(func() {
					for n := 0; writing.Err() == nil; n++ {
						if _, err := g.again().Fold(t.Context(), "s0", g.match()); err != nil {
							t.Errorf("Fold = %v", err)
							return
						}
						if err := g.again().Reopen(t.Context(), "s0"); err != nil {
							t.Errorf("Reopen = %v", err)
							return
						}
					}
				})
			}
			for epoch := range int64(epochs) {
				if err := g.Reset(t.Context(), epoch+1, append(keys, g.prefix+"set")...); err != nil {
					t.Errorf("Reset %d = %v", epoch+1, err)
				}
				mu.Lock()
				before := written
				mu.Unlock()
				redistest.Eventually(t, "something is written", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return written > before+20
				})
			}
			stop()
			wg.Wait()
			for i, key := range keys {
				r := g.again().Gather()
				sums := []*Result[int64]{r.Int(key)}
				for epoch := range int64(epochs) {
					sums = append(sums, r.Int(g.Ended(epoch+1, key)))
				}
				if err := r.Read(t.Context()); err != nil {
					t.Fatal(err)
				}
				total := int64(0)
				for _, sum := range sums {
					total += sum.Value
				}
				if want := int64(written * (i + 1)); total != want {
					t.Errorf("all epochs of %s have %d, want the %d that were written", key, total, want)
				}
			}
			r := g.again().Gather()
			first, now := r.Set(g.Ended(1, g.prefix+"set")), r.Set(g.prefix+"set")
			if err := r.Read(t.Context()); err != nil || len(first.Value) != len(large) || len(now.Value) != 0 {
				t.Errorf("the first epoch had %d members, and now there are %d, %v; want %d and 0", len(first.Value), len(now.Value), err, len(large))
			}
		})
	}
}
