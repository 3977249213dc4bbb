package survey

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
)

// newFleet returns a fleet of a partition that is whole, one that is not, and one
// that is lost.
func newFleet() *FleetView {
	up := func(lag int64) fleet.MemberStatus { return fleet.MemberStatus{State: fleet.Up, Lag: lag} }
	noon := time.Unix(1_700_000_000, 0)
	before := func(d time.Duration) time.Time { return noon.Add(-d) }
	return &FleetView{
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
		Snapshots: snapshot.Ages{Now: noon, Partitions: []directory.Snapshot{
			{Partition: 0, Saved: directory.Saved{At: before(time.Minute)}, Archived: directory.Archived{At: before(time.Hour)}},
			{Partition: 1, Saved: directory.Saved{At: before(time.Second)}},
			{Partition: 2},
		}},
		Findings: []check.Finding{{Finding: finding.New(finding.Warning, "", "", "")}}, Checked: noon,
	}
}

func TestFleetCollector(t *testing.T) {
	t.Parallel()
	want := map[string]float64{
		"fleet_epoch{}": 7, "fleet_findings{severity=warning}": 1, "fleet_findings{severity=critical}": 0, "fleet_findings{severity=note}": 0, "fleet_findings{severity=ok}": 0,
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
	got := map[string]float64{}
	for name, f := range gather(t, FleetCollector(newFleet)) {
		for labels, value := range f.samples {
			got[strings.TrimPrefix(name, "millrace_")+"{"+strings.ReplaceAll(labels, `"`, "")+"}"] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	if got := gather(t, FleetCollector(func() *FleetView { return nil })); len(got) > 0 {
		t.Errorf("without a fleet there is %v", got)
	}
}
