package shuffleshard_test

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/shuffleshard"
)

// The picture in the package's documentation.
func Example() {
	for _, tenant := range []string{"noisy", "ann", "sam", "fay"} {
		shard := shuffleshard.Get(8, 2, tenant)
		var row strings.Builder
		for stream := range 8 {
			if slices.Contains(shard, stream) {
				row.WriteString(" x")
			} else {
				row.WriteString(" .")
			}
		}
		fmt.Printf("%-5s%s\n", tenant, row.String())
	}
	// Output:
	// noisy . . x . . x . .
	// ann   x . . . . . x .
	// sam   . x x . . . . .
	// fay   . . x . . x . .
}

// A writer takes the stream with the fewest messages waiting, and among equals
// the one that comes first.
func ExampleGet() {
	waiting := make([]int, 64)
	for _, tenant := range []string{"noisy", "noisy", "noisy", "noisy", "noisy", "quiet"} {
		shard := shuffleshard.Get(64, 4, tenant)
		stream := slices.MinFunc(shard, func(a, b int) int { return waiting[a] - waiting[b] })
		waiting[stream]++
		fmt.Println(tenant, "has", shard, "and writes to", stream)
	}
	// Output:
	// noisy has [13 38 48 19] and writes to 13
	// noisy has [13 38 48 19] and writes to 38
	// noisy has [13 38 48 19] and writes to 48
	// noisy has [13 38 48 19] and writes to 19
	// noisy has [13 38 48 19] and writes to 13
	// quiet has [11 57 5 21] and writes to 11
}

// Growing from 64 streams to 65 changes nothing for most tenants, and one member
// of the shard for 6% of them. Shrinking goes back.
func ExampleGet_resize() {
	for _, tenant := range []string{"tenant-13", "tenant-77"} {
		fmt.Println(tenant, shuffleshard.Get(64, 4, tenant), shuffleshard.Get(65, 4, tenant))
	}
	// Output:
	// tenant-13 [13 18 15 33] [13 18 15 33]
	// tenant-77 [30 23 53 49] [30 23 64 53]
}

// How likely it is that two tenants share everything, and that one or more of 60
// quiet tenants share everything with a noisy one.
func ExampleCollision() {
	for _, size := range []struct{ items, count int }{{16, 2}, {16, 4}, {64, 4}} {
		p := shuffleshard.Collision(size.items, size.count)[size.count]
		oneOf60 := -math.Expm1(60 * math.Log1p(-p))
		fmt.Printf("%d of %d: two tenants %.6f%%, one or more of 60 %.4f%%\n", size.count, size.items, 100*p, 100*oneOf60)
	}
	// Output:
	// 2 of 16: two tenants 0.833333%, one or more of 60 39.4739%
	// 4 of 16: two tenants 0.054945%, one or more of 60 3.2438%
	// 4 of 64: two tenants 0.000157%, one or more of 60 0.0094%
}
