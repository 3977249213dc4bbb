package fairqueue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// die writes messages and has them die, and returns their ids.
func die(t *testing.T, q *Queue, words string) []string {
	t.Helper()
	ids := write(t, q, words)
	for range ids {
		for _, m := range read(t, q, 1) {
			nack(t, q, NackConfig{Dead: true, Reason: "of " + string(m.Body)}, m)
		}
	}
	return ids
}

func theDead(t *testing.T, q *Queue) string {
	t.Helper()
	var words []string
	for m, err := range q.Dead().All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, string(m.Body))
	}
	return strings.Join(words, " ")
}

// TestDeadAfter: what an operator sets counts for processes that set nothing, from the next failure on, until it is
// taken back or a writer sets another number.
func TestDeadAfter(t *testing.T) {
	t.Parallel()
	for name, cfg := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, cfg)
			wantError(t, q.Dead().After(t.Context(), 2), millrace.ErrNotFound)
			wantError(t, q.Dead().After(t.Context(), -1), millrace.ErrBadArgument)
			diesAfter := func(attempts int) {
				t.Helper()
				write(t, q, "a:x")
				for range attempts {
					want(t, "the dead before the last attempt", stats(t, q).Dead, 0, nil)
					nack(t, q, NackConfig{}, read(t, q, 1)...)
				}
				want(t, "the dead after the last attempt", theDead(t, q), "x", nil)
				_, _, err := q.Dead().PurgeMatching(t.Context(), SearchConfig{})
				want(t, "purge", nil, nil, err)
			}
			diesAfter(defaultMaxAttempts)
			for _, attempts := range []int{2, 7} {
				want(t, "after", nil, nil, q.Dead().After(t.Context(), attempts))
				diesAfter(attempts)
			}
			own := cfg
			own.MaxAttempts = 3
			writer := openOn(t, redistest.Shared(t).Client(t), q.name, own)
			for range 3 { // the second write knows that nothing changed, and the third that something did
				write(t, writer, "a:y")
				ack(t, q, read(t, q, 1)...)
				diesAfter(3)
				want(t, "after", nil, nil, q.Dead().After(t.Context(), 9))
			}
			want(t, "after", nil, nil, q.Dead().After(t.Context(), 0))
			diesAfter(defaultMaxAttempts)
		})
	}
}

// TestKeepDead: the oldest of the dead are dropped when another one dies, and counted.
func TestKeepDead(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	few := open(t, Config{})
	write(t, few, "a:x")
	want(t, "keep", nil, nil, few.Dead().Keep(t.Context(), 3, 0))
	ack(t, few, read(t, few, 1)...)
	for i, wanted := range []string{"0", "0 1", "0 1 2", "1 2 3"} {
		die(t, few, fmt.Sprint("a:", i))
		want(t, "the dead of few", theDead(t, few), wanted, nil)
	}
	die(t, q, "a:1 a:2 a:3 a:4 a:5")
	want(t, "keep", nil, nil, q.Dead().Keep(t.Context(), 3, 0))
	die(t, q, "a:6")
	want(t, "the dead", theDead(t, q), "4 5 6", nil)
	want(t, "dropped", stats(t, q).Counters.Dropped, int64(3), nil)

	want(t, "keep", nil, nil, q.Dead().Keep(t.Context(), 0, 50*time.Millisecond))
	passes(t, q.run.Client, 60*time.Millisecond)
	die(t, q, "a:7")
	want(t, "the dead", theDead(t, q), "7", nil)
	want(t, "keep", nil, nil, q.Dead().Keep(t.Context(), 0, 0))
	passes(t, q.run.Client, 60*time.Millisecond)
	ids := die(t, q, "a:8 a:9")
	want(t, "the dead", theDead(t, q), "7 8 9", nil)
	n, err := q.Dead().Purge(t.Context(), ids...)
	want(t, "purge", n, 2, err)
	want(t, "counters", stats(t, q).Counters, queuestats.Counters{Written: 9, Delivered: 9, Cost: 9, Nacked: 9, Buried: 9, Dropped: 6, Purged: 2}, nil)
	n, err = q.Dead().Purge(t.Context(), ids...)
	want(t, "purge again", n, 0, err)
	deaths, err := do(t, q.run.Client, "HLEN", baseKey(q.name)+":deaths").AsInt64()
	want(t, "deaths", deaths, int64(2), err) // 7 and the placeholder
	r, _ := readRaw(t, q)
	want(t, "messages", len(r.messages), 1, nil)
}

