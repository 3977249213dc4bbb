package metrics

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/steal"
)

// noon is the time in these tests.
var noon = time.Unix(1_700_000_000, 0)

func job() steal.JobStats {
	return steal.JobStats{
		Name: "sweep", Worked: 1, Idle: 2,
		Aborted: steal.Aborts{Error: 3, Timeout: 4, Panic: 5, Busy: 6, Breaker: 7},
		Rounds:  8, LastWorked: noon,
	}
}

// newFleet returns a fleet of a partition that is whole, one that is not, and one
// that is lost.
func newFleet() *Fleet {
	up := func(lag int64) fleet.MemberStatus { return fleet.MemberStatus{State: fleet.Up, Lag: lag} }
	return &Fleet{
		Status: fleet.Status{
			Epoch: 7,
			Partitions: []fleet.PartitionStatus{
				{
					ID: 0, State: fleet.Healthy, Epoch: 3, Memory: 100, MaxMemory: 200, Tags: 5, Busy: 0.5,
					Replicas: []fleet.MemberStatus{up(0), up(10)},
				},
				{ID: 1, State: fleet.Partial, Epoch: 1, Replicas: []fleet.MemberStatus{{State: fleet.Behind, Lag: 70}, up(20)}},
				{ID: 2, State: fleet.Out},
			},
		},
		Snapshots: []SnapshotAge{
			{Partition: 0, Saved: time.Minute, Archived: time.Hour},
			{Partition: 1, Saved: time.Second},
			{Partition: 2},
		},
	}
}

func census(t *testing.T, c Census) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	register(t, reg, CensusCollector(func() Census { return c }))
	return reg
}

func TestCensusOfAFleet(t *testing.T) {
	t.Parallel()
	want := map[string]float64{
		"fleet_epoch{}": 7,
		"fleet_snapshot_age_seconds{partition=0}": 60, "fleet_snapshot_age_seconds{partition=1}": 1,
		"fleet_archive_age_seconds{partition=0}": 3600,
	}
	for id, figures := range map[string]map[string]float64{
		"0": {
			"partition_up": 1, "partition_epoch": 3, "partition_memory_bytes": 100, "partition_max_memory_bytes": 200,
			"partition_tags": 5, "partition_busy_ratio": 0.5, "replica_lag_bytes": 10, "healthy": 1, "serving": 2,
		},
		"1": {"partition_up": 1, "partition_epoch": 1, "replica_lag_bytes": 70, "partial": 1, "serving": 1, "away": 1},
		"2": {"out": 1},
	} {
		for _, name := range []string{
			"partition_up", "partition_epoch", "partition_memory_bytes", "partition_max_memory_bytes",
			"partition_tags", "partition_busy_ratio", "replica_lag_bytes",
		} {
			want["fleet_"+name+"{partition="+id+"}"] = figures[name]
		}
		for _, state := range []string{"healthy", "partial", "read-only", "out"} {
			want["fleet_partition_state{partition="+id+",state="+state+"}"] = figures[state]
		}
		for _, state := range []string{"serving", "away"} {
			want["fleet_replicas{partition="+id+",state="+state+"}"] = figures[state]
		}
	}
	wantSamples(t, census(t, Census{Fleet: newFleet()}), "", want)
}

// TestCensusOfTheUnread: a structure that could not be read is down, and has no other
// sample.
func TestCensusOfTheUnread(t *testing.T) {
	t.Parallel()
	wantSamples(t, census(t, Census{Unread: map[string][]string{
		"queue": {"a"}, "ick": {"a"}, "channel": {"a"}, "hashes": {"a"}, "keys": {"a"}, "lease": {"a"}, "upkeep": {""}}}), "",
		map[string]float64{"queue_up{queue=a}": 0, "ick_up{ick=a}": 0, "channel_up{channel=a}": 0, "hashes_up{hashes=a}": 0, "keys_up{keys=a}": 0, "upkeep_up{}": 0})
	wantSamples(t, census(t, Census{}), "", map[string]float64{})
}

// TestCensusOfNamesThatAreNotText: names that are the same as labels spoil no scrape.
func TestCensusOfNamesThatAreNotText(t *testing.T) {
	t.Parallel()
	odd := []string{"a\xff", "a\xfe", "a\xfd", "b"}
	got := scrape(t, census(t, Census{
		Queues: []fairqueue.Stats{{Name: odd[0], Waiting: 1}, {Name: odd[1], Waiting: 2}, {Name: odd[3], Waiting: 3}},
		Icks:   []ick.Stats{{Name: odd[0]}, {Name: odd[1]}},
		Upkeep: &upkeep.Totals{Jobs: []steal.JobStats{{Name: odd[0]}, {Name: odd[1]}}},
		Unread: map[string][]string{"queue": {odd[2]}, "ick": {odd[3], odd[3]}},
	}), "")
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
	register(t, reg, UpkeepCollector(client))
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
