package queuemetrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/fairqueue/queuestats"
)

// TestReadersAndFlows: readers that vanished do not count, and flows that are held do.
func TestReadersAndFlows(t *testing.T) {
	t.Parallel()
	now := time.Now()
	stats := queuestats.Stats{
		At: now, FlowCount: 3, Capacity: 17,
		Flows: []queuestats.Flow{{Tenant: "a", Held: true}, {Tenant: "b"}, {Tenant: "c", Held: true}},
		Readers: []queuestats.Reader{
			{Concurrency: 10, InFlight: 4, LastSeen: now.Add(-time.Second)},
			{Concurrency: 5, InFlight: 5, LastSeen: now},
		},
		Vanished: []queuestats.Reader{{Concurrency: 2, InFlight: 1, LastSeen: now.Add(-time.Minute)}},
	}
	want := map[string]float64{"flows": 3, "held_flows": 2, "readers": 2, "capacity": 15, "busy_handlers": 9}
	for _, f := range queue {
		if n, ok := want[f.Name]; ok && f.Value(stats) != n {
			t.Errorf("%s = %v, want %v", f.Name, f.Value(stats), n)
		}
		delete(want, f.Name)
	}
	if len(want) > 0 {
		t.Errorf("nobody says %v", want)
	}
}

// TestTenantsThatFail: each has a series, and names that look the same share one.
func TestTenantsThatFail(t *testing.T) {
	t.Parallel()
	s := queuestats.Stats{Name: "q", Failing: []queuestats.Failures{
		{Tenant: "a", Count: 7, Died: 2}, {Tenant: "b\xff", Count: 5}, {Tenant: "b\xfe", Count: 3},
	}}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(Many(func() ([]queuestats.Stats, []string) { return []queuestats.Stats{s}, nil }))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
	}
	for _, name := range []string{"millrace_queue_tenant_failed_total", "millrace_queue_tenant_died_total"} {
		if series[name] != 2 {
			t.Errorf("%s has %d series, want 2", name, series[name])
		}
	}
}
