package devfleet

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// NoReplicas is for Config.Replicas.
const NoReplicas = -1

// Defaults of Config.
const (
	DefaultNodes      = 3
	DefaultPartitions = 4
	DefaultReplicas   = 1
)

// Config says what to start. The zero value works.
type Config struct {
	// Binary is the server to run. Defaults to what redisproc.Find finds.
	Binary string

	// Dir is the folder in which the servers work. It is made if it is not there,
	// must not hold files of a fleet, and is never removed. Defaults to a temporary
	// folder, which Stop removes.
	Dir string

	// Nodes is how many nodes there are. They are called node-0, node-1 and so on.
	// Defaults to 3.
	Nodes int

	// Partitions is how many there are at first. Defaults to 4.
	Partitions int

	// Replicas is how many a partition has. Defaults to 1; none are NoReplicas.
	Replicas int

	// Settings are those of the fleet. Defaults to those of directory.Settings.
	Settings directory.Settings

	// MaxMemory is the memory limit of each data server in the server's notation,
	// such as "64mb". Defaults to no limit.
	MaxMemory string

	// Pin ties each data server to a CPU. It does nothing where there is only one,
	// and on other systems than Linux. Defaults to false.
	Pin bool

	// Exited is told of a server whose process ended, unless Stop ended it, and again
	// when it was restarted and ended once more. It is called by several goroutines,
	// and must not call Stop. Defaults to telling nobody.
	Exited func(Server)

	// RestartAfter is how long after the end of its process a server is restarted, as
	// often as that happens. Defaults to never.
	RestartAfter time.Duration

	// Restarted is told of a server that RestartAfter has restarted, or of why it
	// could not be; then that is tried again. What goes for Exited goes for it.
	// Defaults to telling nobody.
	Restarted func(Server, error)
}

func (c Config) withDefaults() Config {
	if c.Nodes == 0 {
		c.Nodes = DefaultNodes
	}
	if c.Partitions == 0 {
		c.Partitions = DefaultPartitions
	}
	if c.Exited == nil {
		c.Exited = func(Server) {}
	}
	if c.Restarted == nil {
		c.Restarted = func(Server, error) {}
	}
	switch c.Replicas {
	case 0:
		c.Replicas = DefaultReplicas
	case NoReplicas:
		c.Replicas = 0
	}
	return c
}

// nodeNames returns the names of n nodes.
func nodeNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("node-%d", i))
	}
	return names
}
