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

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// consuming runs a consumer for the length of a test and hands over the batches of
// its handler.
type consuming struct {
	batches chan []string // the members of each batch, as the handler got them
	answers chan error    // the handler's answers, one for each batch
	stop    func() error  // ends the consumer and returns what Consume returned
}

func consume(t *testing.T, k *Ick, cfg ConsumeConfig) *consuming {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	c := &consuming{batches: make(chan []string), answers: make(chan error)}
	done := make(chan error, 1)
	go func() {
		done <- k.Consume(ctx, cfg, func(ctx context.Context, batch []Entry) error {
			select {
			case c.batches <- Reservation{Entries: batch}.Members():
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case err := <-c.answers:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	var once sync.Once
	var result error
	c.stop = func() error {
		once.Do(func() {
			cancel(errStop)
			result = <-done
		})
		return result
	}
	t.Cleanup(func() { c.stop() })
	return c
}

var errStop = errors.New("the test is over")

// batch waits for the next batch and answers it.
func (c *consuming) batch(t *testing.T, members string, answer error) {
	t.Helper()
	select {
	case got := <-c.batches:
		slices.Sort(got)
		if diff := cmp.Diff(strings.Fields(members), got); diff != "" {
			t.Fatalf("batch (-want +got):\n%s", diff)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("no batch %q within 20 s", members)
	}
	c.answers <- answer
}

// drained waits until nothing waits or is reserved.
func drained(t *testing.T, k *Ick) Stats {
	t.Helper()
	var s Stats
	redistest.Eventually(t, "the Ick is empty", func() bool {
		var err error
		s, err = k.Stats(context.Background())
		return err == nil && s.Total == 0
	})
	return s
}

func TestConsume(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1 b2 c3", 3, 0)
	c := consume(t, k, ConsumeConfig{Batch: 2})
	c.batch(t, "a b", nil)
	c.batch(t, "c", errors.New("the database is down"))
	wantAdd(t, k, "d0", 1, 0)
	c.batch(t, "c d", errors.New("still down"))
	c.batch(t, "c d", nil)
	s := drained(t, k)
	if s.Counters.Committed != 4 || s.Counters.Parked != 0 {
		t.Errorf("counters = %+v, want 4 committed and none parked", s.Counters)
	}
	if err := c.stop(); !errors.Is(err, errStop) {
		t.Errorf("Consume = %v, want the cause of its context's end", err)
	}
}

func TestConsumeCommitsWhatWasFinishedBeforeTheEnd(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1", 1, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	err := k.Consume(ctx, ConsumeConfig{}, func(context.Context, []Entry) error {
		cancel(errStop)
		return nil
	})
	if !errors.Is(err, errStop) {
		t.Errorf("Consume = %v, want the cause of its context's end", err)
	}
	wantReserve(t, k, 1, "")
}

func TestFailedMembersArePartOfTheBatch(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1 b2 c3 d4", 4, 0)
	c := consume(t, k, ConsumeConfig{MaxAttempts: 1})
	c.batch(t, "a b c d", errors.Join(
		Failed(errors.New("too large"), "b", "not of this batch"),
		Failed(errors.New("no such row"), "d"),
	))
	s := drained(t, k)
	if got, want := s.Counters, (Counters{New: 4, Reserved: 4, Committed: 2, Parked: 2}); got != want {
		t.Errorf("counters = %+v, want %+v", got, want)
	}
	reasons := map[string]string{}
	for p, err := range k.Parked(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		reasons[p.Member] = p.Reason
		if p.Attempts != 1 || !p.Until.IsZero() || p.At.IsZero() {
			t.Errorf("parked %+v, want one attempt and no time of return", p)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"b": "too large", "d": "no such row",
	}, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// A member that fails again and again never blocks the head (I15 in
// docs/DEFECTS.md): it rests longer each time, then stays parked, and a new mark
// brings it back once, its attempts kept.
func TestPoisonIsParked(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "poison1", 1, 0)
	c := consume(t, k, ConsumeConfig{Batch: 1, MaxAttempts: 3, RetryDelay: time.Millisecond})
	for range 3 {
		c.batch(t, "poison", Failed(errors.New("cannot"), "poison"))
	}
	wantAdd(t, k, "good2", 1, 0)
	c.batch(t, "good", nil)
	s := drained(t, k)
	if s.Parked != 1 || s.Counters.Retried != 2 {
		t.Errorf("stats = %+v, want one member parked that was retried twice", s)
	}

	wantAdd(t, k, "poison9", 1, 0)
	c.batch(t, "poison", Failed(errors.New("cannot"), "poison"))
	redistest.Eventually(t, "poison is parked for good", func() bool {
		for p, err := range k.Parked(t.Context()) {
			return err == nil && p.Attempts == 4 && p.Until.IsZero()
		}
		return false
	})

	// By hand: once more, and this time it works, which clears its record.
	if n, err := k.Retry(t.Context(), "poison", "unknown"); n != 1 || err != nil {
		t.Fatalf("Retry = %d, %v, want 1", n, err)
	}
	c.batch(t, "poison", nil)
	drained(t, k)
	c.stop()
	wantAdd(t, k, "poison1", 1, 0)
	token := wantReserve(t, k, 1, "poison1")
	if n, err := k.park(t.Context(), token, ConsumeConfig{MaxAttempts: 3, RetryDelay: time.Hour}, "why", []string{"poison"}); n != 1 || err != nil {
		t.Fatalf("park = %d, %v, want 1", n, err)
	}
	for p, err := range k.Parked(t.Context()) {
		if err != nil || p.Attempts != 1 {
			t.Errorf("parked = %+v, %v, want its first attempt", p, err)
		}
	}
	if n, err := k.Drop(t.Context(), "poison", "unknown"); n != 1 || err != nil {
		t.Errorf("Drop = %d, %v, want 1", n, err)
	}
	wantReserve(t, k, 1, "")
	if got := keyspace(t, k); slices.Contains(got, keyParked) || slices.Contains(got, keyFails) || slices.Contains(got, keyFolds) {
		t.Errorf("keys when all is done = %v, want nothing of any member", got)
	}
}

func TestRestsDouble(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1", 1, 0)
	rest := 10 * time.Minute
	for i, want := range []time.Duration{rest, 2 * rest, 4 * rest, maxRetryDelay, maxRetryDelay, 0} {
		r, err := k.Reserve(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := k.park(t.Context(), r.Token, ConsumeConfig{MaxAttempts: 6, RetryDelay: rest}, "why", []string{"a"}); n != 1 || err != nil {
			t.Fatalf("park = %d, %v", n, err)
		}
		wantReserve(t, k, 1, "")
		for p, err := range k.Parked(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got := p.Until.Sub(p.At)
			if p.Until.IsZero() {
				got = 0
			}
			if got != want || p.Attempts != i+1 {
				t.Errorf("rest after %d attempts = %v, want %v after %d", p.Attempts, got, want, i+1)
			}
		}
		if n, err := k.Retry(t.Context(), "a"); n != 1 || err != nil {
			t.Fatalf("Retry = %d, %v", n, err)
		}
	}
}

func TestPanicIsAFailedBatch(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1", 1, 0)
	ctx, cancel := context.WithCancel(t.Context())
	hook := &recorder{}
	k.cfg.Hooks = []millrace.Hook{hook}
	calls := 0
	_ = k.Consume(ctx, ConsumeConfig{}, func(context.Context, []Entry) error {
		if calls++; calls == 1 {
			panic("poison")
		}
		cancel()
		return nil
	})
	if calls != 2 {
		t.Errorf("the handler was called %d times, want once more after the panic", calls)
	}
	if p, ok := errors.AsType[*loop.PanicError](hook.handled[0]); !ok || p.Value != "poison" {
		t.Errorf("handler's first error = %v, want the panic", hook.handled[0])
	}
	wantReserve(t, k, 1, "")
}

// TestAddWakesAConsumer gives the consumer a poll of an hour: only the wake key
// can bring it back.
func TestAddWakesAConsumer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "x", Config{})
	c := consume(t, k, ConsumeConfig{poll: time.Hour})
	for i, member := range []string{"a", "b", "c"} {
		redistest.Eventually(t, "the consumer sleeps", func() bool {
			return server.Info("clients")["blocked_clients"] == "1"
		})
		wantAdd(t, k, member+fmt.Sprint(i), 1, 0)
		c.batch(t, member, nil)
	}
	redistest.Eventually(t, "the consumer sleeps", func() bool { return server.Info("clients")["blocked_clients"] == "1" })

	// Without the token it sleeps on.
	silent := openOn(t, server.Client(t), "x", Config{})
	useScripts(silent, scripttest.Without(t, library, "redis.pcall('LPUSH', wake, '1')", ""))
	wantAdd(t, silent, "d1", 1, 0)
	if got := server.Info("clients")["blocked_clients"]; got != "1" {
		t.Errorf("blocked clients after a silent add = %s, want 1", got)
	}
}

// A gem producer pushes no token; the consumer finds its mark all the same.
func TestSilentProducersAreFound(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	useScripts(k, scripttest.Without(t, library, "redis.pcall('LPUSH', wake, '1')", ""))
	c := consume(t, k, ConsumeConfig{poll: 20 * time.Millisecond})
	wantAdd(t, k, "a1", 1, 0)
	c.batch(t, "a", nil)
	if pollEvery > time.Second {
		t.Errorf("silent producers are looked for every %v, want at most a second", pollEvery)
	}
}

// TestIdleConsumerIsQuiet counts the commands of an idle consumer.
func TestIdleConsumerIsQuiet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "x", Config{})
	wantAdd(t, k, "a1", 1, 0)
	c := consume(t, k, ConsumeConfig{})
	c.batch(t, "a", nil)
	rounds := commands(t, server)
	start := time.Now()
	redistest.Eventually(t, "three idle rounds", func() bool { return commands(t, server) >= rounds+6 })
	if perSecond := 6 / time.Since(start).Seconds(); perSecond > 20 {
		t.Errorf("an idle consumer sends %.0f commands a second, more than 20", perSecond)
	}
}

// commands counts the commands that consumers have sent to a server; commands inside
// scripts do not count.
func commands(t *testing.T, server *redistest.Server) (total int) {
	t.Helper()
	for name, line := range server.Info("commandstats") {
		var n int
		if _, err := fmt.Sscanf(line, "calls=%d,", &n); err != nil {
			t.Fatal(err)
		}
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "evalsha", "blpop":
			total += n
		}
	}
	return total
}

