package plan_test

import (
	"fmt"

	"github.com/millrace/millrace/internal/fleet/plan"
)

// Three machines that may become six before a partition must be added.
func ExampleMake() {
	ram, err := plan.ParseBytes("34gb")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := plan.Make(plan.Config{Nodes: 3, RAM: ram, Threads: 8, UserBytes: 1 << 20, Growth: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Partitions, "partitions,", p.InstancesPerNode, "instances a node,", p.Users, "users")
	fmt.Println("on", p.Grown.Nodes, "nodes:", p.Grown.InstancesPerNode, "instances a node,", p.Grown.Users, "users")
	// Output:
	// 24 partitions, 16 instances a node, 49152 users
	// on 6 nodes: 8 instances a node, 92832 users
}

// When c is lost, a and b share its masters.
func ExamplePlace() {
	placement, err := plan.Place([]string{"a", "b", "c"}, 6, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for partition, nodes := range placement {
		fmt.Printf("%d: master on %s, replica on %s\n", partition, nodes[0], nodes[1])
	}
	// Output:
	// 0: master on a, replica on b
	// 1: master on b, replica on c
	// 2: master on c, replica on a
	// 3: master on a, replica on c
	// 4: master on b, replica on a
	// 5: master on c, replica on b
}
