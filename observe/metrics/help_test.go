package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/figures"
	"github.com/millrace/millrace/steal"
)

// fresh returns a registry with a Hook.
func fresh(t *testing.T) (*prometheus.Registry, *hook) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	made, err := New(reg)
	if err != nil {
		t.Fatal(err)
	}
	return reg, made.(*hook)
}

func newIck(t *testing.T, client rueidis.Client, name string, hook *hook) *ick.Ick {
	t.Helper()
	k, err := ick.New(client, name, ick.Config{Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newChannel(t *testing.T, client rueidis.Client, name string, hook *hook) *ick.Channel {
	t.Helper()
	c, err := ick.NewChannel(client, name, ick.ChannelConfig{
		Ick:   ick.Config{Hooks: []millrace.Hook{hook}},
		Size:  2,
		Shard: func(member string, size int) int { return int(member[0]-'a') % size },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func install(t *testing.T, r *steal.Recruiter, rate float64, job millrace.Job) {
	t.Helper()
	if err := r.Install(job, rate); err != nil {
		t.Fatal(err)
	}
}

func register(t *testing.T, reg prometheus.Registerer, collectors ...prometheus.Collector) {
	t.Helper()
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			t.Fatal(err)
		}
	}
}

// scrape returns the samples whose names begin with the prefix, as in "ick_up{ick=a}";
// of histograms, the counts. The namespace is left out.
func scrape(t *testing.T, reg prometheus.Gatherer, prefix string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	samples := map[string]float64{}
	for _, family := range families {
		name, ok := strings.CutPrefix(family.GetName(), figures.Namespace+"_")
		if !ok {
			t.Errorf("%s lacks the prefix", family.GetName())
		}
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, pair.GetName()+"="+pair.GetValue())
			}
			slices.Sort(labels)
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			samples[fmt.Sprintf("%s{%s}", name, strings.Join(labels, ","))] = value
		}
	}
	return samples
}

// wantSamples fails the test unless exactly these samples have that prefix.
func wantSamples(t *testing.T, reg prometheus.Gatherer, prefix string, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, scrape(t, reg, prefix)); diff != "" {
		t.Errorf("samples of %s (-want +got):\n%s", prefix, diff)
	}
}
