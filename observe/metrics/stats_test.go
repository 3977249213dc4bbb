package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/figures"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/metrics/ickmetrics"
	"github.com/millrace/millrace/observe/metrics/queuemetrics"
)

// of fills an Ick's or another's samples up with zeros.
func of(labels string, nonzero map[string]float64) map[string]float64 {
	samples := map[string]float64{}
	for _, name := range []string{
		"members", "oldest_age_seconds", "new_total", "folded_total", "reserved_total",
		"committed_total", "kept_total", "parked_total", "retried_total", "dropped_total",
	} {
		samples[fmt.Sprintf(name+"{%s}", labels)] = nonzero[name]
	}
	for _, state := range []string{"waiting", "reserved", "parked"} {
		samples[fmt.Sprintf("marks{%s,state=%s}", labels, state)] = nonzero[state]
	}
	return samples
}

// prefixed puts a prefix before each name.
func prefixed(prefix string, parts ...map[string]float64) map[string]float64 {
	samples := map[string]float64{}
	for _, part := range parts {
		for name, value := range part {
			samples[prefix+name] = value
		}
	}
	return samples
}

func TestIckCollector(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	client := redistest.Shared(t).Client(t)
	k, err := ick.New(client, redistest.Name(t), ick.Config{Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	register(t, reg, ickmetrics.Collector(k))
	name := "ick=" + k.Name()
	up := map[string]float64{"up{" + name + "}": 1}
	wantSamples(t, reg, "ick_", prefixed("ick_", up, of(name, nil))) // it does not exist yet

	ctx := t.Context()
	marks := []ick.Entry{{Member: "a", Score: 1e10}, {Member: "b", Score: 2e10}, {Member: "c", Score: 3e10}} // in the future, so of age 0
	for range 2 {
		if _, err := k.Add(ctx, marks...); err != nil {
			t.Fatal(err)
		}
	}
	r, err := k.Reserve(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Add(ctx, marks[1]); err != nil { // reserved, and waits again
		t.Fatal(err)
	}
	if _, err := k.Commit(ctx, r.Token, "a"); err != nil {
		t.Fatal(err)
	}
	wantSamples(t, reg, "ick_", prefixed("ick_", up, of(name, map[string]float64{
		"waiting": 2, "reserved": 1, "members": 2,
		"new_total": 4, "folded_total": 3, "reserved_total": 2, "committed_total": 1,
	})))
	// Scrapes are calls, too: two here.
	if got, want := scrape(t, reg, "calls_total")["calls_total{outcome=ok,script=ick.stats}"], 2.0; got < want {
		t.Errorf("calls of ick.stats = %v, want at least %v", got, want)
	}
}

func TestIckCollectorOfParkedMembersAndAge(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	k := newIck(t, redistest.Shared(t).Client(t), redistest.Name(t), hook)
	register(t, reg, ickmetrics.Collector(k))
	if _, err := k.AddNow(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := k.Consume(ctx, ick.ConsumeConfig{RetryDelay: time.Hour}, func(context.Context, []ick.Entry) error {
		cancel()
		return ick.Failed(nil, "a")
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Consume = %v", err)
	}
	if _, err := k.Drop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	name := "ick=" + k.Name()
	wantSamples(t, reg, "ick_", prefixed("ick_", map[string]float64{"up{" + name + "}": 1}, of(name, map[string]float64{
		"new_total": 2, "reserved_total": 2, "committed_total": 1, "parked_total": 1, "dropped_total": 1,
	})))

	hourAgo := float64(time.Now().Add(-time.Hour).Unix())
	if _, err := k.Add(t.Context(), ick.Entry{Member: "c", Score: hourAgo}); err != nil {
		t.Fatal(err)
	}
	age := scrape(t, reg, "ick_oldest")["ick_oldest_age_seconds{"+name+"}"]
	if age < 3599 || age > 3700 {
		t.Errorf("oldest age = %v s, want an hour", age)
	}
}

func TestChannelCollector(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	c := newChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), hook)
	register(t, reg, ickmetrics.Collector(c))
	name := "channel=" + c.Name()
	whole := func(consumers, used, served, unowned float64) map[string]float64 {
		return map[string]float64{
			"up{" + name + "}":           1,
			"consumers{" + name + "}":    consumers,
			"used_icks{" + name + "}":    used,
			"served_icks{" + name + "}":  served,
			"unowned_icks{" + name + "}": unowned,
		}
	}
	wantSamples(t, reg, "channel_", prefixed("channel_", whole(0, 0, 0, 0)))

	ctx := t.Context()
	future := func(member string) ick.Entry { return ick.Entry{Member: member, Score: 1e12} } // of age 0
	if _, err := c.Add(ctx, future("a1"), future("a2"), future("b1")); err != nil {
		t.Fatal(err)
	}
	wantSamples(t, reg, "channel_", prefixed("channel_", whole(0, 2, 2, 2),
		of(name+",ick=0", map[string]float64{"waiting": 2, "members": 2, "new_total": 2}),
		of(name+",ick=1", map[string]float64{"waiting": 1, "members": 1, "new_total": 1})))

	consuming, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- c.Consume(consuming, ick.ConsumeConfig{}, func(context.Context, []ick.Entry) error { return nil })
	}()
	want := prefixed("channel_", whole(1, 2, 2, 0),
		of(name+",ick=0", map[string]float64{"new_total": 2, "reserved_total": 2, "committed_total": 2}),
		of(name+",ick=1", map[string]float64{"new_total": 1, "reserved_total": 1, "committed_total": 1}))
	redistest.Eventually(t, "all is committed and says so", func() bool { return maps.Equal(scrape(t, reg, "channel_"), want) })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Consume = %v", err)
	}
}

// TestScrapeOutlivesRedis: servers that are gone, or that do not answer, take
// nothing from the scrape but their own series.
func TestScrapeOutlivesRedis(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	dead, silent := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	deadIck := newIck(t, dead.Client(t), "dead", hook)
	silentIck := newIck(t, silent.Client(t), "silent", hook)
	silentChannel := newChannel(t, silent.Client(t), "silent", hook)
	well := newIck(t, redistest.Shared(t).Client(t), redistest.Name(t), hook)
	register(t, reg, ickmetrics.Collector(deadIck), ickmetrics.Collector(silentIck), ickmetrics.Collector(well), ickmetrics.Collector(silentChannel))
	recovering := prometheus.NewRegistry() // which does not wait for the dead
	register(t, recovering, ickmetrics.Collector(silentIck))
	for _, k := range []*ick.Ick{deadIck, silentIck} {
		if _, err := k.AddNow(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	dead.Kill()
	silent.Pause()
	began := time.Now()
	samples := scrape(t, reg, "")
	if took := time.Since(began); took > 2*figures.ScrapeTimeout {
		t.Errorf("the scrape took %s, want about %s", took, figures.ScrapeTimeout)
	}
	silent.Resume()
	for name, want := range map[string]float64{
		"ick_up{ick=dead}":                       0,
		"ick_up{ick=silent}":                     0,
		"channel_up{channel=silent}":             0,
		"ick_up{ick=" + well.Name() + "}":        1,
		"calls_total{outcome=ok,script=ick.add}": 2,
	} {
		if got, ok := samples[name]; !ok || got != want {
			t.Errorf("%s = %v (%t), want %v", name, got, ok, want)
		}
	}
	for name := range samples {
		if strings.HasPrefix(name, "ick_") && !strings.HasPrefix(name, "ick_up") && !strings.Contains(name, well.Name()) {
			t.Errorf("%s has a sample although nobody could read it", name)
		}
	}
	redistest.Eventually(t, "the one that answers again is up", func() bool {
		return scrape(t, recovering, "ick_up")["ick_up{ick=silent}"] == 1
	})
}

func TestQueueCollector(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	q, err := fairqueue.New(redistest.Shared(t).Client(t), redistest.Name(t), fairqueue.Config{Streams: 8, PerTenant: 2, Hooks: []millrace.Hook{hook}})
	if err != nil {
		t.Fatal(err)
	}
	register(t, reg, queuemetrics.Collector(q))
	name := "queue=" + q.Name()
	samples := func(values map[string]float64) map[string]float64 {
		all := map[string]float64{"queue_up{" + name + "}": 1}
		for _, state := range []string{"waiting", "in_flight", "delayed", "dead"} {
			all["queue_messages{"+name+",state="+state+"}"] = values[state]
		}
		for _, why := range []string{"server", "reader", "queue", "pause", "rate", "in_flight", "handlers", "turn"} {
			all["queue_waiting_age_seconds{"+name+",waits_for="+why+"}"] = 0
		}
		for _, figure := range []string{
			"oldest_age_seconds", "flows", "held_flows", "readers", "capacity", "busy_handlers", "schedules", "overdue_schedules", "paused", "written_total", "delivered_total", "cost_total", "acked_total", "nacked_total",
			"returned_total", "reclaimed_total", "expired_total", "cancelled_total", "buried_total", "redriven_total", "purged_total",
			"dropped_total", "lost_total",
		} {
			all["queue_"+figure+"{"+name+"}"] = values[figure]
		}
		return all
	}
	wantSamples(t, reg, "queue_", samples(nil)) // it does not exist yet

	ctx := t.Context()
	drafts := make([]fairqueue.Draft, 5)
	for i := range drafts {
		drafts[i].Tenant = "a"
	}
	drafts[4].Delay = time.Hour
	written, err := q.WriteBatch(ctx, drafts...)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Ack(ctx, messages[0].Receipt); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Nack(ctx, fairqueue.NackConfig{Dead: true}, messages[1].Receipt); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Cancel(ctx, written[4].ID, messages[2].ID); err != nil {
		t.Fatal(err)
	}
	// One that was cancelled in flight is so until its reader knows.
	want := samples(map[string]float64{
		"in_flight": 2, "dead": 1, "written_total": 5, "delivered_total": 4, "cost_total": 4, "acked_total": 1,
		"nacked_total": 1, "cancelled_total": 2, "buried_total": 1,
	})
	want["queue_tenant_failed_total{"+name+",tenant=a}"], want["queue_tenant_died_total{"+name+",tenant=a}"] = 1, 1
	wantSamples(t, reg, "queue_", want)
}

func TestCollectorsOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	_, hook := fresh(t)
	client := redistest.Shared(t).Client(t)
	register(t, reg, ickmetrics.Collector(newIck(t, client, "documents", hook)), ickmetrics.Collector(newIck(t, client, "images", hook)))
	if err := reg.Register(ickmetrics.Collector(newIck(t, client, "documents", hook))); err == nil {
		t.Error("a second collector of the same name was registered")
	}
}