// TestDeadPages: all of the dead are listed, more than one page of them, also those that
// died in one millisecond.
func TestDeadPages(t *testing.T) {
	t.Parallel()
	q := open(t, Config{MaxAttempts: 1})
	const n = 2*page + 7
	for range n {
		write(t, q, "a:x")
	}
	_, err := q.Nack(t.Context(), NackConfig{Reason: "all at once"}, receipts(read(t, q, 1000))...)
	want(t, "nack", nil, nil, err)
	seen := map[string]bool{}
	for m, err := range q.Dead().All(t.Context()) {
		if err != nil || m.Reason != "all at once" || seen[m.ID] {
			t.Fatalf("dead = %+v, %v", m, err)
		}
		seen[m.ID] = true
	}
	want(t, "the dead", len(seen), n, nil)
}

// TestStats of flows, the fullest first, and of readers.
func TestStats(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1 b:1 b:2 b:3 c:1 c:2")
	s := stats(t, q)
	want(t, "shape", [3]int{s.FlowCount, s.Streams, s.PerTenant}, [3]int{3, 0, 0}, nil)
	for i, f := range s.Flows {
		want(t, "flow", queuestats.Flow{Tenant: f.Tenant, Stream: f.Stream, Waiting: f.Waiting, Handling: f.Handling},
			queuestats.Flow{Tenant: string("bca"[i]), Stream: -1, Waiting: 3 - i, Handling: -1}, nil)
		if f.OldestAge < 0 || f.OldestAge > s.OldestAge || f.Held {
			t.Errorf("flow = %+v", f)
		}
	}
	want(t, "name", s.Name, q.name, nil)
	want(t, "readers", len(s.Readers), 0, nil)

	started, release := make(chan bool), make(chan bool)
	stop := consume(t, q, ConsumeConfig{Name: "worker 7", Concurrency: 3, Visibility: 150 * time.Millisecond}, func(_ context.Context, _ Message) error {
		started <- true
		<-release
		return nil
	})
	for range 3 {
		<-started
	}
	redistest.Eventually(t, "the reader is seen at work", func() bool {
		s = stats(t, q)
		return len(s.Readers) == 1 && s.Readers[0].InFlight == 3
	})
	r := s.Readers[0]
	want(t, "reader", [2]any{r.Name, r.Concurrency}, [2]any{"worker 7", 3}, nil)
	want(t, "capacity", s.Capacity, 3, nil)
	if ago := s.At.Sub(r.LastSeen); ago < 0 || ago > 5*time.Second || r.Host == "" {
		t.Errorf("reader = %+v", r)
	}
	flying := browseAll(t, q, BrowseConfig{State: InFlight})
	for _, m := range flying {
		if !m.Consumed {
			t.Errorf("%s was not consumed", m.ID)
		}
	}
	close(release)
	go func() {
		for range started {
		}
	}()
	redistest.Eventually(t, "all are done", func() bool { return stats(t, q).Counters.Acked == 6 })
	stop()
	close(started)
	s = stats(t, q)
	want(t, "readers and capacity of those who left", [2]int{len(s.Readers), s.Capacity}, [2]int{0, 0}, nil)
}

func TestDeleteRemovesWhateverIsThere(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, key := range []string{baseKey(q.name), baseKey(q.name) + ":flight"} {
		if err := do(t, q.run.Client, "SET", key, "x").Error(); err != nil {
			t.Fatal(err)
		}
	}
	n, err := q.Delete(t.Context())
	want(t, "delete", n, 2, err)
	full := open(t, Config{})
	write(t, full, "a:1 b:2")
	if _, err := full.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "keys", len(dump(t, full)), 0, nil)
}

// TestList names the queues that were written to.
func TestList(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	for i := range 3 {
		write(t, openOn(t, client, fmt.Sprint("queue ", i), Config{}), "a:x")
	}
	redistest.Eventually(t, "all are listed", func() bool {
		names := map[string]bool{}
		for name, err := range List(t.Context(), client) {
			if err != nil {
				t.Fatal(err)
			}
			names[name] = true
		}
		return len(names) == 3 && names["queue 1"]
	})
}

