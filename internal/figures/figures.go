package figures

import (
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/readable"
)

// Figure is one number of a structure's Stats as a metric.
type Figure[S any] struct {
	Name  string // without the prefix and the kind of structure
	Value func(S) float64

	help  string
	state string // the value of the label state; empty for none
	kind  prometheus.ValueType
}

type number interface {
	int | int64 | float64 | bool | time.Duration
}

// Gauge returns a figure that rises and falls.
func Gauge[S any, N number](name, help string, value func(S) N) Figure[S] {
	return Figure[S]{Name: name, help: help, kind: prometheus.GaugeValue, Value: func(s S) float64 { return float(value(s)) }}
}

// Counter returns a figure that only rises.
func Counter[S any](name, help string, value func(S) int64) Figure[S] {
	return Figure[S]{Name: name, help: help, kind: prometheus.CounterValue, Value: func(s S) float64 { return float(value(s)) }}
}

// Of returns the figure for one value of the label state.
func (f Figure[S]) Of(state string) Figure[S] {
	f.state = state
	return f
}

// float returns a number as Prometheus has it: durations in seconds, true as 1.
func float[N number](n N) float64 {
	switch n := any(n).(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	case float64:
		return n
	case time.Duration:
		return n.Seconds()
	case bool:
		if n {
			return 1
		}
	}
	return 0
}

// WithCounters appends a counter for each field of the Counters in Stats.
func WithCounters[S, C any](counters func(S) C, figures ...Figure[S]) []Figure[S] {
	var none C
	for i, c := range readable.Counters(none) {
		figures = append(figures, Counter(c.Name+"_total", c.Doc, func(s S) int64 { return reflect.ValueOf(counters(s)).Field(i).Int() }))
	}
	return figures
}
