package tracing

import (
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// setGlobals sets OpenTelemetry's globals, and returns the spans recorded there. Tracers and
// propagators made earlier forward only to the first globals that are set.
var setGlobals = sync.OnceValue(func() *tracetest.InMemoryExporter {
	spans := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return spans
})

// TestGlobalsMayComeLater: the zero Config works with globals that the program sets after
// the hook was made.
func TestGlobalsMayComeLater(t *testing.T) {
	hook := newHook(Config{})
	spans := setGlobals()
	spans.Reset()

	ctx, done := hook.OnCall(t.Context(), someCall)
	headers := map[string]string{}
	hook.OnWrite(ctx, headers)
	done(nil)
	one(t, spans, "ick.add")
	if headers["traceparent"] == "" {
		t.Error("the global propagator is not used")
	}
}
