package ring

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // see Position
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

const maxPoints = 1 << 16

var (
	errPoints = errors.New("ring: these points cannot make a ring")
	errWeight = errors.New("ring: a weight is less than 1, or the ring would have too many points")
)

// Position returns the position of a tag on the ring: the SHA-1 of its bytes, folded by XOR. The
// 20 bytes are numbers of 8, 8 and 4 bytes, the most significant byte first; the last is the low
// half of its 64 bits.
func Position(tag string) uint64 {
	sum := sha1.Sum([]byte(tag)) //nolint:gosec // for its even spread, not for secrets
	return binary.BigEndian.Uint64(sum[0:8]) ^ binary.BigEndian.Uint64(sum[8:16]) ^ uint64(binary.BigEndian.Uint32(sum[16:20]))
}

// Point is a position on the ring that belongs to a partition.
type Point struct {
	Position   uint64
	Partition  int // from 0 on
	Generation int // 0 for the first partitions, one more each time some were added
}

// Ring is a set of points. It never changes and is safe for concurrent use.
type Ring struct {
	points      []Point // by position
	candidates  [][]int // of each point: where its tags may be, the newest first
	partitions  int
	generations int
}

// New returns a ring of the first partitions, one for each weight: a partition of weight w, from
// 1 on, has w points, up to 65,536 in all. All points are at equal distances, from 0 on; those of
// one partition are spread. For n partitions of the same weight pass slices.Repeat([]int{1}, n).
func New(weights ...int) (*Ring, error) {
	order, err := interleave(weights)
	if err != nil {
		return nil, err
	}
	points := make([]Point, len(order))
	for i, partition := range order {
		points[i] = Point{Position: share(i, len(order)), Partition: partition}
	}
	return Of(points)
}

// share returns i/n of the ring.
func share(i, n int) uint64 {
	quotient, _ := bits.Div64(uint64(i), 0, uint64(n))
	return quotient
}

// interleave returns each partition's number as often as its weight, spread: each step takes the
// partition that is furthest behind its share. It takes time in proportion to partitions times
// points.
func interleave(weights []int) ([]int, error) {
	sum := 0
	for _, w := range weights {
		if w < 1 || w > maxPoints-sum {
			return nil, fmt.Errorf("%w: %d", errWeight, w)
		}
		sum += w
	}
	if sum == 0 {
		return nil, fmt.Errorf("%w: there is no partition", errPoints)
	}
	order, credit := make([]int, 0, sum), make([]int, len(weights))
	for range sum {
		best := 0
		for p, w := range weights {
			credit[p] += w
			if credit[p] > credit[best] {
				best = p
			}
		}
		credit[best] -= sum
		order = append(order, best)
	}
	return order, nil
}

// Of returns the ring of these points, in any order. Partitions are numbered from 0 on without a
// gap, all points of a partition have the same generation, and no two points the same position.
func Of(points []Point) (*Ring, error) {
	r := &Ring{points: slices.Clone(points)}
	slices.SortFunc(r.points, func(a, b Point) int { return cmp.Compare(a.Position, b.Position) })
	generation := make(map[int]int)
	for i, p := range r.points {
		known, seen := generation[p.Partition]
		switch {
		case p.Partition < 0 || p.Generation < 0:
			return nil, fmt.Errorf("%w: %+v has a negative number", errPoints, p)
		case i > 0 && r.points[i-1].Position == p.Position:
			return nil, fmt.Errorf("%w: two are at %d", errPoints, p.Position)
		case seen && known != p.Generation:
			return nil, fmt.Errorf("%w: partition %d is of the generations %d and %d", errPoints, p.Partition, known, p.Generation)
		}
		generation[p.Partition] = p.Generation
		r.partitions = max(r.partitions, p.Partition+1)
		r.generations = max(r.generations, p.Generation+1)
	}
	if len(points) == 0 || len(points) > maxPoints || len(generation) != r.partitions {
		return nil, fmt.Errorf("%w: %d points of %d partitions, numbered up to %d", errPoints, len(points), len(generation), r.partitions-1)
	}
	r.candidates = make([][]int, len(r.points))
	for i := range r.points {
		r.candidates[i] = r.before(i)
	}
	return r, nil
}