// TestSettle: a member is reserved when its mark is as old as Settle, and marking it again does not put it off.
func TestSettle(t *testing.T) {
	t.Parallel()
	k := open(t, Config{Settle: time.Hour})
	ctx := t.Context()
	if _, err := k.AddNow(ctx, "young"); err != nil {
		t.Fatal(err)
	}
	r, err := k.Reserve(ctx, 10)
	want(t, "reserve", show(r.Entries), "", err)
	if r.pause < 59*time.Minute || r.pause > time.Hour {
		t.Errorf("pause until more is due = %v, want about an hour", r.pause)
	}
	old := float64(time.Now().Add(-2 * time.Hour).Unix())
	if _, err := k.Add(ctx, Entry{"old", old}); err != nil {
		t.Fatal(err)
	}
	r, err = k.Reserve(ctx, 10)
	want(t, "reserve", r.Members(), []string{"old"}, err)
	// Marked again, a member keeps its first time: a burst cannot put it off.
	if added, err := k.Add(ctx, Entry{"young", old - 1}); err != nil || added.Lowered != 1 {
		t.Fatalf("add = %+v, %v", added, err)
	}
	if _, err := k.AddNow(ctx, "young"); err != nil {
		t.Fatal(err)
	}
	r, err = k.Reserve(ctx, 10)
	want(t, "reserve", r.Members(), []string{"young", "old"}, err)
}

