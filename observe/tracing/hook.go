package tracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/redis/retry"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/millrace/millrace/observe/tracing"

// Config configures a hook. The zero value works: it uses the globals of OpenTelemetry,
// which a program may set before or after.
type Config struct {
	// TracerProvider makes the spans. Defaults to otel.GetTracerProvider.
	TracerProvider trace.TracerProvider

	// Propagator writes and reads the headers of messages. Defaults to
	// otel.GetTextMapPropagator, which does nothing unless the program sets one.
	Propagator propagation.TextMapPropagator
}

// hook makes spans.
type hook struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator

	// Options are built once, so that a span that is not recorded costs little.
	callOptions   []trace.SpanStartOption
	handleOptions []trace.SpanStartOption
}

var (
	_ millrace.CallHook    = (*hook)(nil)
	_ millrace.HandleHook  = (*hook)(nil)
	_ millrace.CarryHook   = (*hook)(nil)
	_ millrace.ReadHook    = (*hook)(nil)
	_ millrace.RecruitHook = (*hook)(nil)
)

// New returns a hook that makes spans. Put it into the Config.Hooks of all structures and
// of the recruiter. It is safe for concurrent use.
func New(cfg Config) millrace.Hook { return newHook(cfg) }

func newHook(cfg Config) *hook {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = otel.GetTextMapPropagator()
	}
	return &hook{
		tracer:     cfg.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		propagator: cfg.Propagator,
		callOptions: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(semconv.DBSystemNameRedis, semconv.DBOperationName("EVALSHA")),
		},
		handleOptions: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(
				semconv.MessagingSystemKey.String("millrace"),
				semconv.MessagingOperationName("handle"),
				semconv.MessagingOperationTypeProcess,
			),
		},
	}
}

// OnCall makes the span of a script call.
func (h *hook) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	ctx, span := h.tracer.Start(ctx, call.Script, h.callOptions...)
	if !span.IsRecording() {
		return ctx, nil
	}
	span.SetAttributes(
		semconv.DBStoredProcedureName(call.Script),
		attribute.String("millrace.key", call.Key),
		attribute.Int("millrace.try", call.Try),
	)
	return ctx, func(err error) {
		if word := retry.Word(err); word != "" {
			span.SetAttributes(semconv.DBResponseStatusCode(word))
		}
		note(span, err)
		span.End()
	}
}

// OnHandle makes the span of a run of a handler, under the span of the writer if
// the message carries one.
func (h *hook) OnHandle(ctx context.Context, work millrace.Handling) (context.Context, func(error)) {
	if len(work.Headers) > 0 {
		ctx = h.propagator.Extract(ctx, propagation.MapCarrier(work.Headers))
	}
	ctx, span := h.tracer.Start(ctx, "handle "+work.Structure, h.handleOptions...)
	if !span.IsRecording() {
		return ctx, nil
	}
	span.SetAttributes(
		attribute.String("millrace.structure", work.Structure),
		attribute.String("millrace.key", work.Key),
		attribute.Int("millrace.size", work.Size),
	)
	if work.Age >= 0 {
		span.SetAttributes(attribute.Int64("millrace.pickup_delay_ms", work.Age.Milliseconds()))
	}
	if work.Attempt > 0 {
		span.SetAttributes(attribute.Int("millrace.attempt", work.Attempt))
	}
	return ctx, func(err error) {
		note(span, err)
		span.End()
	}
}

// OnRead notes on the span of a read's caller how long its messages waited.
func (h *hook) OnRead(ctx context.Context, work millrace.Handling) {
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int64("millrace.pickup_delay_ms", work.Age.Milliseconds()))
}

// OnWrite adds the context of the writer's trace to a message's headers.
func (h *hook) OnWrite(ctx context.Context, headers map[string]string) {
	h.propagator.Inject(ctx, propagation.MapCarrier(headers))
}

// OnRecruit makes the span of a recruit that ran slices, if its caller has one that
// has not ended.
func (h *hook) OnRecruit(ctx context.Context, recruit millrace.Recruited) {
	if recruit.Rounds == 0 || !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	via := "draw"
	if recruit.Floor {
		via = "floor"
	}
	now := time.Now()
	_, span := h.tracer.Start(ctx, "steal "+recruit.Job, trace.WithTimestamp(now.Add(-recruit.Took)))
	defer span.End(trace.WithTimestamp(now))
	span.SetAttributes(
		attribute.String("millrace.job", recruit.Job),
		attribute.String("millrace.via", via),
		attribute.String("millrace.outcome", recruit.Outcome),
		attribute.Int("millrace.rounds", recruit.Rounds),
	)
	note(span, recruit.Err)
}

// note records an error in a span.
func note(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(semconv.ErrorTypeKey.String(kind(err)))
	}
}

// kind returns the error.type of an error.
func kind(err error) string {
	err = retry.Bare(err)
	if code := millrace.Code(err); code != "" {
		return code
	}
	if word := retry.Word(err); word != "" {
		return word
	}
	switch {
	case errors.As(err, new(*loop.PanicError)):
		return "panic"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return semconv.ErrorTypeOther.Value.AsString()
}
