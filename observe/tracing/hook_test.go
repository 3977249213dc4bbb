package tracing

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/steal"
)

// TestMessageRoundTrip follows a message from its writer through two deliveries.
func TestMessageRoundTrip(t *testing.T) {
	t.Parallel()
	hook, tracer, spans := fresh(t)
	member, err := baggage.NewMember("customer", "7")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ctx, request := tracer.Start(baggage.ContextWithBaggage(t.Context(), bag), "request")
	headers := map[string]string{"mine": "kept"}
	hook.OnWrite(ctx, headers)
	hook.OnRead(ctx, millrace.Handling{Structure: "fairqueue", Size: 3, Age: time.Minute})
	request.End()
	if headers["traceparent"] == "" || headers["mine"] != "kept" || len(headers) != 3 {
		t.Errorf("headers = %v, want traceparent, baggage and what was there", headers)
	}

	for attempt, failure := range []error{millrace.ErrFull.Errorf("the index is full"), nil} {
		handling := millrace.Handling{
			Structure: "fairqueue", Key: "orders", Size: 1, Age: 1500 * time.Millisecond, Attempt: attempt + 1, Headers: headers,
		}
		ctx, done := hook.OnHandle(t.Context(), handling)
		if got, want := baggage.FromContext(ctx).Member("customer").Value(), "7"; got != want {
			t.Errorf("the handler's baggage = %q, want %q", got, want)
		}
		_, work := tracer.Start(ctx, "work")
		work.End()
		done(failure)
	}

	runs, work := named(spans, "handle fairqueue"), named(spans, "work")
	if len(runs) != 2 || len(work) != 2 {
		t.Fatalf("spans = %d of handlers and %d in them, want 2 and 2", len(runs), len(work))
	}
	want := map[string]any{
		"messaging.system":         "millrace",
		"messaging.operation.name": "handle",
		"messaging.operation.type": "process",
		"millrace.structure":       "fairqueue",
		"millrace.key":             "orders",
		"millrace.size":            int64(1),
		"millrace.pickup_delay_ms": int64(1500),
		"millrace.attempt":         int64(1),
		"error.type":               "full",
	}
	wantAttributes(t, runs[0], want)
	wantAttributes(t, named(spans, "request")[0], map[string]any{"millrace.pickup_delay_ms": int64(60_000)})
	delete(want, "error.type")
	want["millrace.attempt"] = int64(2)
	wantAttributes(t, runs[1], want)
	for i, run := range runs {
		wantKind(t, run, api.SpanKindConsumer)
		wantChild(t, run, one(t, spans, "request"))
		wantChild(t, work[i], run)
		if !run.Parent.IsRemote() {
			t.Error("the parent of a handler's span is not known to be remote")
		}
	}
	if got, want := runs[0].Status, (trace.Status{Code: codes.Error, Description: "the index is full"}); got != want {
		t.Errorf("status of the failed run = %v, want %v", got, want)
	}
	if got, want := runs[1].Status.Code, codes.Unset; got != want {
		t.Errorf("status of the good run = %v, want %v", got, want)
	}
}

func TestMessageOfNobody(t *testing.T) {
	t.Parallel()
	hook, _, spans := fresh(t)
	headers := map[string]string{}
	hook.OnWrite(t.Context(), headers)
	if len(headers) != 0 {
		t.Errorf("headers written outside of any trace = %v, want none", headers)
	}
	for _, headers := range []map[string]string{nil, {"mine": "kept"}, {"traceparent": "nonsense"}} {
		_, done := hook.OnHandle(t.Context(), millrace.Handling{Structure: "fairqueue", Age: -1, Headers: headers})
		done(nil)
	}
	for _, run := range named(spans, "handle fairqueue") {
		if run.Parent.IsValid() {
			t.Errorf("a message without a trace has the parent %v", run.Parent)
		}
		if _, known := attributes(run)["millrace.pickup_delay_ms"]; known {
			t.Error("an unknown age is an attribute")
		}
	}
	_, done := hook.OnHandle(t.Context(), millrace.Handling{Structure: "lease"})
	done(nil)
	for _, run := range named(spans, "handle lease") {
		if delay, known := attributes(run)["millrace.pickup_delay_ms"]; !known || delay != int64(0) {
			t.Errorf("the age of what did not wait is %v (%t), want 0", delay, known)
		}
	}
}

