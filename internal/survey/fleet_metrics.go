package survey

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/figures"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/check"
)

// FleetCollector returns a collector of the fleet that take returns, if any. It describes no
// metrics in advance. Members are no labels: they change.
func FleetCollector(take func() *FleetView) prometheus.Collector {
	partitions := figures.New("fleet", partitionFigures(), "partition")
	epoch := figures.Desc("fleet", "epoch", "Changes of the fleet's map.")
	saved := figures.Desc("fleet", "snapshot_age_seconds", "Age of the data in the partition's newest snapshot; absent without one.", "partition")
	archived := figures.Desc("fleet", "archive_age_seconds", "Age of the data in the partition's newest archived snapshot; absent without one.", "partition")
	findings := figures.Desc("fleet", "findings", "Findings of the last check of the fleet.", "severity")
	return figures.Func(func(ch chan<- prometheus.Metric) {
		v := take()
		if v == nil {
			return
		}
		send := func(desc *prometheus.Desc, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
		}
		send(epoch, float64(v.Epoch))
		for _, p := range v.Partitions {
			partitions.Send(ch, p, strconv.Itoa(p.ID))
		}
		if !v.Checked.IsZero() {
			for severity, n := range check.Count(v.Findings) {
				send(findings, float64(n), finding.Severity(severity).String())
			}
		}
		for _, p := range v.Snapshots.Partitions {
			for desc, at := range map[*prometheus.Desc]time.Time{saved: p.Saved.At, archived: p.Archived.At} {
				if age := v.Snapshots.Age(at); age != 0 {
					send(desc, age.Seconds(), strconv.Itoa(p.Partition))
				}
			}
		}
	})
}

func partitionFigures() []figures.Figure[fleet.PartitionStatus] {
	all := []figures.Figure[fleet.PartitionStatus]{
		figures.Gauge("partition_up", "1 if the partition accepts writes.",
			func(p fleet.PartitionStatus) bool { return p.State == fleet.Healthy || p.State == fleet.Partial }),
		figures.Gauge("partition_epoch", "Promotions of a master of the partition.", func(p fleet.PartitionStatus) int64 { return p.Epoch }),
		figures.Gauge("partition_memory_bytes", "Memory that the partition's master uses.", func(p fleet.PartitionStatus) int64 { return p.Memory }),
		figures.Gauge("partition_max_memory_bytes", "Memory limit of the partition's master; 0 for no limit.",
			func(p fleet.PartitionStatus) int64 { return p.MaxMemory }),
		figures.Gauge("partition_tags", "Tags that are placed on the partition.", func(p fleet.PartitionStatus) int64 { return p.Tags }),
		figures.Gauge("partition_busy_ratio", "Share of its one thread that the partition's master has used since it started.",
			func(p fleet.PartitionStatus) float64 { return p.Busy }),
		figures.Gauge("replica_lag_bytes", "Lag of the partition's slowest replica behind its master; 0 without replicas.",
			func(p fleet.PartitionStatus) (lag int64) {
				for _, r := range p.Replicas {
					lag = max(lag, r.Lag)
				}
				return lag
			}),
	}
	for _, state := range []fleet.State{fleet.Healthy, fleet.Partial, fleet.ReadOnly, fleet.Out} {
		all = append(all, figures.Gauge("partition_state", "1 for the partition's state, 0 for the others.",
			func(p fleet.PartitionStatus) bool { return p.State == state }).Of(string(state)))
	}
	for _, state := range []string{"serving", "away"} {
		all = append(all, figures.Gauge("replicas", "Replicas of the partition that serve, and that do not.", func(p fleet.PartitionStatus) (n int) {
			for _, r := range p.Replicas {
				if (r.State == fleet.Up) == (state == "serving") {
					n++
				}
			}
			return n
		}).Of(state))
	}
	return all
}
