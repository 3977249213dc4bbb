package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/observe/tracing"
)

// traces sends spans of requests to a collector of OpenTelemetry. A nil one does
// nothing.
type traces struct {
	provider *sdktrace.TracerProvider
}

// openTraces returns traces if OpenTelemetry's own environment variables say where
// to send them. Those about samplers, headers, certificates, resources and batches
// are read by OpenTelemetry itself.
func openTraces(ctx context.Context, env func(string) string) (*traces, error) {
	endpoint := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT"))
	exporter := env("OTEL_TRACES_EXPORTER")
	switch {
	case strings.EqualFold(env("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return nil, nil //nolint:nilnil // a nil *traces is none
	case exporter != "" && exporter != "otlp":
		return nil, noTraces("OTEL_TRACES_EXPORTER is "+exporter, "Set it to otlp, or to none.")
	case endpoint == "" && exporter == "":
		return nil, nil //nolint:nilnil // a nil *traces is none
	}
	protocol := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if protocol != "http/protobuf" {
		return nil, noTraces("traces cannot be sent over "+protocol,
			"Set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf, and the endpoint to the collector's HTTP port, by custom 4318.")
	}
	client, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, noTraces(err.Error(), "Look at the variables that begin with OTEL_EXPORTER_OTLP.")
	}
	who, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("millrace")), // the environment may name it otherwise
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, noTraces(err.Error(), "Look at OTEL_RESOURCE_ATTRIBUTES.")
	}
	return &traces{sdktrace.NewTracerProvider(sdktrace.WithBatcher(client), sdktrace.WithResource(who))}, nil
}

func noTraces(message, hint string) error {
	return errUsage.Errorf("%s", message).WithHint(hint)
}

// hooks returns the hooks by which structures trace their calls.
func (t *traces) hooks() []millrace.Hook {
	if t == nil {
		return nil
	}
	return []millrace.Hook{tracing.New(tracing.Config{TracerProvider: t.provider, Propagator: propagator()})}
}

// propagator is W3C's: clients send its headers, and messages carry them.
func propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// wrap makes a span of each request of the API, under the client's if it sent one.
func (t *traces) wrap(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return otelhttp.NewHandler(next, "http",
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithPropagators(propagator()),
		otelhttp.WithFilter(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/v1/") }),
	)
}

// close sends the remaining traces, for five seconds at most.
func (t *traces) close(logger *slog.Logger) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		logger.Warn("the last traces could not be sent", "error", err)
	}
}
