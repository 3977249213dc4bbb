package plan_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/ring"
)

const gb = 1 << 30

// The fleet that the arithmetic comes from: 14 nodes of 96 GB with 16 threads, 160
// partitions, each replicated twice.
func TestMeshin(t *testing.T) {
	t.Parallel()
	got, err := plan.Make(plan.Config{Nodes: 14, RAM: 96 * gb, Threads: 16, UserBytes: 1 << 20, Partitions: 160})
	want := plan.Plan{
		Partitions: 160, Copies: 2, Instances: 320,
		Size:  plan.Size{Nodes: 14, InstancesPerNode: 23, InstanceBytes: 4 * gb, UsersPerPartition: 4096, Users: 655360},
		Grown: plan.Size{Nodes: 20, InstancesPerNode: 16, InstanceBytes: 96 * gb / 17, UsersPerPartition: 5782, Users: 925120},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Make (-want +got):\n%s%v", diff, err)
	}
}

func TestMake(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  plan.Config
		want plan.Plan
	}{
		{
			"an instance a thread", plan.Config{Nodes: 14, RAM: 96 * gb, Threads: 16},
			plan.Plan{
				Partitions: 112, Copies: 2, Instances: 224,
				Size:  plan.Size{Nodes: 14, InstancesPerNode: 16, InstanceBytes: 96 * gb / 17},
				Grown: plan.Size{Nodes: 14, InstancesPerNode: 16, InstanceBytes: 96 * gb / 17},
			},
		},
		{
			"room for twice the nodes", plan.Config{Nodes: 14, RAM: 96 * gb, Threads: 16, Growth: 2, UserBytes: gb},
			plan.Plan{
				Partitions: 224, Copies: 2, Instances: 448,
				Size:  plan.Size{Nodes: 14, InstancesPerNode: 32, InstanceBytes: 96 * gb / 33, UsersPerPartition: 2, Users: 448},
				Grown: plan.Size{Nodes: 28, InstancesPerNode: 16, InstanceBytes: 96 * gb / 17, UsersPerPartition: 5, Users: 1120},
			},
		},
		{
			"a product that floating point makes too small", plan.Config{Nodes: 1, RAM: gb, Threads: 100, Growth: 1.15, Copies: 1},
			plan.Plan{
				Partitions: 115, Copies: 1, Instances: 115,
				Size:  plan.Size{Nodes: 1, InstancesPerNode: 115, InstanceBytes: gb / 116},
				Grown: plan.Size{Nodes: 1, InstancesPerNode: 115, InstanceBytes: gb / 116},
			},
		},
		{
			"three copies that do not come out even", plan.Config{Nodes: 4, RAM: gb, Threads: 2, Copies: 3},
			plan.Plan{
				Partitions: 2, Copies: 3, Instances: 6,
				Size:  plan.Size{Nodes: 4, InstancesPerNode: 2, InstanceBytes: gb / 3},
				Grown: plan.Size{Nodes: 4, InstancesPerNode: 2, InstanceBytes: gb / 3},
			},
		},
		{
			"fewer instances than threads", plan.Config{Nodes: 4, RAM: gb, Threads: 16, Partitions: 1, Growth: 3},
			plan.Plan{
				Partitions: 1, Copies: 2, Instances: 2,
				Size:  plan.Size{Nodes: 4, InstancesPerNode: 1, InstanceBytes: gb / 2},
				Grown: plan.Size{Nodes: 4, InstancesPerNode: 1, InstanceBytes: gb / 2},
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := plan.Make(tc.cfg)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("Make(%+v) (-want +got):\n%s%v", tc.cfg, diff, err)
			}
		})
	}
}

func TestPlanJSON(t *testing.T) {
	t.Parallel()
	p, err := plan.Make(plan.Config{Nodes: 2, RAM: gb, Threads: 1, UserBytes: gb / 4, Growth: 2})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(p)
	want := `{"partitions":2,"copies":2,"instances":4,` +
		`"nodes":2,"instances_per_node":2,"instance_bytes":357913941,"users_per_partition":1,"users":2,` +
		`"grown":{"nodes":4,"instances_per_node":1,"instance_bytes":536870912,"users_per_partition":2,"users":4}}`
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("JSON (-want +got):\n%s%v", diff, err)
	}
}

