package tracing

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
)

// fresh returns a hook that carries W3C headers, a tracer, and the recorded spans.
func fresh(t *testing.T, options ...trace.TracerProviderOption) (*hook, api.Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(append(options, trace.WithSyncer(spans))...)
	t.Cleanup(func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	hook := newHook(Config{
		TracerProvider: provider,
		Propagator:     propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	})
	return hook, provider.Tracer("test"), spans
}

// named returns the spans of that name, in the order in which they ended.
func named(spans *tracetest.InMemoryExporter, name string) tracetest.SpanStubs {
	var found tracetest.SpanStubs
	for _, span := range spans.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

// one returns the only span of that name.
func one(t *testing.T, spans *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	found := named(spans, name)
	if len(found) != 1 {
		t.Fatalf("there are %d spans %q, want 1", len(found), name)
	}
	return found[0]
}

// attributes returns a span's attributes by name.
func attributes(span tracetest.SpanStub) map[string]any {
	all := map[string]any{}
	for _, a := range span.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func wantAttributes(t *testing.T, span tracetest.SpanStub, want map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, attributes(span)); diff != "" {
		t.Errorf("attributes of %s (-want +got):\n%s", span.Name, diff)
	}
}

func wantKind(t *testing.T, span tracetest.SpanStub, want api.SpanKind) {
	t.Helper()
	if got := span.SpanKind; got != want {
		t.Errorf("kind of %s = %v, want %v", span.Name, got, want)
	}
}

// wantChild fails the test unless one span is right under another.
func wantChild(t *testing.T, child, parent tracetest.SpanStub) {
	t.Helper()
	if got, want := child.SpanContext.TraceID(), parent.SpanContext.TraceID(); got != want {
		t.Errorf("trace of %s = %v, want that of %s, %v", child.Name, got, parent.Name, want)
	}
	if got, want := child.Parent.SpanID(), parent.SpanContext.SpanID(); got != want {
		t.Errorf("parent of %s = %v, want %s, %v", child.Name, got, parent.Name, want)
	}
}
