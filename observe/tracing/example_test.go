package tracing_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/observe/tracing"
)

// connect stands for the client that a program has anyway.
func connect() (rueidis.Client, func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := dial.Redis(context.Background(), "redis://"+server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Close()
	}
}

func Example() {
	client, closeAll := connect()
	defer closeAll()

	// A program has a provider and an exporter already; its globals are used when
	// the Config is empty.
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	hook := tracing.New(tracing.Config{TracerProvider: provider})

	dirty, err := ick.New(client, "documents", ick.Config{Hooks: []millrace.Hook{hook}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, request := provider.Tracer("program").Start(context.Background(), "PUT /documents/1")
	if _, err := dirty.AddNow(ctx, "doc:1"); err != nil {
		log.Fatal(err)
	}
	request.End()

	for _, span := range spans.GetSpans() {
		fmt.Println(span.SpanKind, span.Name, "has a parent:", span.Parent.IsValid())
	}
	// Output:
	// client ick.add has a parent: true
	// internal PUT /documents/1 has a parent: false
}

// A structure with messages uses the hook like this: the handler is in the trace of
// the writer.
func Example_message() {
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	hook := tracing.New(tracing.Config{TracerProvider: provider, Propagator: propagation.TraceContext{}})

	ctx, request := provider.Tracer("program").Start(context.Background(), "POST /orders")
	headers := map[string]string{}
	hook.(millrace.CarryHook).OnWrite(ctx, headers)
	request.End()

	// In another process, when the message is handled:
	_, done := hook.(millrace.HandleHook).OnHandle(context.Background(), millrace.Handling{Structure: "fairqueue", Size: 1, Attempt: 1, Headers: headers})
	done(nil)

	all := spans.GetSpans()
	fmt.Println(all[1].SpanKind, all[1].Name)
	fmt.Println("in the trace of the request:", all[1].Parent.SpanID() == all[0].SpanContext.SpanID())
	// Output:
	// consumer handle fairqueue
	// in the trace of the request: true
}
