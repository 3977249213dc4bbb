package ick

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// someSlices runs some slices of a job, which are several rounds, and returns their
// progress.
func someSlices(t *testing.T, job millrace.Job) (found millrace.Progress) {
	t.Helper()
	for range 10 {
		progress, err := job.Slice(t.Context())
		if err != nil {
			t.Fatalf("slice of %s: %v", job.Name, err)
		}
		found = max(found, progress)
	}
	return found
}

// litter registers a structure that is not there, and another one with a key of a wrong
// type.
func litter(t *testing.T, client rueidis.Client, kind registry.Kind, lookalike string) {
	t.Helper()
	for _, name := range []string{"z", "gone"} {
		enter(client, kind, name)
	}
	if err := do(t, client, "SET", lookalike, "x").Error(); err != nil {
		t.Fatal(err)
	}
}

// enter registers a structure.
func enter(client rueidis.Client, kind registry.Kind, name string) {
	var entry registry.Entry
	entry.Enter(client, kind, name, nil)
	entry.Touch()
}

// TestRetryJob: parked members whose rest is over wait again, though no consumer
// reserves, and wake a sleeping consumer; the others stay parked.
func TestRetryJob(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	job := Jobs(client)[0]
	litter(t, client, registry.Ick, key("z", keyParked))
	for _, name := range []string{"x", "y"} {
		k := openOn(t, client, name, Config{})
		wantAdd(t, k, "a1 b2 c3", 3, 0)
		token := wantReserve(t, k, 3, "a1 b2 c3")
		park := func(attempts int, rest string, members ...string) {
			t.Helper()
			if n, err := k.park(t.Context(), token, ConsumeConfig{MaxAttempts: attempts}, "why", members); err != nil || n != len(members) {
				t.Fatalf("park = %d, %v", n, err)
			}
			for _, m := range members {
				if err := do(t, client, "ZADD", key(name, keyParked), "XX", rest, m).Error(); err != nil {
					t.Fatal(err)
				}
			}
		}
		park(5, "1", "a", "b") // since 1970
		park(1, "+inf", "c")
	}
	if got, want := someSlices(t, job), millrace.More; got < millrace.Worked {
		t.Errorf("the job found %v, want %v", got, want)
	}
	for _, name := range []string{"x", "y"} {
		k := openOn(t, client, name, Config{})
		s, err := k.Stats(t.Context())
		if err != nil || s.Waiting.Size != 2 || s.Parked != 1 || s.Counters.Retried != 2 || s.Counters.New != 3 {
			t.Errorf("Ick %s = %+v, %v, want a and b waiting, c parked", name, s, err)
		}
		if n, err := do(t, client, "LLEN", key(name, keyWake)).AsInt64(); err != nil || n != 1 {
			t.Errorf("wake tokens of %s = %d, %v, want 1", name, n, err)
		}
		token := wantReserve(t, k, 5, "a1 b2")
		if n, err := k.park(t.Context(), token, ConsumeConfig{MaxAttempts: 5, RetryDelay: time.Hour}, "why", []string{"a"}); err != nil || n != 1 {
			t.Fatalf("park = %d, %v", n, err)
		}
		for p, err := range k.Parked(t.Context()) {
			if err != nil || p.Member == "a" && p.Attempts != 2 {
				t.Errorf("parked again = %+v, %v, want its attempts kept", p, err)
			}
		}
	}
	if got := someSlices(t, job); got != millrace.Idle {
		t.Errorf("the job found %v when nothing was due, want idle", got)
	}
}

// TestTidyJob: consumers that died without a word are forgotten, those that live
// are not.
func TestTidyJob(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	job := Jobs(client)[1]
	litter(t, client, registry.Channel, channelKey("z"))
	c := openChannel(t, client, "x", ChannelConfig{Size: 3})
	w := newCrowd(t, c)
	w.join()
	settles(t, c, 3, 1)
	dead := openChannel(t, client, "y", ChannelConfig{Size: 2})
	args := append(append([]string{"dead", "1"}, dead.known().args()...), "0")
	if _, err := dead.call(t.Context(), "attend", args...); err != nil {
		t.Fatal(err)
	}
	enter(client, registry.Channel, "y")
	left := func() (n int64) {
		for _, question := range [][]string{{"ZCARD", channelKey("y") + ":members"}, {"HLEN", channelKey("y") + ":owners"}} {
			entries, err := do(t, client, question...).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			n += entries - 1 // the placeholder
		}
		return n
	}
	if got := left(); got != 3 {
		t.Fatalf("entries of the dead consumer = %d, want itself and its two Icks", got)
	}
	redistest.Eventually(t, "the job finds it", func() bool {
		progress, err := job.Slice(context.Background())
		return err == nil && progress != millrace.Idle
	})
	if got := left(); got != 0 {
		t.Errorf("entries of the dead consumer afterwards = %d, want 0", got)
	}
	if got := someSlices(t, job); got != millrace.Idle {
		t.Errorf("the job found %v when nothing was due, want idle", got)
	}
	settles(t, c, 3, 1)
}
