package millracetest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/millracetest"
)

func newIck(t *testing.T, s *millracetest.Server, cfg ick.Config) *ick.Ick {
	t.Helper()
	k, err := ick.New(s.Client, "docs", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newChannel(t *testing.T, s *millracetest.Server) *ick.Channel {
	t.Helper()
	c, err := ick.NewChannel(s.Client, "pages", ick.ChannelConfig{Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type adder interface {
	AddNow(ctx context.Context, members ...string) (ick.Added, error)
}

func add(t *testing.T, k adder, members ...string) {
	t.Helper()
	if _, err := k.AddNow(t.Context(), members...); err != nil {
		t.Fatal(err)
	}
}

func clean(context.Context, []ick.Entry) error { return nil }

// members are those of all batches, sorted.
func members(got millracetest.CleanResult) (all []string) {
	for _, b := range got.Batches {
		all = append(all, b.Members...)
	}
	slices.Sort(all)
	return all
}

// TestRunUntilClean: a run has all members in batches, also those that are marked meanwhile.
func TestRunUntilClean(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		k, c := newIck(t, s, ick.Config{}), newChannel(t, s)
		if got := millracetest.RunUntilClean(t, k, clean, millracetest.CleanConfig{}); len(got.Batches) != 0 {
			t.Errorf("a run of an Ick that does not exist = %+v", got)
		}
		add(t, k, "a", "b")
		millracetest.WantDirty(t, s.Client, k, "b", "a")
		got := millracetest.RunUntilClean(t, k, func(_ context.Context, batch []ick.Entry) error {
			if batch[0].Member == "a" {
				add(t, k, "c")
			}
			return nil
		}, millracetest.CleanConfig{Consume: ick.ConsumeConfig{Batch: 1}})
		if want := []string{"a", "b", "c"}; !slices.Equal(members(got), want) || len(got.Batches) != 3 || got.Waiting+got.Parked != 0 {
			t.Errorf("a run = %+v, want %q in three batches", got, want)
		}
		millracetest.WantDirty(t, s.Client, k)

		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(10+i))
		}
		add(t, c, want...)
		millracetest.WantDirty(t, s.Client, c, want...)
		if got := millracetest.RunUntilClean(t, c, clean, millracetest.CleanConfig{}); !slices.Equal(members(got), want) {
			t.Errorf("a run of a channel = %+v, want %q", got, want)
		}
		millracetest.WantDirty(t, s.Client, c)
	})
}

// TestRunUntilCleanFails: members fail, batches fail, and marks settle.
func TestRunUntilCleanFails(t *testing.T) {
	t.Parallel()
	s := startOn(t, millracetest.Mini)
	k := newIck(t, s, ick.Config{Settle: time.Minute, Logger: quiet})
	add(t, k, "a", "b")
	fail := func(context.Context, []ick.Entry) error { return ick.Failed(errOdd, "b") }
	if got := millracetest.RunUntilClean(t, k, fail, millracetest.CleanConfig{Clock: s}); len(got.Batches) != 0 || got.Waiting != 2 {
		t.Errorf("a run before the marks settle = %+v, want two that wait", got)
	}
	hour := millracetest.CleanConfig{Clock: s, Within: time.Hour, Consume: ick.ConsumeConfig{MaxAttempts: 3}}
	got := millracetest.RunUntilClean(t, k, fail, hour)
	if want := []string{"a", "b", "b", "b"}; !slices.Equal(members(got), want) || got.Waiting != 0 || got.Parked != 1 || !slices.Equal(got.Batches[0].Failed, []string{"b"}) {
		t.Errorf("a run of an hour = %+v, want %q and one parked", got, want)
	}
	wantText(t, try(t, func(t testing.TB) { millracetest.WantDirty(t, s.Client, k, "b") }).failed, `"docs" has the dirty members []`, `["b"] missing`, "1 parked")

	add(t, k, "c", "d")
	for _, broken := range []func(){func() {}, func() { panic("panic") }, runtime.Goexit} {
		got = millracetest.RunUntilClean(t, k, func(context.Context, []ick.Entry) error {
			broken()
			return errOdd
		}, hour)
		if len(got.Batches) != 3 || got.Batches[0].Err == nil || got.Waiting != 2 {
			t.Errorf("a run that fails = %+v, want three tries", got)
		}
	}
	wantText(t, try(t, func(t testing.TB) { millracetest.WantDirty(t, s.Client, k, "d") }).failed, `["c" "d"]`, `["c"] not wanted`)
}

// TestRunOfAChannelWaits: the last marks of a channel are not due.
func TestRunOfAChannelWaits(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		c, err := ick.NewChannel(s.Client, "pages", ick.ChannelConfig{Ick: ick.Config{Logger: quiet}})
		if err != nil {
			t.Fatal(err)
		}
		add(t, c, "a")
		first := true
		got := millracetest.RunUntilClean(t, c, func(context.Context, []ick.Entry) error {
			if first {
				first = false
				return ick.Failed(errOdd, "a")
			}
			return nil
		}, millracetest.CleanConfig{Within: time.Minute, Clock: s, Consume: ick.ConsumeConfig{RetryDelay: 50 * time.Millisecond}})
		if len(got.Batches) != 2 || got.Waiting+got.Parked != 0 {
			t.Errorf("a run = %+v, want two batches", got)
		}
	})
}
