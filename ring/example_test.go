package ring_test

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/ring"
)

// Four partitions, and then four more in between: no data moves, and an earlier user
// is found in the same place.
func Example() {
	four, err := ring.New(slices.Repeat([]int{1}, 4)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	eight, err := four.Add(slices.Repeat([]int{1}, 4)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	position := ring.Position("bob@example.com")
	fmt.Println("before:", four.Owner(position))
	fmt.Println("now:", eight.Owner(position))
	fmt.Println("look in:", eight.Candidates(position))
	// Output:
	// before: 2
	// now: 5
	// look in: [5 2]
}

// A machine with twice the memory takes twice the users.
func ExampleNew() {
	r, err := ring.New(1, 1, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Shares())
	// Output: [0.25 0.25 0.5]
}

// When a partition is full, new users go to the next one clockwise that has room.
func ExampleRing_Walk() {
	r, err := ring.New(slices.Repeat([]int{1}, 4)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for p := range r.Walk(ring.Position("user:1")) {
		fmt.Print(p, " ")
	}
	// Output: 3 0 1 2
}
