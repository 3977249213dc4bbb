package figures

import (
	"iter"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Namespace is the prefix of every metric.
const Namespace = "millrace"

// Family is the metrics of a kind of structure. The values of its labels are arguments of Send.
type Family[S any] struct {
	Kind  string
	Up    *prometheus.Desc
	Descs []*prometheus.Desc
	Send  func(ch chan<- prometheus.Metric, stats S, labels ...string)
}

// New returns the family of a kind that has only figures.
func New[S any](kind string, figures []Figure[S], labels ...string) Family[S] {
	f := Family[S]{Kind: kind, Up: Up(kind, labels...)}
	for _, g := range figures {
		var state prometheus.Labels
		if g.state != "" {
			state = prometheus.Labels{"state": g.state}
		}
		f.Descs = append(f.Descs, prometheus.NewDesc(prometheus.BuildFQName(Namespace, kind, g.Name), g.help, labels, state))
	}
	f.Send = func(ch chan<- prometheus.Metric, stats S, values ...string) {
		for i, g := range figures {
			ch <- prometheus.MustNewConstMetric(f.Descs[i], g.kind, g.Value(stats), values...)
		}
	}
	return f
}

// Desc describes a metric of a kind of structure.
func Desc(kind, name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(Namespace, kind, name), help, labels, nil)
}

// Up describes the metric that shows whether a structure could be read.
func Up(kind string, labels ...string) *prometheus.Desc {
	return Desc(kind, "up", "1 if the last read from Redis succeeded; if not, the other series are absent.", labels...)
}

// Label returns a name as a label, which must be UTF-8.
func Label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// Labelled yields values with the labels of their names. Of names that are not UTF-8 and
// have the same label, the first one has it.
func Labelled[T any](values []T, name func(T) string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		seen := make(map[string]bool, len(values))
		for _, value := range values {
			l := Label(name(value))
			if !seen[l] && !yield(l, value) {
				return
			}
			seen[l] = true
		}
	}
}

// SendTime sends an instant, unless it is zero.
func SendTime(ch chan<- prometheus.Metric, desc *prometheus.Desc, at time.Time, labels ...string) {
	if !at.IsZero() {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(at.UnixMilli())/1e3, labels...)
	}
}
