package plan

import (
	"math"

	"github.com/millrace/millrace"
)

// MaxPartitions is how many partitions a fleet has at most: as many as a ring has
// points.
const MaxPartitions = 1 << 16

// Defaults of Config.
const (
	DefaultGrowth = 1
	DefaultCopies = 2
)

// Config says what a fleet is made of. Nodes, RAM and Threads must be given.
type Config struct {
	// Nodes is how many machines there are, at most MaxPartitions.
	Nodes int

	// RAM is the memory that a node has for Redis, in bytes.
	RAM int64

	// Threads is how many hardware threads a node has for Redis.
	Threads int

	// UserBytes is what a user needs at most, in bytes. Defaults to not known: then
	// the plan does not say how many users there can be.
	UserBytes int64

	// Growth is how many times the number of nodes may grow before partitions must
	// be added, 1 or more. It is not used when Partitions are given. Defaults to 1.
	Growth float64

	// Copies is how many members a partition has, the master among them. Defaults to
	// 2.
	Copies int

	// Partitions is how many there are, for instance in a fleet that exists. Defaults
	// to what Threads and Growth make.
	Partitions int
}

// Plan is what to build. Its JSON is a contract.
type Plan struct {
	Partitions int `json:"partitions"` // of the fleet
	Copies     int `json:"copies"`     // members of a partition
	Instances  int `json:"instances"`  // servers of the fleet: Partitions * Copies

	// Size is that of the fleet at first.
	Size

	// Grown is its size with the most nodes on which no thread is idle, when the
	// instances were spread over them. With more than that, partitions must be
	// added. It is the size at first if there is no instance to spare.
	Grown Size `json:"grown"`
}

// Size is what a fleet holds on a number of nodes.
type Size struct {
	Nodes             int   `json:"nodes"`                         // machines
	InstancesPerNode  int   `json:"instances_per_node"`            // the most on any node
	InstanceBytes     int64 `json:"instance_bytes"`                // maxmemory of an instance
	UsersPerPartition int64 `json:"users_per_partition,omitempty"` // that fit, if it is known what one needs
	Users             int64 `json:"users,omitempty"`               // that fit in all partitions
}

// Make returns the plan for a fleet, or millrace.ErrBadArgument.
func Make(cfg Config) (Plan, error) {
	if cfg.Growth == 0 {
		cfg.Growth = DefaultGrowth
	}
	if cfg.Copies == 0 {
		cfg.Copies = DefaultCopies
	}
	if err := cfg.check(); err != nil {
		return Plan{}, err
	}
	partitions := cfg.Partitions
	if partitions == 0 {
		// A product like 10 * 1.1 may come out a trifle below 11.
		perNode := math.Floor(float64(cfg.Threads)*cfg.Growth + 1e-6)
		all := math.Floor(float64(cfg.Nodes) * perNode / float64(cfg.Copies))
		if all > MaxPartitions {
			return Plan{}, refuse("Plan with less growth; partitions can be added later.",
				"%.0f partitions are more than the %d that a fleet can have", all, MaxPartitions)
		}
		partitions = int(all)
	}
	if cfg.RAM > math.MaxInt64/int64(partitions) {
		return Plan{}, refuse("Give the memory of one node, in bytes.", "%d bytes of memory a node cannot be", cfg.RAM)
	}
	p := Plan{Partitions: partitions, Copies: cfg.Copies, Instances: partitions * cfg.Copies}
	p.Size = cfg.size(p, cfg.Nodes)
	p.Grown = cfg.size(p, max(cfg.Nodes, p.Instances/cfg.Threads))
	switch {
	case p.InstanceBytes == 0:
		return Plan{}, refuse("Give the memory of a node in bytes, or with a unit, such as 96gb.",
			"%d bytes of memory are too little for %d instances", cfg.RAM, p.InstancesPerNode)
	case cfg.UserBytes > p.InstanceBytes:
		return Plan{}, refuse("Plan with fewer partitions, less growth, or nodes with more memory.",
			"a user of %d bytes does not fit an instance of %d", cfg.UserBytes, p.InstanceBytes)
	}
	return p, nil
}

// size returns what the plan's instances hold on a number of nodes.
func (c *Config) size(p Plan, nodes int) Size {
	perNode := (p.Instances + nodes - 1) / nodes
	s := Size{
		Nodes:            nodes,
		InstancesPerNode: perNode,
		InstanceBytes:    c.RAM / int64(perNode+1), // one more, for a snapshot
	}
	if c.UserBytes > 0 {
		s.UsersPerPartition = s.InstanceBytes / c.UserBytes
		s.Users = s.UsersPerPartition * int64(p.Partitions)
	}
	return s
}

func (c *Config) check() error {
	switch {
	case c.Nodes < 1 || c.Nodes > MaxPartitions:
		return refuse("Say how many machines there are.", "a fleet of %d nodes cannot be", c.Nodes)
	case c.Threads < 1:
		return refuse("Say how many hardware threads a node has.", "nodes with %d hardware threads cannot be", c.Threads)
	case c.RAM < 1:
		return refuse("Say how much memory a node has for Redis, such as 96gb.", "nodes with %d bytes of memory cannot be", c.RAM)
	case c.UserBytes < 0:
		return refuse("Say how much memory a user needs at most.", "users of %d bytes cannot be", c.UserBytes)
	case !(c.Growth >= 1 && c.Growth <= MaxPartitions): // nor what is not a number
		return refuse("Use 1 for no growth, 2 for twice as many nodes.", "the number of nodes cannot grow %v times", c.Growth)
	case c.Partitions < 0:
		return refuse("Use 0 to have them computed.", "%d partitions cannot be", c.Partitions)
	case c.Partitions > MaxPartitions:
		return refuse("Plan with larger partitions.", "%d partitions are more than the %d that a fleet can have", c.Partitions, MaxPartitions)
	}
	return checkCopies(c.Copies, c.Nodes)
}

func checkCopies(copies, nodes int) error {
	switch {
	case copies < 1:
		return refuse("Use 1 for masters alone, 2 for a replica of each.", "partitions of %d members cannot be", copies)
	case copies > nodes:
		return refuse("Add nodes, or make fewer copies: members of a partition on one node are lost together.",
			"%d copies of a partition need as many nodes, and there are %d", copies, nodes)
	}
	return nil
}

func refuse(hint, format string, args ...any) error {
	err := millrace.ErrBadArgument.Errorf(format, args...)
	err.Hint = hint
	return err
}