func TestIckConsume(t *testing.T) {
	t.Parallel()
	hook, tracer, spans := fresh(t)
	k, err := ick.New(redistest.Shared(t).Client(t), redistest.Name(t), ick.Config{Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	request, span := tracer.Start(t.Context(), "request")
	minuteAgo := float64(time.Now().Add(-time.Minute).Unix())
	if _, err := k.Add(request, ick.Entry{Member: "a", Score: minuteAgo}, ick.Entry{Member: "b", Score: minuteAgo}); err != nil {
		t.Fatal(err)
	}
	span.End()
	ctx, cancel := context.WithCancel(t.Context())
	err = k.Consume(ctx, ick.ConsumeConfig{}, func(ctx context.Context, _ []ick.Entry) error {
		defer cancel()
		_, err := k.Add(ctx, ick.Entry{Member: "follows", Score: 1})
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Consume = %v", err)
	}

	adds := named(spans, "ick.add")
	if len(adds) != 2 {
		t.Fatalf("there are %d spans ick.add, want 2", len(adds))
	}
	run := one(t, spans, "handle ick")
	wantChild(t, adds[0], one(t, spans, "request"))
	wantChild(t, adds[1], run)
	for _, add := range adds {
		wantKind(t, add, api.SpanKindClient)
		wantAttributes(t, add, map[string]any{
			"db.system.name":           "redis",
			"db.operation.name":        "EVALSHA",
			"db.stored_procedure.name": "ick.add",
			"millrace.key":             k.Name(),
			"millrace.try":             int64(1),
		})
	}

	wantKind(t, run, api.SpanKindConsumer)
	if run.Parent.IsValid() {
		t.Errorf("the run of a batch has the parent %v", run.Parent)
	}
	got := attributes(run)
	if delay, _ := got["millrace.pickup_delay_ms"].(int64); delay < 60_000 || delay > 90_000 {
		t.Errorf("pickup delay = %d ms, want a minute", delay)
	}
	delete(got, "millrace.pickup_delay_ms")
	want := map[string]any{
		"messaging.system":         "millrace",
		"messaging.operation.name": "handle",
		"messaging.operation.type": "process",
		"millrace.structure":       "ick",
		"millrace.key":             k.Name(),
		"millrace.size":            int64(2),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes of the run (-want +got):\n%s", diff)
	}
}

// TestEachTryIsASpan acquires a lease whose first answer is lost.
func TestEachTryIsASpan(t *testing.T) {
	t.Parallel()
	hook, tracer, spans := fresh(t)
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	locker, err := lease.New(proxy.Client(t), lease.Config{Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Acquire(t.Context(), redistest.Name(t), time.Minute, lease.AcquireConfig{}); err != nil {
		t.Fatal(err) // so that the server knows the script
	}
	spans.Reset()
	proxy.DropReply(redistest.Named("EVALSHA"))
	ctx, request := tracer.Start(t.Context(), "request")
	held, err := locker.Acquire(ctx, redistest.Name(t), time.Minute, lease.AcquireConfig{})
	if err != nil {
		t.Fatal(err)
	}
	request.End()
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	tries := named(spans, "lease.acquire")
	if len(tries) != 2 {
		t.Fatalf("there are %d spans lease.acquire, want 2", len(tries))
	}
	for i, failed := range []bool{true, false} {
		wantChild(t, tries[i], one(t, spans, "request"))
		got := attributes(tries[i])
		if want := int64(i + 1); got["millrace.try"] != want {
			t.Errorf("try = %v, want %d", got["millrace.try"], want)
		}
		if _, kind := got["error.type"]; kind != failed || (tries[i].Status.Code == codes.Error) != failed {
			t.Errorf("try %d has the status %v and error.type %v, want an error: %t", i+1, tries[i].Status, got["error.type"], failed)
		}
	}
	if _, answered := attributes(tries[0])["db.response.status_code"]; answered {
		t.Error("a lost reply has a status code of Redis")
	}
}

func TestRefusalOfRedis(t *testing.T) {
	t.Parallel()
	hook, _, spans := fresh(t)
	client := redistest.Start(t, redistest.Options{MaxMemory: "1"}).Client(t)
	k, err := ick.New(client, "documents", ick.Config{Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.AddNow(t.Context(), "a"); !errors.Is(err, millrace.ErrFull) {
		t.Fatalf("add to a full server = %v, want ErrFull", err)
	}
	got := attributes(one(t, spans, "ick.add"))
	for _, name := range []string{"db.response.status_code", "error.type"} {
		if want := "OOM"; got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
}

func TestKindsOfErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want string
	}{
		{errors.New("anything"), "_OTHER"},
		{fmt.Errorf("index: %w", lease.ErrLost.Wrap(context.Canceled)), "lost"},
		{fmt.Errorf("index: %w", context.Canceled), "interrupted"},
		{context.DeadlineExceeded, "timeout"},
		{loop.Protect(func() error { panic("a bug") }), "panic"},
	}
	for _, tc := range tests {
		if got := kind(tc.err); got != tc.want {
			t.Errorf("kind of %v = %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestRecruits(t *testing.T) {
	t.Parallel()
	hook, tracer, spans := fresh(t)
	recruiter := steal.New(steal.Config{Hooks: []millrace.Hook{hook}})
	answers := []error{nil, errors.New("the shard is gone")}
	err := recruiter.Install(millrace.Job{Name: "sweep", Slice: func(context.Context) (millrace.Progress, error) {
		next := answers[0]
		answers = answers[1:]
		return millrace.Worked, next
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, request := tracer.Start(t.Context(), "request")
	recruiter.Enlist(ctx)
	recruiter.Enlist(ctx)
	hook.OnRecruit(ctx, millrace.Recruited{Job: "sweep", Outcome: steal.Busy}) // nothing ran
	request.End()
	hook.OnRecruit(ctx, millrace.Recruited{Job: "sweep", Rounds: 1})                      // behind the response
	hook.OnRecruit(t.Context(), millrace.Recruited{Job: "sweep", Rounds: 1, Floor: true}) // part of no trace

	recruits := named(spans, "steal sweep")
	if len(recruits) != 2 {
		t.Fatalf("there are %d spans of recruits, want 2", len(recruits))
	}
	outer := one(t, spans, "request")
	for _, recruit := range recruits {
		wantChild(t, recruit, outer)
		if recruit.StartTime.Before(outer.StartTime) || recruit.EndTime.After(outer.EndTime) || recruit.EndTime.Before(recruit.StartTime) {
			t.Errorf("a recruit took from %s to %s, want it within the request, %s to %s",
				recruit.StartTime, recruit.EndTime, outer.StartTime, outer.EndTime)
		}
	}
	want := map[string]any{
		"millrace.job": "sweep", "millrace.via": "draw", "millrace.outcome": "worked", "millrace.rounds": int64(1),
	}
	wantAttributes(t, recruits[0], want)
	want["millrace.outcome"], want["error.type"] = "error", "_OTHER"
	wantAttributes(t, recruits[1], want)
	if got, want := recruits[1].Status.Description, "the shard is gone"; got != want {
		t.Errorf("status of the failed recruit = %q, want %q", got, want)
	}
}

// TestSamplingTravels: a request that is not sampled has handlers that are not.
func TestSamplingTravels(t *testing.T) {
	t.Parallel()
	hook, tracer, spans := fresh(t, trace.WithSampler(trace.ParentBased(trace.NeverSample())))
	ctx, request := tracer.Start(t.Context(), "request")
	headers := map[string]string{}
	hook.OnWrite(ctx, headers)
	hook.OnRead(ctx, millrace.Handling{Structure: "fairqueue", Size: 3, Age: time.Minute})
	request.End()
	if headers["traceparent"] == "" {
		t.Fatal("a request that is not sampled does not tell its messages")
	}
	sampling, _, sampled := fresh(t) // of a process that would sample by itself
	handler, done := sampling.OnHandle(t.Context(), millrace.Handling{Structure: "fairqueue", Headers: headers})
	if done != nil {
		t.Error("a span that is not recorded asks to be told of its end")
	}
	if got, want := api.SpanContextFromContext(handler).TraceID(), request.SpanContext().TraceID(); got != want {
		t.Errorf("the handler's trace = %v, want the request's, %v", got, want)
	}
	if got := len(spans.GetSpans()) + len(sampled.GetSpans()); got != 0 {
		t.Errorf("%d spans were recorded, want none", got)
	}
}

// TestUnrecordedCostsLittle: with OpenTelemetry's own no-op, the only cost is the
// context that the tracer makes.
func TestUnrecordedCostsLittle(t *testing.T) {
	hook := newHook(Config{TracerProvider: noop.NewTracerProvider()})
	ctx := t.Context()
	if got := testing.AllocsPerRun(1000, func() { hook.OnCall(ctx, someCall) }); got > 1 {
		t.Errorf("a call that is not recorded makes %v allocations, want 1", got)
	}
	work := millrace.Handling{Structure: "ick"}
	if got := testing.AllocsPerRun(1000, func() { hook.OnHandle(ctx, work) }); got > 2 {
		t.Errorf("a run that is not recorded makes %v allocations, want the context and the name", got)
	}
	if got := testing.AllocsPerRun(1000, func() { hook.OnRecruit(ctx, millrace.Recruited{Rounds: 1}) }); got != 0 {
		t.Errorf("a recruit that is not recorded makes %v allocations, want none", got)
	}
}

var someCall = millrace.Call{Script: "ick.add", Key: "documents", Try: 1}

// BenchmarkCall measures the time that the hook adds to each call.
func BenchmarkCall(b *testing.B) {
	for name, provider := range map[string]api.TracerProvider{
		"noop":     noop.NewTracerProvider(),
		"dropped":  trace.NewTracerProvider(trace.WithSampler(trace.NeverSample())),
		"recorded": trace.NewTracerProvider(),
	} {
		b.Run(name, func(b *testing.B) {
			hook := newHook(Config{TracerProvider: provider})
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, done := hook.OnCall(ctx, someCall); done != nil {
					done(nil)
				}
			}
		})
	}
}