// TestAbandoned counts messages in flight whose visibility has ended, and changes nothing.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1 a:2 a:3")
	read(t, q, 1)
	s := stats(t, q)
	want(t, "abandoned", [2]any{s.Abandoned, s.AbandonedAge}, [2]any{0, time.Duration(0)}, nil)
	if _, err := q.Read(t.Context(), ReadConfig{Visibility: minVisibility}); err != nil {
		t.Fatal(err)
	}
	passes(t, q.run.Client, 3*minVisibility)
	for range 2 {
		if s = stats(t, q); s.Abandoned != 1 || s.AbandonedAge < minVisibility || s.InFlight != 2 || s.Waiting != 1 {
			t.Errorf("%d of %d in flight are abandoned, for %s, and %d wait", s.Abandoned, s.InFlight, s.AbandonedAge, s.Waiting)
		}
	}
}

// TestSilentReadersAreForgotten: a reader that was killed has no handlers.
func TestSilentReadersAreForgotten(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1")
	say := func(id string, handlers float64) {
		t.Helper()
		if _, err := q.beat(t.Context(), time.Minute, readerOf(reader{id: id, name: id, host: "here", handlers: handlers}), nil); err != nil {
			t.Fatal(err)
		}
	}
	say("killed", 7)
	s := stats(t, q)
	want(t, "capacity", s.Capacity, 7, nil)
	silent := fmt.Sprintf("%d\x017\x010\x01killed\x01here", s.At.Add(-readerTimeout-time.Millisecond).UnixMilli())
	do(t, q.run.Client, "HSET", baseKey(q.name)+":readers", "killed", silent)
	s = stats(t, q)
	want(t, "readers and capacity", [3]int{len(s.Readers), s.Capacity, len(s.Vanished)}, [3]int{0, 0, 1}, nil)
	want(t, "the one that vanished", s.Vanished[0].Host, "here", nil)
	say("alive", 3)
	s = stats(t, q)
	want(t, "readers and capacity with one that lives", [3]int{len(s.Readers), s.Capacity, len(s.Vanished)}, [3]int{1, 3, 0}, nil)
	left, err := do(t, q.run.Client, "HLEN", baseKey(q.name)+":readers").AsInt64()
	want(t, "entries with the placeholder", left, int64(2), err)
	r, _ := readRaw(t, q)
	want(t, "capacity for the rule", r.capacity, 3.0, nil)
}

// TestDeadLettersAreBounded without a setting.
func TestDeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	const most, more = 10_000, 40
	for range (most + more) / 40 {
		writeAll(t, q, 40, Draft{Tenant: "a"})
		nack(t, q, NackConfig{Dead: true}, read(t, q, 40)...)
	}
	s := stats(t, q)
	want(t, "dead, dropped", []int{s.Dead, int(s.Counters.Dropped)}, []int{most, more}, nil)
}

// TestDeadLettersAge without a setting.
func TestDeadLettersAge(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	scripts := clocked(t, library)
	scripttest.Load(t, client, scripts)
	q := openOn(t, client, redistest.Name(t), Config{})
	q.run.Scripts = scripts
	dies := func(word string, day time.Duration) {
		t.Helper()
		micros := strconv.FormatInt((limitsStart + day*24*time.Hour).Microseconds(), 10)
		want(t, "clock", nil, nil, do(t, client, "SET", baseKey(q.name)+":clock", micros).Error())
		die(t, q, "a:"+word)
	}
	dies("0", 0)
	dies("1", 89)
	dies("2", 91)
	want(t, "the dead", theDead(t, q), "1 2", nil)
	want(t, "keep", nil, nil, q.Dead().Keep(t.Context(), 0, 0))
	dies("3", 300)
	want(t, "the dead without a bound", theDead(t, q), "1 2 3", nil)
}

// TestCancelOfADelayedMessageThatFailed many times leaves nothing.
func TestCancelOfADelayedMessageThatFailed(t *testing.T) {
	t.Parallel()
	q := open(t, Config{MaxAttempts: 50})
	id := write(t, q, "a:1")[0]
	for range 11 {
		nack(t, q, NackConfig{}, read(t, q, 1)...)
	}
	nack(t, q, NackConfig{Delay: time.Hour}, read(t, q, 1)...)
	states, err := openOn(t, q.run.Client, q.name, Config{MaxAttempts: 2}).Cancel(t.Context(), id)
	want(t, "cancel", states, []State{Delayed}, err)
	wantNothingLeft(t, q)
}
