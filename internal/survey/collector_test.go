package survey

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/metrics/expirymetrics"
	"github.com/millrace/millrace/observe/metrics/ickmetrics"
	"github.com/millrace/millrace/observe/metrics/pinnedmetrics"
	"github.com/millrace/millrace/observe/metrics/queuemetrics"
	"github.com/millrace/millrace/observe/metrics/upkeepmetrics"
	"github.com/millrace/millrace/observe/upkeep"
)

// family is a metric with its samples by their labels.
type family struct {
	help, kind string
	samples    map[string]float64
}

// gather returns the output of collectors by the metrics' names, and fails the test if
// Prometheus refuses it.
func gather(t *testing.T, collectors ...prometheus.Collector) map[string]family {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	gathered, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(gathered).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families := map[string]family{}
	for _, f := range gathered {
		one := family{f.GetHelp(), f.GetType().String(), map[string]float64{}}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, pair.GetName()+"="+strconv.Quote(pair.GetValue()))
			}
			one.samples[strings.Join(labels, ",")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		families[f.GetName()] = one
	}
	return families
}

// TestCollectorShowsWhatSingleOnesShow: name, help, type, labels and numbers are
// those of the packages below observe/metrics.
func TestCollectorShowsWhatSingleOnesShow(t *testing.T) {
	t.Parallel()
	w := settle(t, redistest.Start(t, redistest.Options{}).Client(t))
	s := open(t, Config{Client: w.client})
	seen(t, s)
	got := gather(t, Collector(s))
	want := gather(t, queuemetrics.Collector(w.orders), ickmetrics.Collector(w.docs), ickmetrics.Collector(w.lone),
		ickmetrics.Collector(w.channel), expirymetrics.Collector(w.hashes), pinnedmetrics.Collector(w.keys),
		upkeepmetrics.Collector(func(ctx context.Context) (upkeep.Totals, error) { return upkeep.ReadTotals(ctx, w.client) }))
	for name, wanted := range want {
		shown := got[name]
		if strings.HasSuffix(name, "_age_seconds") { // which is of another moment
			for _, f := range []family{shown, wanted} {
				for labels := range f.samples {
					f.samples[labels] = 0
				}
			}
		}
		if diff := cmp.Diff(wanted, shown, cmp.AllowUnexported(family{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		delete(got, name)
	}
	own := slices.Sorted(maps.Keys(got))
	if diff := cmp.Diff([]string{"millrace_survey_age_seconds", "millrace_survey_left_out", "millrace_survey_troubles"}, own); diff != "" {
		t.Errorf("further metrics (-want +got):\n%s", diff)
	}
}

// TestCollectorWithoutNumbers: before the first look there is only the survey's age,
// and while no server answers the structures are down and show nothing else.
func TestCollectorWithoutNumbers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := settle(t, server.Client(t))
	s := open(t, Config{Client: w.client})
	for name, f := range gather(t, Collector(s)) {
		if !strings.HasPrefix(name, "millrace_survey_") {
			t.Errorf("%s is there before the first look: %v", name, f.samples)
		}
	}
	seen(t, s)
	server.Kill()
	if _, err := s.survey(t.Context()); err == nil {
		t.Fatal("a look at a dead server is fine")
	}
	got := map[string]map[string]float64{}
	for name, f := range gather(t, Collector(s)) {
		got[name] = f.samples
	}
	if age := got["millrace_survey_age_seconds"][""]; age <= 0 || age > 60 {
		t.Errorf("the survey's age is %v s", age)
	}
	delete(got, "millrace_survey_age_seconds")
	want := map[string]map[string]float64{
		"millrace_queue_up":        {`queue="orders"`: 0},
		"millrace_ick_up":          {`ick="docs"`: 0, `ick="lone/0"`: 0},
		"millrace_channel_up":      {`channel="pages"`: 0},
		"millrace_hashes_up":       {`hashes="sessions"`: 0},
		"millrace_keys_up":         {`keys="answers"`: 0},
		"millrace_upkeep_up":       {"": 0},
		"millrace_survey_troubles": {"": 1},
		"millrace_survey_left_out": {
			`kind="queue"`: 0, `kind="ick"`: 0, `kind="channel"`: 0, `kind="hashes"`: 0, `kind="keys"`: 0, `kind="lease"`: 0,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("while the server is away (-want +got):\n%s", diff)
	}
}

// TestCollectorOfTrouble: one structure that fails is down, and so are the totals.
func TestCollectorOfTrouble(t *testing.T) {
	t.Parallel()
	w := settle(t, redistest.Start(t, redistest.Options{}).Client(t))
	s := open(t, Config{Client: w.client})
	seen(t, s)
	for _, key := range []string{"mr:steal:{totals}", "mr:queue:{orders}"} {
		b := w.client.B().Hset().Key(key).FieldValue().FieldValue("version", "99").Build()
		if err := w.client.Do(t.Context(), b).Error(); err != nil {
			t.Fatal(err)
		}
	}
	must(s.survey(t.Context()))(t)
	got := gather(t, Collector(s))
	for name, want := range map[string]map[string]float64{
		"millrace_queue_up":               {`queue="orders"`: 0},
		"millrace_queue_messages":         {},
		"millrace_ick_up":                 {`ick="docs"`: 1, `ick="lone/0"`: 1},
		"millrace_upkeep_up":              {"": 0},
		"millrace_upkeep_recruited_total": {},
		"millrace_survey_troubles":        {"": 2},
	} {
		if diff := cmp.Diff(want, got[name].samples, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
