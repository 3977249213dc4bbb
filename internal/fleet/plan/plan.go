package plan

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
)

// MaxPartitions is the greatest number of partitions: a ring has as many points.
const MaxPartitions = 1 << 16

// Config describes a fleet's machines. Nodes, RAM and Threads are required.
type Config struct {
	Nodes      int     // machines, at most MaxPartitions; not used with Machines
	RAM        int64   // of a node for Redis, in bytes
	Threads    int     // hardware threads of a node for Redis
	UserBytes  int64   // of a user at most; by default the plan counts no users
	Growth     float64 // how many times the nodes may grow without more partitions; not used with Partitions; defaults to 1
	Copies     int     // members of a partition, with the master; defaults to 2
	Partitions int     // of a fleet that exists, for instance; by default Threads and Growth decide

	// Machines are the machines that get the servers, see PlaceServers. Defaults to a plan without a
	// placement, for so many Nodes.
	Machines []Machine
}

// Plan is a fleet to build. Its JSON is a contract.
type Plan struct {
	Partitions int `json:"partitions"` // of the fleet
	Copies     int `json:"copies"`     // members of a partition
	Instances  int `json:"instances"`  // servers of the fleet: Partitions * Copies

	// Size is the size at first.
	Size

	// Grown is the size with the greatest number of nodes on which no thread is idle, when
	// the instances are spread over them. It is the size at first if it cannot grow.
	Grown Size `json:"grown"`

	*Placement // on Config.Machines, nil without
}

// Size is the capacity of a fleet on a number of nodes.
type Size struct {
	Nodes             int   `json:"nodes"`                         // machines
	InstancesPerNode  int   `json:"instances_per_node"`            // the most on any node
	InstanceBytes     int64 `json:"instance_bytes"`                // maxmemory of an instance
	UsersPerPartition int64 `json:"users_per_partition,omitempty"` // that fit
	Users             int64 `json:"users,omitempty"`               // that fit in all partitions
}

// Make returns the plan for a fleet, or millrace.ErrBadArgument.
func Make(cfg Config) (Plan, error) {
	cfg.Growth, cfg.Copies, cfg.Nodes = cmp.Or(cfg.Growth, 1), cmp.Or(cfg.Copies, 2), cmp.Or(len(cfg.Machines), cfg.Nodes)
	if err := cfg.check(); err != nil {
		return Plan{}, err
	}
	partitions := cfg.Partitions
	if partitions == 0 {
		perNode := math.Floor(float64(cfg.Threads)*cfg.Growth + 1e-6) // 10 * 1.1 may be a little below 11
		all := math.Floor(float64(cfg.Nodes) * perNode / float64(cfg.Copies))
		if all > MaxPartitions {
			return Plan{}, refuse("Plan with less growth; partitions can be added later.",
				"%.0f partitions are more than the %d that a fleet can have", all, MaxPartitions)
		}
		partitions = int(all)
	}
	if cfg.RAM > math.MaxInt64/int64(partitions) {
		return Plan{}, refuse("Give the memory of one node, in bytes.", "invalid memory of a node: %d bytes", cfg.RAM)
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
	case cfg.Machines == nil:
		return p, nil
	}
	placed, err := PlaceServers(cfg.Machines, p.Partitions, p.Copies)
	if err != nil {
		return Plan{}, err
	}
	p.Placement = placed
	return p, nil
}

// size returns the capacity of the plan's instances on a number of nodes.
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
		return refuse("Say how many machines there are.", "invalid number of nodes: %d", c.Nodes)
	case c.Threads < 1:
		return refuse("Say how many hardware threads a node has.", "invalid number of threads: %d", c.Threads)
	case c.RAM < 1:
		return refuse("Say how much memory a node has for Redis, such as 96gb.", "invalid memory of a node: %d bytes", c.RAM)
	case c.UserBytes < 0:
		return refuse("Say how much memory a user needs at most.", "invalid memory of a user: %d bytes", c.UserBytes)
	case !(c.Growth >= 1 && c.Growth <= MaxPartitions): // which excludes NaN
		return refuse("Use 1 for no growth, 2 for twice as many nodes.", "invalid growth: %v", c.Growth)
	case c.Partitions < 0:
		return refuse("Use 0 to have them computed.", "invalid number of partitions: %d", c.Partitions)
	case c.Partitions > MaxPartitions:
		return refuse("Plan with larger partitions.", "%d partitions are more than the %d that a fleet can have", c.Partitions, MaxPartitions)
	}
	return checkCopies(c.Copies, c.Nodes)
}

func checkCopies(copies, nodes int) error {
	switch {
	case copies < 1:
		return refuse("Use 1 for masters alone, 2 for a replica of each.", "invalid number of copies: %d", copies)
	case copies > nodes:
		return refuse("Add nodes, or make fewer copies: members of a partition on one node are lost together.",
			"%d copies of a partition need as many nodes, and there are %d", copies, nodes)
	}
	return nil
}

// ParseBytes reads an amount of memory as Redis does in its configuration: a whole number
// with a unit, or without. k, m and g are 1000, 1000000 and 1000000000 bytes; kb, mb and gb
// are 1024, 1024*1024 and 1024*1024*1024.
func ParseBytes(text string) (int64, error) {
	lower := strings.ToLower(text)
	digits := strings.TrimRight(lower, "bgkm")
	number, err := strconv.ParseUint(digits, 10, 63)
	unit, known := map[string]uint64{
		"": 1, "b": 1,
		"k": 1e3, "m": 1e6, "g": 1e9,
		"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30,
	}[lower[len(digits):]]
	if err != nil || !known || number > math.MaxInt64/unit {
		return 0, refuse("Use a whole number and one of b, kb, mb, gb, such as 96gb.", "invalid amount of memory: %q", text)
	}
	return int64(number * unit), nil
}

// Bytes is an amount of memory, written as ParseBytes reads it.
type Bytes int64

// UnmarshalText reads an amount.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := ParseBytes(string(text))
	*b = Bytes(n)
	return err
}

func refuse(hint, format string, args ...any) error {
	err := millrace.ErrBadArgument.Errorf(format, args...)
	err.Hint = hint
	return err
}
