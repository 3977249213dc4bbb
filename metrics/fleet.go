package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/fleet"
)

// Fleet is a fleet at one time.
type Fleet struct {
	Status    fleet.Status
	Snapshots []SnapshotAge // empty if they are not known
}

// SnapshotAge is how old the data in a partition's newest snapshots is: in the one on
// a member's disk, and in the one in the archive; 0 if there is none.
type SnapshotAge struct {
	Partition       int
	Saved, Archived time.Duration
}

// fleetSeries are the figures of a fleet. Members are no labels: they come and go.
type fleetSeries struct {
	partitions                 series[fleet.PartitionStatus]
	epoch, snapshots, archived *prometheus.Desc
}

func newFleetSeries() fleetSeries {
	return fleetSeries{
		partitions: seriesOf("fleet", partitionFigures(), nil, "partition"),
		epoch:      desc("fleet", "epoch", "Changes of the fleet's map.", nil),
		snapshots:  desc("fleet", "snapshot_age_seconds", "How old the data in the partition's newest snapshot is; absent without one.", nil, "partition"),
		archived:   desc("fleet", "archive_age_seconds", "How old the data in the partition's newest archived snapshot is; absent without one.", nil, "partition"),
	}
}

func (f fleetSeries) send(ch chan<- prometheus.Metric, s Fleet) {
	ch <- prometheus.MustNewConstMetric(f.epoch, prometheus.GaugeValue, float64(s.Status.Epoch))
	for _, p := range s.Status.Partitions {
		f.partitions.send(ch, p, strconv.Itoa(p.ID))
	}
	send := func(desc *prometheus.Desc, partition int, age time.Duration) {
		if age != 0 {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, age.Seconds(), strconv.Itoa(partition))
		}
	}
	for _, p := range s.Snapshots {
		send(f.snapshots, p.Partition, p.Saved)
		send(f.archived, p.Partition, p.Archived)
	}
}

func partitionFigures() []figure[fleet.PartitionStatus] {
	figures := []figure[fleet.PartitionStatus]{
		gauge("partition_up", "Whether the partition takes writes.", func(p fleet.PartitionStatus) float64 {
			return truth(p.State == fleet.Healthy || p.State == fleet.Partial)
		}),
		gauge("partition_epoch", "How often the partition got another master, or the same one again.",
			func(p fleet.PartitionStatus) float64 { return float64(p.Epoch) }),
		gauge("partition_memory_bytes", "Memory that the partition's master uses.",
			func(p fleet.PartitionStatus) float64 { return float64(p.Memory) }),
		gauge("partition_max_memory_bytes", "Memory that the partition's master may use; 0 for no limit.",
			func(p fleet.PartitionStatus) float64 { return float64(p.MaxMemory) }),
		gauge("partition_tags", "Tags that have their place on the partition.",
			func(p fleet.PartitionStatus) float64 { return float64(p.Tags) }),
		gauge("partition_busy_ratio", "The part of its one thread that the partition's master has used since it started.",
			func(p fleet.PartitionStatus) float64 { return p.Busy }),
		gauge("replica_lag_bytes", "How far the replica of the partition that is farthest behind is behind its master; 0 without replicas.",
			func(p fleet.PartitionStatus) float64 { return float64(lag(p)) }),
	}
	for _, state := range []fleet.State{fleet.Healthy, fleet.Partial, fleet.ReadOnly, fleet.Out} {
		one := gauge("partition_state", "Whether this is the partition's state.",
			func(p fleet.PartitionStatus) float64 { return truth(p.State == state) })
		one.state = string(state)
		figures = append(figures, one)
	}
	for _, state := range []string{"serving", "away"} {
		one := gauge("replicas", "Replicas of the partition by whether they serve.", func(p fleet.PartitionStatus) (n float64) {
			for _, r := range p.Replicas {
				n += truth((r.State == fleet.Up) == (state == "serving"))
			}
			return n
		})
		one.state = state
		figures = append(figures, one)
	}
	return figures
}

// lag returns how far the replica is behind that is farthest, of those that answer.
func lag(p fleet.PartitionStatus) int64 {
	if len(p.Replicas) == 0 {
		return 0
	}
	return slices.MaxFunc(p.Replicas, func(a, b fleet.MemberStatus) int { return int(a.Lag - b.Lag) }).Lag
}

// truth is how Prometheus writes whether something is so.
func truth(so bool) float64 {
	if so {
		return 1
	}
	return 0
}