func TestSettledMarksComeInTime(t *testing.T) {
	t.Parallel()
	const rest = 80 * time.Millisecond
	k := open(t, Config{Settle: rest})
	c := consume(t, k, ConsumeConfig{poll: time.Hour}) // only the pause can bring it back
	for range 5 {
		if _, err := k.AddNow(t.Context(), "a", "a"); err != nil { // the folds of two are counted at once
			t.Fatal(err)
		}
	}
	c.batch(t, "a", nil)
	s := drained(t, k)
	if got, want := s.Counters, (Counters{New: 1, Folded: 9, Reserved: 1, Committed: 1}); got != want {
		t.Errorf("counters = %+v, want %+v: the burst costs one run", got, want)
	}
}

func TestConsumeEndsOnWhatNoRepeatCanMend(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	if err := do(t, k.run.Client, "SET", k.name, "ick.v9").Error(); err != nil {
		t.Fatal(err)
	}
	err := k.Consume(t.Context(), ConsumeConfig{}, func(context.Context, []Entry) error { return nil })
	wantError(t, err, millrace.ErrVersion)
}

// recorder is a hook that records its calls.
type recorder struct {
	mu      sync.Mutex
	calls   []millrace.Call
	failed  []error
	batches []millrace.Handling
	handled []error
}

func (r *recorder) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
	return ctx, func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = append(r.failed, err)
	}
}

func (r *recorder) OnHandle(ctx context.Context, h millrace.Handling) (context.Context, func(error)) {
	r.batches = append(r.batches, h)
	return ctx, func(err error) { r.handled = append(r.handled, err) }
}

// enlister counts its calls.
type enlister struct{ moments int }

func (e *enlister) Enlist(context.Context) { e.moments++ }

func TestHooksAndEnlister(t *testing.T) {
	t.Parallel()
	hook, idle := &recorder{}, &enlister{}
	k := open(t, Config{Hooks: []millrace.Hook{hook, "a hook that watches nothing"}, Enlister: idle})
	start := time.Now()
	if _, err := k.Add(t.Context(), Entry{"a", float64(start.Add(-time.Minute).Unix())}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_ = k.Consume(ctx, ConsumeConfig{}, func(context.Context, []Entry) error { cancel(); return nil })
	if _, err := k.Reserve(t.Context(), 1); err != nil {
		t.Fatal(err)
	}

	if len(hook.batches) != 1 || hook.batches[0].Size != 1 || hook.batches[0].Age < time.Minute ||
		hook.batches[0].Key != k.name || hook.handled[0] != nil {
		t.Errorf("handled = %+v, %v, want one batch of one that waited a minute", hook.batches, hook.handled)
	}
	var calls []string
	for _, call := range hook.calls {
		if call.Key != k.name || call.Try != 1 {
			t.Errorf("call = %+v, want the first try on %s", call, k.name)
		}
		calls = append(calls, call.Script)
	}
	if diff := cmp.Diff([]string{"ick.add", "ick.exchange", "ick.exchange", "ick.exchange"}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if len(hook.failed) != len(calls) {
		t.Errorf("ends of calls = %d, want %d", len(hook.failed), len(calls))
	}
	if idle.moments != 1 {
		t.Errorf("idle moments = %d, want one: the last reserve found nothing", idle.moments)
	}
}