// before returns the partitions to which the tags of a point ever belonged: its own, and each
// further one clockwise of a lower generation than all so far.
func (r *Ring) before(i int) []int {
	var list []int
	lowest := r.generations
	for step := 0; step < len(r.points) && lowest > 0; step++ {
		p := r.points[(i+step)%len(r.points)]
		if p.Generation < lowest {
			lowest = p.Generation
			if !slices.Contains(list, p.Partition) {
				list = append(list, p.Partition)
			}
		}
	}
	return list
}

// Add returns the ring with more partitions, one for each weight, of the next generation. Each
// new point is in the middle of the widest gap, the first of equally wide ones. Numbers continue
// after the last one.
func (r *Ring) Add(weights ...int) (*Ring, error) {
	order, err := interleave(weights)
	if err != nil {
		return nil, err
	}
	if len(r.points)+len(order) > maxPoints {
		return nil, fmt.Errorf("%w: %d more", errWeight, len(order))
	}
	points := slices.Clone(r.points)
	for _, position := range middles(points, len(order)) {
		points = append(points, Point{Position: position, Generation: r.generations})
	}
	added := points[len(r.points):]
	slices.SortFunc(added, func(a, b Point) int { return cmp.Compare(a.Position, b.Position) })
	for i := range added {
		added[i].Partition = r.partitions + order[i]
	}
	return Of(points)
}

// Points returns all points, by position.
func (r *Ring) Points() []Point { return slices.Clone(r.points) }

// Owner returns the partition of a position, where new data goes.
func (r *Ring) Owner(position uint64) int { return r.points[r.at(position)].Partition }

// Candidates returns all partitions to which a position ever belonged, the newest first, each
// once: where old data may be, unless it was moved because one was full. Do not change the
// slice.
func (r *Ring) Candidates(position uint64) []int { return r.candidates[r.at(position)] }

// Walk yields all partitions clockwise from a position, each once.
func (r *Ring) Walk(position uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		seen := make([]bool, r.partitions)
		first := r.at(position)
		for step := range r.points {
			p := r.points[(first+step)%len(r.points)].Partition
			if seen[p] {
				continue
			}
			seen[p] = true
			if !yield(p) {
				return
			}
		}
	}
}

// Shares returns each partition's part of the ring.
func (r *Ring) Shares() []float64 {
	shares := make([]float64, r.partitions)
	for i, p := range r.points {
		before := r.points[(i+len(r.points)-1)%len(r.points)].Position
		width := float64(p.Position - before) // around at 0
		if len(r.points) == 1 {
			width = 1 << 64
		}
		shares[p.Partition] += width / (1 << 64)
	}
	return shares
}

// at returns the first point clockwise from a position.
func (r *Ring) at(position uint64) int {
	i, _ := slices.BinarySearchFunc(r.points, position, func(p Point, at uint64) int { return cmp.Compare(p.Position, at) })
	return i % len(r.points)
}

// gap is the distance from one point to the next.
type gap struct{ from, width uint64 }

// wider orders gaps: the widest first, and of equally wide ones the first on the ring.
func wider(a, b gap) int {
	// A gap of 1/160 of the ring is not always as wide as the next one, since positions are
	// whole numbers.
	return cmp.Or(cmp.Compare(b.width>>8, a.width>>8), cmp.Compare(a.from, b.from))
}

// middles returns n positions, each in the middle of the widest remaining gap. The points are
// sorted by position.
func middles(points []Point, n int) []uint64 {
	open := make([]gap, len(points)) // sorted by wider
	for i, p := range points {
		next := points[(i+1)%len(points)].Position
		open[i] = gap{from: p.Position, width: next - p.Position} // around at 0
		if len(points) == 1 {
			open[i].width = 1<<64 - 1
		}
	}
	slices.SortFunc(open, wider)
	places := make([]uint64, n)
	for i := range places {
		widest := open[0]
		open = open[1:]
		half := widest.width/2 + widest.width%2
		places[i] = widest.from + half
		for _, part := range []gap{{widest.from, half}, {places[i], widest.width - half}} {
			at, _ := slices.BinarySearchFunc(open, part, wider)
			open = slices.Insert(open, at, part)
		}
	}
	return places
}
