package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/fleet"
)

// Fleet is a fleet at one time.
type Fleet struct {
	Status    fleet.Status
	Snapshots []SnapshotAge  // empty if unknown
	Findings  map[string]int // of the last check, by severity; nil if there was none
}

// SnapshotAge is the age of the data in the newest snapshots of a partition: on a member's
// disk, and in the archive. It is 0 if there is none.
type SnapshotAge struct {
	Partition       int
	Saved, Archived time.Duration
}

// fleetFamily is the metrics of a fleet. Members are no labels: they change.
type fleetFamily struct {
	partitions                       family[fleet.PartitionStatus]
	epoch, saved, archived, findings *prometheus.Desc
}

func newFleetFamily() fleetFamily {
	return fleetFamily{
		partitions: newFamily("fleet", partitionFigures(), "partition"),
		epoch:      desc("fleet", "epoch", "Changes of the fleet's map."),
		saved:      desc("fleet", "snapshot_age_seconds", "Age of the data in the partition's newest snapshot; absent without one.", "partition"),
		archived:   desc("fleet", "archive_age_seconds", "Age of the data in the partition's newest archived snapshot; absent without one.", "partition"),
		findings:   desc("fleet", "findings", "Findings of the last check of the fleet.", "severity"),
	}
}

func (f fleetFamily) send(ch chan<- prometheus.Metric, s Fleet) {
	ch <- prometheus.MustNewConstMetric(f.epoch, prometheus.GaugeValue, float64(s.Status.Epoch))
	for _, p := range s.Status.Partitions {
		f.partitions.send(ch, p, strconv.Itoa(p.ID))
	}
	for severity, n := range s.Findings {
		ch <- prometheus.MustNewConstMetric(f.findings, prometheus.GaugeValue, float64(n), severity)
	}
	for _, p := range s.Snapshots {
		for desc, age := range map[*prometheus.Desc]time.Duration{f.saved: p.Saved, f.archived: p.Archived} {
			if age != 0 {
				ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, age.Seconds(), strconv.Itoa(p.Partition))
			}
		}
	}
}

func partitionFigures() []figure[fleet.PartitionStatus] {
	figures := []figure[fleet.PartitionStatus]{
		gauge("partition_up", "1 if the partition accepts writes.",
			func(p fleet.PartitionStatus) bool { return p.State == fleet.Healthy || p.State == fleet.Partial }),
		gauge("partition_epoch", "Promotions of a master of the partition.", func(p fleet.PartitionStatus) int64 { return p.Epoch }),
		gauge("partition_memory_bytes", "Memory that the partition's master uses.", func(p fleet.PartitionStatus) int64 { return p.Memory }),
		gauge("partition_max_memory_bytes", "Memory limit of the partition's master; 0 for no limit.",
			func(p fleet.PartitionStatus) int64 { return p.MaxMemory }),
		gauge("partition_tags", "Tags that are placed on the partition.", func(p fleet.PartitionStatus) int64 { return p.Tags }),
		gauge("partition_busy_ratio", "Share of its one thread that the partition's master has used since it started.",
			func(p fleet.PartitionStatus) float64 { return p.Busy }),
		gauge("replica_lag_bytes", "Lag of the partition's slowest replica behind its master; 0 without replicas.",
			func(p fleet.PartitionStatus) (lag int64) {
				for _, r := range p.Replicas {
					lag = max(lag, r.Lag)
				}
				return lag
			}),
	}
	for _, state := range []fleet.State{fleet.Healthy, fleet.Partial, fleet.ReadOnly, fleet.Out} {
		figures = append(figures, gauge("partition_state", "1 for the partition's state, 0 for the others.",
			func(p fleet.PartitionStatus) bool { return p.State == state }).of(string(state)))
	}
	for _, state := range []string{"serving", "away"} {
		figures = append(figures, gauge("replicas", "Replicas of the partition that serve, and that do not.", func(p fleet.PartitionStatus) (n int) {
			for _, r := range p.Replicas {
				if (r.State == fleet.Up) == (state == "serving") {
					n++
				}
			}
			return n
		}).of(state))
	}
	return figures
}