func TestNoPlan(t *testing.T) {
	t.Parallel()
	good := plan.Config{Nodes: 3, RAM: gb, Threads: 2}
	tests := map[string]func(c *plan.Config){
		"invalid number of nodes: 0":                                                    func(c *plan.Config) { c.Nodes = 0 },
		"invalid number of nodes: 65537":                                                func(c *plan.Config) { c.Nodes = 65537 },
		"invalid number of threads: 0":                                                  func(c *plan.Config) { c.Threads = 0 },
		"invalid memory of a node: 0 bytes":                                             func(c *plan.Config) { c.RAM = 0 },
		"2 bytes of memory are too little for 2 instances":                              func(c *plan.Config) { c.RAM = 2 },
		"invalid memory of a node: 9223372036854775807 bytes":                           func(c *plan.Config) { c.RAM = math.MaxInt64 },
		"invalid memory of a user: -1 bytes":                                            func(c *plan.Config) { c.UserBytes = -1 },
		"a user of 357913942 bytes does not fit an instance of 357913941":               func(c *plan.Config) { c.UserBytes = gb/3 + 1 },
		"invalid growth: 0.5":                                                           func(c *plan.Config) { c.Growth = 0.5 },
		"invalid growth: NaN":                                                           func(c *plan.Config) { c.Growth = math.NaN() },
		"invalid growth: +Inf":                                                          func(c *plan.Config) { c.Growth = math.Inf(1) },
		"75000 partitions are more than the 65536 that a fleet can have":                func(c *plan.Config) { c.Growth = 25000 },
		"13835058055282163712 partitions are more than the 65536 that a fleet can have": func(c *plan.Config) { c.Threads = math.MaxInt },
		"65537 partitions are more than the 65536 that a fleet can have":                func(c *plan.Config) { c.Partitions = 65537 },
		"invalid number of partitions: -1":                                              func(c *plan.Config) { c.Partitions = -1 },
		"invalid number of copies: -1":                                                  func(c *plan.Config) { c.Copies = -1 },
		"4 copies of a partition need as many nodes, and there are 3":                   func(c *plan.Config) { c.Copies = 4 },
	}
	for want, change := range tests {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			cfg := good
			change(&cfg)
			p, err := plan.Make(cfg)
			checkRefusal(t, err, want)
			if p != (plan.Plan{}) {
				t.Errorf("Make(%+v) = %+v, want no plan", cfg, p)
			}
		})
	}
}

// checkRefusal checks that err is an ErrBadArgument with the message and a hint.
func checkRefusal(t *testing.T, err error, message string) {
	t.Helper()
	if !errors.Is(err, millrace.ErrBadArgument) || err.Error() != message {
		t.Errorf("error = %v, want %q", err, message)
	}
	if got, want := millrace.Code(err), "bad_argument"; got != want {
		t.Errorf("code = %q, want %q", got, want)
	}
	if millrace.Hint(err) == "" {
		t.Errorf("%v has no hint", err)
	}
}

func TestPlanAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := plan.Config{
			Nodes:      rapid.IntRange(1, 100).Draw(t, "nodes"),
			RAM:        rapid.Int64Range(1<<24, 1<<40).Draw(t, "RAM"),
			Threads:    rapid.IntRange(1, 64).Draw(t, "threads"),
			UserBytes:  rapid.Int64Range(1, 1<<10).Draw(t, "user"),
			Growth:     rapid.Float64Range(1, 4).Draw(t, "growth"),
			Partitions: rapid.SampledFrom([]int{0, 0, 1, 7, 160, 1000}).Draw(t, "partitions"),
		}
		cfg.Copies = rapid.IntRange(1, min(cfg.Nodes, 5)).Draw(t, "copies")
		p, err := plan.Make(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Instances, p.Partitions*p.Copies; got != want {
			t.Errorf("instances = %d, want %d", got, want)
		}
		for _, s := range []plan.Size{p.Size, p.Grown} {
			if s.InstancesPerNode*s.Nodes < p.Instances || (s.InstancesPerNode-1)*s.Nodes >= p.Instances {
				t.Errorf("%d instances on %d nodes: %d on the fullest", p.Instances, s.Nodes, s.InstancesPerNode)
			}
			if need := int64(s.InstancesPerNode+1) * s.InstanceBytes; need > cfg.RAM || need <= cfg.RAM-int64(s.InstancesPerNode+1) {
				t.Errorf("%d instances of %d bytes and a snapshot on a node of %d", s.InstancesPerNode, s.InstanceBytes, cfg.RAM)
			}
			if s.Users != s.UsersPerPartition*int64(p.Partitions) || s.UsersPerPartition*cfg.UserBytes > s.InstanceBytes {
				t.Errorf("%d users, %d of %d bytes in %d bytes", s.Users, s.UsersPerPartition, cfg.UserBytes, s.InstanceBytes)
			}
		}
		if cfg.Partitions > 0 {
			if got, want := p.Partitions, cfg.Partitions; got != want {
				t.Errorf("partitions = %d, want %d", got, want)
			}
			return
		}
		// One more partition would be more than the factor.
		most := float64(cfg.Threads) * cfg.Growth
		if float64(p.InstancesPerNode) > most+1e-6 || float64(p.Instances+p.Copies) <= float64(cfg.Nodes)*(math.Floor(most)) {
			t.Errorf("%d instances on %d nodes, %d on one, for %g on each", p.Instances, p.Nodes, p.InstancesPerNode, most)
		}
		if p.Grown.Nodes > p.Nodes && p.Instances < p.Grown.Nodes*cfg.Threads {
			t.Errorf("%d instances leave a thread idle on %d nodes of %d threads", p.Instances, p.Grown.Nodes, cfg.Threads)
		}
	})
}

func TestMaxPartitions(t *testing.T) {
	t.Parallel()
	// One partition with so many points is made sooner than so many partitions.
	if _, err := ring.New(plan.MaxPartitions); err != nil {
		t.Errorf("a ring of MaxPartitions: %v", err)
	}
	if _, err := ring.New(plan.MaxPartitions + 1); err == nil {
		t.Error("a ring has room for more than MaxPartitions")
	}
}
