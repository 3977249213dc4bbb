package metrics

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/metrics/expirymetrics"
	"github.com/millrace/millrace/observe/metrics/ickmetrics"
	"github.com/millrace/millrace/observe/metrics/pinnedmetrics"
	"github.com/millrace/millrace/observe/metrics/queuemetrics"
	"github.com/millrace/millrace/observe/metrics/upkeepmetrics"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/steal"
)

// noon is the time in these tests.
var noon = time.Unix(1_700_000_000, 0)

func job() steal.JobStats {
	return steal.JobStats{
		Name: "sweep", Worked: 1, Idle: 2,
		Aborted: 25, Failed: 3, TimedOut: 4, Panicked: 5, Busy: 6, Broken: 7,
		Rounds: 8, LastWorked: noon,
	}
}

// TestManyUnread: a structure that could not be read is down, and has no other sample.
func TestManyUnread(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	unread := []string{"a"}
	register(t, reg,
		queuemetrics.Many(func() ([]fairqueue.Stats, []string) { return nil, unread }),
		ickmetrics.Collector(func() ([]ick.Stats, []string) { return nil, unread }),
		ickmetrics.Collector(func() ([]ick.ChannelStats, []string) { return nil, unread }),
		expirymetrics.Collector(func() ([]expiry.Stats, []string) { return nil, unread }),
		pinnedmetrics.Collector(func() ([]pinned.Stats, []string) { return nil, unread }),
		upkeepmetrics.Collector(func(context.Context) (upkeep.Totals, error) { return upkeep.Totals{}, errors.New("broken") }))
	down := map[string]float64{"queue_up{queue=a}": 0, "ick_up{ick=a}": 0, "channel_up{channel=a}": 0, "hashes_up{hashes=a}": 0, "keys_up{keys=a}": 0, "upkeep_up{}": 0}
	wantSamples(t, reg, "", down)
	unread = nil
	wantSamples(t, reg, "", map[string]float64{"upkeep_up{}": 0})
}

// TestManyNamesThatAreNotText: names that are the same as labels spoil no scrape.
func TestManyNamesThatAreNotText(t *testing.T) {
	t.Parallel()
	odd := []string{"a\xff", "a\xfe", "a\xfd", "b"}
	reg := prometheus.NewPedanticRegistry()
	register(t, reg,
		queuemetrics.Many(func() ([]fairqueue.Stats, []string) {
			return []fairqueue.Stats{{Name: odd[0], Waiting: 1}, {Name: odd[1], Waiting: 2}, {Name: odd[3], Waiting: 3}}, []string{odd[2]}
		}),
		ickmetrics.Collector(func() ([]ick.Stats, []string) {
			return []ick.Stats{{Name: odd[0]}, {Name: odd[1]}}, []string{odd[3], odd[3]}
		}),
		upkeepmetrics.Collector(func(context.Context) (upkeep.Totals, error) {
			return upkeep.Totals{Jobs: []steal.JobStats{{Name: odd[0]}, {Name: odd[1]}}}, nil
		}))
	got := scrape(t, reg, "")
	for name, want := range map[string]float64{
		"queue_up{queue=a\uFFFD}": 1, "queue_messages{queue=a\uFFFD,state=waiting}": 1, "queue_messages{queue=b,state=waiting}": 3,
		"ick_up{ick=a\uFFFD}": 1, "ick_up{ick=b}": 0, "upkeep_rounds_total{task=a\uFFFD}": 0,
	} {
		if got, ok := got[name]; !ok || got != want {
			t.Errorf("%s = %v (%t), want %v", name, got, ok, want)
		}
	}
}

// TestUpkeepCollector shows the outcomes of the recruits of two processes, one of
// which has ended.
func TestUpkeepCollector(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	reg := prometheus.NewPedanticRegistry()
	register(t, reg, upkeepmetrics.Collector(func(ctx context.Context) (upkeep.Totals, error) { return upkeep.ReadTotals(ctx, client) }))
	wantSamples(t, reg, "", map[string]float64{"upkeep_up{}": 1, "upkeep_processes{}": 0})
	for _, progress := range []millrace.Progress{millrace.Worked, millrace.Idle} {
		recruiter := steal.New(steal.Config{})
		install(t, recruiter, 1, millrace.Job{Name: "sweep", Slice: func(context.Context) (millrace.Progress, error) { return progress, nil }})
		recruiter.Enlist(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := upkeep.Publish(ctx, recruiter, client, upkeep.PublishConfig{}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	got := scrape(t, reg, "")
	worked := "upkeep_last_worked_timestamp_seconds{task=sweep}"
	if age := float64(time.Now().UnixMilli())/1e3 - got[worked]; age < -1 || age > 60 {
		t.Errorf("the job last worked %v s ago", age)
	}
	want := map[string]float64{"upkeep_up{}": 1, "upkeep_processes{}": 0, "upkeep_rounds_total{task=sweep}": 2, worked: got[worked]}
	for outcome, n := range map[string]float64{"worked": 1, "idle": 1, "error": 0, "timeout": 0, "panic": 0, "busy": 0, "breaker": 0} {
		want["upkeep_recruited_total{outcome="+outcome+",task=sweep}"] = n
	}
	wantSamples(t, reg, "", want)
}
