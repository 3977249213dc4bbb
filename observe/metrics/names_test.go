package metrics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/metrics/expirymetrics"
	"github.com/millrace/millrace/observe/metrics/fetchmetrics"
	"github.com/millrace/millrace/observe/metrics/ickmetrics"
	"github.com/millrace/millrace/observe/metrics/pinnedmetrics"
	"github.com/millrace/millrace/observe/metrics/queuemetrics"
	"github.com/millrace/millrace/observe/metrics/stealmetrics"
	"github.com/millrace/millrace/observe/metrics/trackermetrics"
	"github.com/millrace/millrace/observe/metrics/upkeepmetrics"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/steal"
)

// TestNamesAndLint holds all metrics that there are to Prometheus' conventions,
// and their names to this list, which dashboards rely on.
func TestNamesAndLint(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	client := redistest.Shared(t).Client(t)
	k, c := newIck(t, client, redistest.Name(t), hook), newChannel(t, client, redistest.Name(t), hook)
	recruiter := steal.New(steal.Config{Hooks: []millrace.Hook{hook}})
	install(t, recruiter, 1, millrace.Job{Name: "sweep", Slice: func(context.Context) (millrace.Progress, error) {
		return millrace.Worked, nil
	}})
	q, err := fairqueue.New(client, redistest.Name(t), fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	name := redistest.Name(t)
	register(t, reg, ickmetrics.Collector(k), ickmetrics.Collector(c), queuemetrics.Collector(q), stealmetrics.Collector(recruiter),
		expirymetrics.Collector(newHashes(t, client, name, hook)), pinnedmetrics.Collector(newKeys(t, client, name, hook)),
		trackermetrics.Collector(newTracker(t, client, name, hook)), fetchmetrics.Collector(newCache(t, client, name, hook)),
		upkeepmetrics.Collector(func(context.Context) (upkeep.Totals, error) {
			return upkeep.Totals{Jobs: []steal.JobStats{job()}}, nil
		}),
		survey.FleetCollector(func() *survey.FleetView {
			aged := directory.Snapshot{Saved: directory.Saved{At: noon}, Archived: directory.Archived{At: noon}}
			return &survey.FleetView{
				Status:    fleet.Status{Partitions: []fleet.PartitionStatus{{}}},
				Snapshots: snapshot.Ages{Now: noon.Add(time.Minute), Partitions: []directory.Snapshot{aged}},
			}
		}))
	if _, err := c.AddNow(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	recruiter.Enlist(t.Context())
	for _, call := range []millrace.Call{{Script: "ick.add", Try: 1}, {Script: "ick.add", Try: 2}} {
		_, done := hook.OnCall(t.Context(), call)
		done(nil)
	}
	_, done := hook.OnHandle(t.Context(), millrace.Handling{Structure: "ick", Age: 1})
	done(nil)

	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	var got []string
	for _, family := range families {
		if !strings.HasSuffix(family.GetHelp(), ".") {
			t.Errorf("the help of %s is no sentence: %q", family.GetName(), family.GetHelp())
		}
		labels := map[string]bool{}
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				labels[pair.GetName()] = true
			}
		}
		got = append(got, fmt.Sprintf("%s %s %s", strings.ToLower(family.GetType().String()),
			family.GetName(), strings.Join(slices.Sorted(maps.Keys(labels)), ",")))
	}
	want := strings.Split(strings.TrimSpace(`
histogram millrace_call_seconds script
counter millrace_call_retries_total script
counter millrace_calls_total outcome,script
gauge millrace_channel_consumers channel
gauge millrace_channel_served_icks channel
gauge millrace_channel_unowned_icks channel
gauge millrace_channel_up channel
gauge millrace_channel_used_icks channel
counter millrace_channel_committed_total channel,ick
counter millrace_channel_dropped_total channel,ick
counter millrace_channel_folded_total channel,ick
counter millrace_channel_kept_total channel,ick
gauge millrace_channel_marks channel,ick,state
gauge millrace_channel_members channel,ick
counter millrace_channel_new_total channel,ick
gauge millrace_channel_oldest_age_seconds channel,ick
counter millrace_channel_parked_total channel,ick
counter millrace_channel_reserved_total channel,ick
counter millrace_channel_retried_total channel,ick
counter millrace_fetch_calls_total cache,outcome
counter millrace_fetch_early_total cache
counter millrace_fetch_loads_total cache
histogram millrace_handle_seconds structure
counter millrace_handled_total outcome,structure
gauge millrace_fleet_archive_age_seconds partition
gauge millrace_fleet_epoch 
gauge millrace_fleet_partition_busy_ratio partition
gauge millrace_fleet_partition_epoch partition
gauge millrace_fleet_partition_max_memory_bytes partition
gauge millrace_fleet_partition_memory_bytes partition
gauge millrace_fleet_partition_state partition,state
gauge millrace_fleet_partition_tags partition
gauge millrace_fleet_partition_up partition
gauge millrace_fleet_replica_lag_bytes partition
gauge millrace_fleet_replicas partition,state
gauge millrace_fleet_snapshot_age_seconds partition
gauge millrace_hashes_oldest_overdue_seconds hashes
gauge millrace_hashes_overdue hashes
gauge millrace_hashes_shards hashes
gauge millrace_hashes_up hashes
gauge millrace_hashes_with_deadlines hashes
counter millrace_hashes_deleted_total hashes
counter millrace_hashes_reaped_total hashes
counter millrace_hashes_repaired_total hashes
counter millrace_ick_committed_total ick
counter millrace_ick_dropped_total ick
counter millrace_ick_folded_total ick
counter millrace_ick_kept_total ick
gauge millrace_ick_marks ick,state
gauge millrace_ick_members ick
counter millrace_ick_new_total ick
gauge millrace_ick_oldest_age_seconds ick
counter millrace_ick_parked_total ick
counter millrace_ick_reserved_total ick
counter millrace_ick_retried_total ick
gauge millrace_ick_up ick
gauge millrace_keys_oldest_overdue_seconds keys
gauge millrace_keys_shards keys
gauge millrace_keys_up keys
gauge millrace_keys_values keys,state
counter millrace_keys_deleted_total keys
counter millrace_keys_reaped_total keys
counter millrace_keys_set_total keys
histogram millrace_pickup_delay_seconds structure
gauge millrace_queue_messages queue,state
gauge millrace_queue_oldest_age_seconds queue
gauge millrace_queue_overdue_schedules queue
gauge millrace_queue_paused queue
gauge millrace_queue_busy_handlers queue
gauge millrace_queue_capacity queue
gauge millrace_queue_flows queue
gauge millrace_queue_held_flows queue
gauge millrace_queue_readers queue
gauge millrace_queue_schedules queue
gauge millrace_queue_up queue
counter millrace_queue_acked_total queue
counter millrace_queue_buried_total queue
counter millrace_queue_cancelled_total queue
counter millrace_queue_cost_total queue
counter millrace_queue_delivered_total queue
counter millrace_queue_dropped_total queue
counter millrace_queue_expired_total queue
counter millrace_queue_lost_total queue
counter millrace_queue_nacked_total queue
counter millrace_queue_purged_total queue
counter millrace_queue_reclaimed_total queue
counter millrace_queue_redriven_total queue
counter millrace_queue_returned_total queue
gauge millrace_queue_waiting_age_seconds queue,waits_for
counter millrace_queue_written_total queue
counter millrace_steal_enlisted_total 
gauge millrace_steal_last_worked_timestamp_seconds task
gauge millrace_steal_rate task
counter millrace_steal_recruited_total outcome,task,via
histogram millrace_steal_recruit_seconds task
counter millrace_steal_rounds_total task
gauge millrace_steal_running task
gauge millrace_tracker_cursor_age_seconds tracker
gauge millrace_tracker_identifiers tracker
gauge millrace_tracker_oldest_check_seconds tracker
gauge millrace_tracker_pass_age_seconds tracker
gauge millrace_tracker_pass_seconds tracker
gauge millrace_tracker_up tracker
counter millrace_tracker_added_total tracker
counter millrace_tracker_confirmed_total tracker
counter millrace_tracker_passes_total tracker
counter millrace_tracker_removed_total tracker
gauge millrace_upkeep_last_worked_timestamp_seconds task
gauge millrace_upkeep_processes 
counter millrace_upkeep_recruited_total outcome,task
gauge millrace_upkeep_up 
counter millrace_upkeep_rounds_total task
`), "\n")
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
