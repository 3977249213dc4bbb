package ick

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// handled returns a round that settles batches as done.
func handled(batches []Reservation, next Round) Round {
	next.Done = make(map[string][]string)
	for _, b := range batches {
		next.Done[b.Token] = b.Members()
	}
	return next
}

func membersOf(batches []Reservation) string {
	var all []string
	for _, b := range batches {
		all = append(all, b.Members()...)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// round makes a round that must not fail.
func wantRound(t *testing.T, c *Channel, r Round, members string, done Committed) []Reservation {
	t.Helper()
	batches, got, err := c.Exchange(t.Context(), r)
	want(t, "the round of "+r.Worker, got, done, err)
	want(t, "the members of "+r.Worker, membersOf(batches), members, nil)
	return batches
}

func TestRoundOfAWorker(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	c := openChannel(t, client, redistest.Name(t), ChannelConfig{Size: 4})
	if _, err := c.AddNow(t.Context(), "a", "b", "c"); err != nil {
		t.Fatal(err)
	}
	wantRound(t, c, Round{Worker: "one", Max: 10}, "a b c", Committed{})
	wantRound(t, c, Round{Worker: "one"}, "", Committed{})                        // a heartbeat
	first := wantRound(t, c, Round{Worker: "one", Max: 10}, "a b c", Committed{}) // not settled
	wantRound(t, c, Round{Worker: "two", Max: 10}, "", Committed{})               // all Icks have a consumer

	// One member fails: it is parked with its reason, and comes again.
	settles := handled(first, Round{Worker: "one", Max: 10})
	for token, members := range settles.Done {
		if i := slices.Index(members, "b"); i >= 0 {
			settles.Done[token] = slices.Delete(members, i, i+1)
			settles.Failed = map[string]map[string]string{token: {"b": "too large"}}
		}
	}
	wantRound(t, c, settles, "", Committed{Committed: 2})
	s, err := c.Stats(t.Context())
	if err != nil || s.Parked != 1 || s.Total != 0 || s.Consumers != 2 {
		t.Errorf("the channel has %+v, %v, want b parked", s, err)
	}
	var again []Reservation
	redistest.Eventually(t, "one of them gets b", func() bool {
		for _, worker := range []string{"one", "two"} {
			batches, _, err := c.Exchange(t.Context(), Round{Worker: worker, Max: 10, Block: 100 * time.Millisecond})
			if again = append(again, batches...); err != nil {
				t.Fatal(err)
			}
		}
		return len(again) > 0
	})
	want(t, "the retry", membersOf(again), "b", nil)
	wantRound(t, c, handled(again, Round{Worker: "two"}), "", Committed{Committed: 1})

	// The second worker has two of the Icks as soon as the first one is done with them.
	if _, err := c.AddNow(t.Context(), "0", "1", "2", "3", "4", "5", "6", "7"); err != nil {
		t.Fatal(err)
	}
	one, _, err := c.Exchange(t.Context(), Round{Worker: "one", Max: 10, Block: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := c.Exchange(t.Context(), Round{Worker: "two", Max: 10, Block: time.Minute})
	if err != nil || len(one) == 0 || len(two) == 0 {
		t.Fatalf("one has %v and two %v, %v", one, two, err)
	}
	seen := strings.Fields(membersOf(one) + " " + membersOf(two))
	if slices.Sort(seen); !slices.Equal(seen, slices.Compact(slices.Clone(seen))) {
		t.Errorf("both have some of %v", seen)
	}
	wantRound(t, c, handled(two, Round{Worker: "two", Leave: true}), "", Committed{Committed: len(strings.Fields(membersOf(two)))})
	wantRound(t, c, handled(one, Round{Worker: "one", Leave: true}), "", Committed{Committed: len(strings.Fields(membersOf(one)))})
	if s, err := c.Stats(t.Context()); err != nil || s.Consumers != 0 || s.Total != 0 {
		t.Errorf("after both left the channel has %+v, %v", s, err)
	}
}

// TestRoundsBesideConsume: workers, a consumer of this library, and a channel whose size changes. All
// members are handled, by one at a time, and no Ick without a consumer is left.
func TestRoundsBesideConsume(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	c := openChannel(t, client, redistest.Name(t), ChannelConfig{Size: 6})
	crowd := newCrowd(t, c)
	crowd.join()
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() {
			own := openChannel(t, client, c.name, ChannelConfig{})
			next := Round{Worker: fmt.Sprint("worker ", i), Max: 5, Block: 300 * time.Millisecond}
			for ctx.Err() == nil {
				batches, _, err := own.Exchange(t.Context(), next)
				if err != nil {
					t.Error(err)
					return
				}
				for _, b := range batches {
					if err := crowd.handler(ctx, b.Entries); err != nil {
						t.Error(err)
					}
				}
				next = handled(batches, next)
			}
			next.Leave = true
			if _, _, err := own.Exchange(t.Context(), next); err != nil {
				t.Error(err)
			}
		})
	}
	var all []string
	for i, size := range []int{8, 2, 5, 1} {
		for j := range 50 {
			all = append(all, fmt.Sprintf("%d-%02d", i, j))
		}
		if _, err := c.AddNow(t.Context(), all[50*i:]...); err != nil {
			t.Fatal(err)
		}
		if err := c.Resize(t.Context(), size); err != nil {
			t.Fatal(err)
		}
	}
	settles(t, c, 1, 4)
	if got := crowd.processed(); got != strings.Join(all, " ") {
		t.Errorf("handled %s", got)
	}
	cancel()
	workers.Wait()
	settles(t, c, 1, 1)
}

// TestARoundEndsWithItsContext: a worker whose call ends without an answer loses its Icks within seconds.
func TestARoundEndsWithItsContext(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	c := openChannel(t, client, redistest.Name(t), ChannelConfig{Size: 1})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(1500*time.Millisecond, cancel) // so that it waits for the second time
	begun := time.Now()
	if _, _, err := c.Exchange(ctx, Round{Worker: "one", Max: 1, Block: time.Hour, Lease: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("the round ended with %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the round ended after %s", took)
	}
	if _, err := c.AddNow(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantRound(t, c, Round{Worker: "two", Max: 1, Block: time.Minute}, "a", Committed{})
}

func TestRoundIsRefused(t *testing.T) {
	t.Parallel()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{})
	for _, r := range []Round{
		{Max: 1}, {Worker: strings.Repeat("w", 65)}, {Worker: "w", Max: -1}, {Worker: "w", Block: -1},
		{Worker: "w", Lease: time.Millisecond}, {Worker: "w", Lease: 2 * time.Hour},
		{Worker: "w", Done: map[string][]string{"1-ABCDEFGH": {"a"}}}, {Worker: "w", Done: map[string][]string{"1024/1-ABCDEFGH": {"a"}}},
		{Worker: "w", Failed: map[string]map[string]string{"x/1-ABCDEFGH": {"a": ""}}},
	} {
		_, _, err := c.Exchange(t.Context(), r)
		wantError(t, err, millrace.ErrBadArgument)
	}
	// A token of another time commits nothing.
	wantRound(t, c, Round{Worker: "w", Done: map[string][]string{"3/1-ABCDEFGH": {"a"}}}, "", Committed{})
}
