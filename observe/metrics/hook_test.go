package metrics

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/observe/metrics/stealmetrics"
	"github.com/millrace/millrace/steal"
)

func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	client := redistest.Shared(t).Client(t)
	k := newIck(t, client, redistest.Name(t), hook)
	locker, err := lease.New(client, lease.Config{Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for range 3 {
		if _, err := k.AddNow(ctx, "a"); err != nil {
			t.Fatal(err)
		}
	}
	held, err := locker.Acquire(ctx, redistest.Name(t), time.Minute, lease.AcquireConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	wantSamples(t, reg, "call", map[string]float64{
		"calls_total{outcome=ok,script=ick.add}":       3,
		"calls_total{outcome=ok,script=lease.acquire}": 1,
		"calls_total{outcome=ok,script=lease.release}": 1,
		"call_seconds{script=ick.add}":                 3,
		"call_seconds{script=lease.acquire}":           1,
		"call_seconds{script=lease.release}":           1,
	})
}

func TestRepeatedCallIsARetry(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	k := newIck(t, proxy.Client(t), redistest.Name(t), hook)
	if _, err := k.AddNow(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	proxy.DropReply(redistest.Named("EVALSHA"))
	if _, err := k.AddNow(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantSamples(t, reg, "call", map[string]float64{
		"calls_total{outcome=ok,script=ick.add}":    2,
		"calls_total{outcome=error,script=ick.add}": 1,
		"call_retries_total{script=ick.add}":        1,
		"call_seconds{script=ick.add}":              3,
	})
}

// TestRefusalsOfRedisHaveTheirOutcome: Redis's own code comes before the name that a
// structure gives the error.
func TestRefusalsOfRedisHaveTheirOutcome(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	client := redistest.Start(t, redistest.Options{MaxMemory: "1"}).Client(t)
	k := newIck(t, client, "documents", hook)
	if _, err := k.AddNow(t.Context(), "a"); !errors.Is(err, millrace.ErrFull) {
		t.Fatalf("add to a full server = %v, want ErrFull", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.AddNow(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Fatalf("add with a cancelled context = %v, want context.Canceled", err)
	}

	shared := redistest.Shared(t).Client(t)
	foreign := newIck(t, shared, redistest.Name(t), hook)
	if err := shared.Do(t.Context(), shared.B().Set().Key(foreign.Name()).Value("ick.v99").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.AddNow(t.Context(), "a"); !errors.Is(err, millrace.ErrVersion) {
		t.Fatalf("add to a foreign Ick = %v, want ErrVersion", err)
	}
	wantSamples(t, reg, "calls_total", map[string]float64{
		"calls_total{outcome=full,script=ick.add}":        1,
		"calls_total{outcome=interrupted,script=ick.add}": 1,
		"calls_total{outcome=version,script=ick.add}":     1,
	})
}

func TestHandlersAreCounted(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	k := newIck(t, redistest.Shared(t).Client(t), redistest.Name(t), hook)
	if _, err := k.Add(t.Context(), ick.Entry{Member: "a", Score: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	err := k.Consume(ctx, ick.ConsumeConfig{}, func(context.Context, []ick.Entry) error {
		runs++
		switch runs {
		case 1:
			return errors.New("the index is down")
		case 2:
			panic("a bug")
		case 3:
			return millrace.ErrFull.Errorf("the index is full")
		}
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Consume = %v", err)
	}
	hook.OnHandle(t.Context(), millrace.Handling{Structure: "ick", Age: -1}) // under way, of unknown age
	wantSamples(t, reg, "hand", map[string]float64{
		"handled_total{outcome=error,structure=ick}": 1,
		"handled_total{outcome=panic,structure=ick}": 1,
		"handled_total{outcome=full,structure=ick}":  1,
		"handled_total{outcome=ok,structure=ick}":    1,
		"handle_seconds{structure=ick}":              4,
	})
	wantSamples(t, reg, "pickup", map[string]float64{"pickup_delay_seconds{structure=ick}": 4})
	hook.OnRead(t.Context(), millrace.Handling{Structure: "fairqueue", Size: 3})
	wantSamples(t, reg, "pickup", map[string]float64{"pickup_delay_seconds{structure=ick}": 4, "pickup_delay_seconds{structure=fairqueue}": 1})
}

func TestHistogramsHoldSeconds(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	_, done := hook.OnHandle(t.Context(), millrace.Handling{Structure: "ick", Age: 90 * time.Second})
	done(nil)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "millrace_pickup_delay_seconds" {
			continue
		}
		histogram := family.GetMetric()[0].GetHistogram()
		if got, want := histogram.GetSampleSum(), 90.0; got != want {
			t.Errorf("sum = %v, want %v", got, want)
		}
		for _, bucket := range histogram.GetBucket() {
			if got, want := bucket.GetCumulativeCount() == 1, bucket.GetUpperBound() >= 600; got != want {
				t.Errorf("bucket up to %v s holds the sample: %t, want %t", bucket.GetUpperBound(), got, want)
			}
		}
		return
	}
	t.Error("there is no histogram of pickup delays")
}

// TestNoWaitIsAWait: a message that was picked up at once counts in the quantiles of the wait.
func TestNoWaitIsAWait(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	for _, age := range []time.Duration{0, 0, 0, time.Minute, -1} {
		_, done := hook.OnHandle(t.Context(), millrace.Handling{Structure: "fairqueue", Age: age})
		done(nil)
	}
	wantSamples(t, reg, "pickup", map[string]float64{"pickup_delay_seconds{structure=fairqueue}": 4})
}

func TestRecruitsAreCounted(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	recruiter := steal.New(steal.Config{Hooks: []millrace.Hook{hook}})
	register(t, reg, stealmetrics.Collector(recruiter))
	answers := []millrace.Progress{millrace.More, millrace.More, millrace.Worked, millrace.Idle}
	install(t, recruiter, 1, millrace.Job{Name: "sweep", Slice: func(context.Context) (millrace.Progress, error) {
		if len(answers) == 0 {
			return millrace.Idle, errors.New("out of answers")
		}
		next := answers[0]
		answers = answers[1:]
		return next, nil
	}})
	install(t, recruiter, 0, millrace.Job{Name: "never \xff", Slice: func(context.Context) (millrace.Progress, error) {
		return millrace.Idle, nil
	}})
	began := time.Now()
	for range 10 { // works, is idle, fails five times, and is left alone
		recruiter.Enlist(t.Context())
	}
	wantSamples(t, reg, "steal_recruited", map[string]float64{
		"steal_recruited_total{outcome=worked,task=sweep,via=draw}":  1,
		"steal_recruited_total{outcome=idle,task=sweep,via=draw}":    1,
		"steal_recruited_total{outcome=error,task=sweep,via=draw}":   5,
		"steal_recruited_total{outcome=breaker,task=sweep,via=draw}": 3,
	})
	wantSamples(t, reg, "steal_rounds", map[string]float64{"steal_rounds_total{task=sweep}": 9})
	wantSamples(t, reg, "steal_recruit_seconds", map[string]float64{"steal_recruit_seconds{task=sweep}": 7})
	wantSamples(t, reg, "steal_rate", map[string]float64{"steal_rate{task=sweep}": 1, "steal_rate{task=never \uFFFD}": 0})
	wantSamples(t, reg, "steal_running", map[string]float64{"steal_running{task=sweep}": 0, "steal_running{task=never \uFFFD}": 0})
	wantSamples(t, reg, "steal_enlisted", map[string]float64{"steal_enlisted_total{}": float64(recruiter.Stats().Enlisted)})
	worked := scrape(t, reg, "steal_last_worked")
	if at := worked["steal_last_worked_timestamp_seconds{task=sweep}"]; len(worked) != 1 ||
		at < float64(began.UnixMilli())/1e3 || at > float64(time.Now().UnixMilli()+1)/1e3 {
		t.Errorf("last worked = %v, want that of sweep alone, now", worked)
	}
	hook.OnRecruit(t.Context(), millrace.Recruited{Job: "never \xff", Outcome: steal.Worked, Floor: true})
	if got, want := scrape(t, reg, "steal_rec")["steal_recruited_total{outcome=worked,task=never \uFFFD,via=floor}"], 1.0; got != want {
		t.Errorf("floor runs of a job whose name is no UTF-8 = %v, want %v", got, want)
	}
}

func TestOneHookARegistry(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	if second, err := New(reg); err == nil || second != nil {
		t.Errorf("New on the same registry = %v, %v, want an error", second, err)
	}
	other, otherHook := fresh(t)
	hook.OnRecruit(t.Context(), millrace.Recruited{Job: "a"})
	otherHook.OnRecruit(t.Context(), millrace.Recruited{Job: "b"})
	wantSamples(t, other, "steal_rounds", map[string]float64{"steal_rounds_total{task=b}": 0})
	if _, err := New(prometheus.WrapRegistererWithPrefix("b_", other)); err != nil {
		t.Errorf("New with another prefix = %v", err)
	}
}

// BenchmarkCall measures the time that the hook adds to each call.
func BenchmarkCall(b *testing.B) {
	made, err := New(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	hook, ctx := made.(*hook), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, done := hook.OnCall(ctx, millrace.Call{Script: "ick.add", Key: "documents", Try: 1})
		done(nil)
	}
}
