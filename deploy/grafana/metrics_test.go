package grafana

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/metrics"
	"github.com/millrace/millrace/observe/metrics/fetchmetrics"
	"github.com/millrace/millrace/observe/metrics/stealmetrics"
	"github.com/millrace/millrace/observe/metrics/trackermetrics"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/steal"
	"github.com/millrace/millrace/tracker"
)

// metric is a metric as Prometheus sees it.
type metric struct {
	kind   string // counter, gauge, histogram
	labels []string
	help   string
}

// exposed returns all metrics that Millrace has, from a registry with something of
// everything.
func exposed(t *testing.T) map[string]metric {
	t.Helper()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	reg := prometheus.NewPedanticRegistry()
	hook := must(metrics.New(reg))(t)
	recruiter := work(t, client, hook)
	s := must(survey.New(survey.Config{Client: client}))(t)
	redistest.Eventually(t, "the survey has found all", func() bool {
		v, err := s.Refresh(t.Context())
		return err == nil && !v.Named.IsZero() && len(v.Troubles) == 0
	})
	for _, c := range []prometheus.Collector{
		survey.Collector(s),
		stealmetrics.Collector(recruiter),
		trackermetrics.Collector(must(tracker.New(client, "users", tracker.Config{Source: noRows{}}))(t)),
		fetchmetrics.Collector(must(fetch.Open(t.Context(), client, "pages", fetch.Config{}))(t)),
		survey.FleetCollector(func() *survey.FleetView {
			now := time.Now()
			before := now.Add(-time.Minute)
			aged := directory.Snapshot{Saved: directory.Saved{At: before}, Archived: directory.Archived{At: before}}
			return &survey.FleetView{
				Status:    fleet.Status{Partitions: []fleet.PartitionStatus{{}}},
				Snapshots: snapshot.Ages{Now: now, Partitions: []directory.Snapshot{aged}},
				Checked:   now,
			}
		}),
	} {
		if err := reg.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]metric{}
	for _, family := range must(reg.Gather())(t) {
		labels := map[string]bool{}
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				labels[pair.GetName()] = true
			}
		}
		all[family.GetName()] = metric{
			strings.ToLower(family.GetType().String()), slices.Sorted(maps.Keys(labels)), family.GetHelp(),
		}
	}
	return all
}

// work uses one structure of every kind, and every method of the hook.
func work(t *testing.T, client rueidis.Client, hook millrace.Hook) *steal.Recruiter {
	t.Helper()
	ctx := t.Context()
	hooks := []millrace.Hook{hook}
	queue := must(fairqueue.New(client, "orders", fairqueue.Config{Hooks: hooks}))(t)
	must(queue.Write(ctx, fairqueue.Draft{Tenant: "a"}))(t)
	failed := must(queue.Read(ctx, fairqueue.ReadConfig{}))(t)[0]
	must(queue.Nack(ctx, fairqueue.NackConfig{}, failed.Receipt))(t)
	if err := queue.Pause(ctx); err != nil { // there is a notice
		t.Fatal(err)
	}
	must(must(ick.New(client, "docs", ick.Config{Hooks: hooks}))(t).AddNow(ctx, "a"))(t)
	must(must(ick.NewChannel(client, "pages", ick.ChannelConfig{}))(t).AddNow(ctx, "a"))(t)
	hashes := must(expiry.Open(ctx, client, "sessions", expiry.Config{}))(t)
	must(hashes.Set(ctx, "alice", "token", []byte("x"), expiry.SetConfig{}))(t)
	keys := must(pinned.Open(ctx, client, "answers", pinned.Config{}))(t)
	must(keys.Set(ctx, "answer", []byte("42"), time.Hour, pinned.SetConfig{}))(t)

	_, done := hook.(millrace.CallHook).OnCall(ctx, millrace.Call{Script: "ick.add", Try: 2})
	done(nil)
	_, done = hook.(millrace.HandleHook).OnHandle(ctx, millrace.Handling{Structure: "ick", Age: time.Second})
	done(nil)
	recruiter := steal.New(steal.Config{Hooks: hooks})
	err := recruiter.Install(millrace.Job{Name: "sweep", Slice: func(context.Context) (millrace.Progress, error) {
		return millrace.Worked, nil
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	recruiter.Enlist(ctx)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := upkeep.Publish(ended, recruiter, client, upkeep.PublishConfig{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return recruiter
}

// noRows is a tracker's source without rows.
type noRows struct{}

func (noRows) Rows(context.Context, string, int) (tracker.Page, error) {
	return tracker.Page{}, nil
}
func (noRows) Pending(context.Context, []string) ([]string, error) { return nil, nil }

// must returns a value that there must be: must(f())(t).
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
