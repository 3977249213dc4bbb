package plan_test

import (
	"fmt"

	"github.com/millrace/millrace/internal/fleet/plan"
)

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
