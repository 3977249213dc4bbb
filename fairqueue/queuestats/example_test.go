package queuestats_test

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
)

// A judge of a queue needs no queue: it looks at figures that another program has read.
func Example() {
	idle := func(s queuestats.Stats) int {
		for _, r := range s.Readers {
			s.Capacity -= r.InFlight
		}
		return s.Capacity
	}
	s := queuestats.Stats{
		Name: "orders", Waiting: 3, OldestAge: 2 * time.Minute, Capacity: 12,
		Readers: []queuestats.Reader{{Name: "a", Concurrency: 10, InFlight: 4}, {Name: "b", Concurrency: 2, InFlight: 2}},
	}
	fmt.Println(s.Name, "has", idle(s), "idle handlers, and a message that has waited for", s.OldestAge)
	// Output: orders has 6 idle handlers, and a message that has waited for 2m0s
}
