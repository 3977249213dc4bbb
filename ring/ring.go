package ring

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// MaxPoints is how many points a ring has at most.
const MaxPoints = 1 << 16

// Errors of this package.
var (
	// ErrPoints means that points cannot make a ring.
	ErrPoints = errors.New("ring: these points cannot make a ring")

	// ErrWeight means that a weight cannot be had.
	ErrWeight = errors.New("ring: a weight is less than 1, or the ring would have too many points")
)

// Point is a place on the ring that belongs to a partition.
type Point struct {
	Position   uint64
	Partition  int // its number, from 0 on
	Generation int // 0 for the first partitions, one more each time some were added
}

// Ring is a set of points. It never changes and is safe for concurrent use.
type Ring struct {
	points      []Point // by position
	candidates  [][]int // for each point, where a tag before it may be, the newest first
	partitions  int
	generations int
}

// New returns a ring of the first partitions, one for each weight: a partition of
// weight w has w points. All points are at equal distances, from 0 on, and those
// of one partition are spread between the others'.
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

// Even returns n weights of 1, for New and Add.
func Even(n int) []int {
	return slices.Repeat([]int{1}, max(n, 0))
}

// share returns i/n of the ring.
func share(i, n int) uint64 {
	quotient, _ := bits.Div64(uint64(i), 0, uint64(n))
	return quotient
}

// interleave returns each partition's number as often as its weight says, spread
// over the whole: in each step the one that is furthest behind its share comes.
func interleave(weights []int) ([]int, error) {
	sum := 0
	for _, w := range weights {
		if w < 1 || w > MaxPoints-sum {
			return nil, fmt.Errorf("%w: %d", ErrWeight, w)
		}
		sum += w
	}
	if sum == 0 {
		return nil, fmt.Errorf("%w: there is no partition", ErrPoints)
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

// Of returns the ring of these points, in any order. Partitions are numbered from
// 0 on without a gap, all points of one are of the same generation, and no two
// points are at one place.
func Of(points []Point) (*Ring, error) {
	r := &Ring{points: slices.Clone(points)}
	slices.SortFunc(r.points, func(a, b Point) int { return cmp.Compare(a.Position, b.Position) })
	generation := make(map[int]int)
	for i, p := range r.points {
		known, seen := generation[p.Partition]
		switch {
		case p.Partition < 0 || p.Generation < 0:
			return nil, fmt.Errorf("%w: %+v has a negative number", ErrPoints, p)
		case i > 0 && r.points[i-1].Position == p.Position:
			return nil, fmt.Errorf("%w: two are at %d", ErrPoints, p.Position)
		case seen && known != p.Generation:
			return nil, fmt.Errorf("%w: partition %d is of the generations %d and %d", ErrPoints, p.Partition, known, p.Generation)
		}
		generation[p.Partition] = p.Generation
		r.partitions = max(r.partitions, p.Partition+1)
		r.generations = max(r.generations, p.Generation+1)
	}
	if len(points) == 0 || len(points) > MaxPoints || len(generation) != r.partitions {
		return nil, fmt.Errorf("%w: %d points of %d partitions, numbered up to %d", ErrPoints, len(points), len(generation), r.partitions-1)
	}
	r.candidates = make([][]int, len(r.points))
	for i := range r.points {
		r.candidates[i] = r.before(i)
	}
	return r, nil
}

// before returns to which partitions the tags at a point ever belonged: its own,
// and each further one clockwise that is of a lower generation than all so far.
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

// Add returns the ring with more partitions, one for each weight, of the next
// generation. Each of their points is in the middle of the widest gap that is
// left, the first one of those that are equally wide. The partitions are numbered
// on from [Ring.Partitions].
func (r *Ring) Add(weights ...int) (*Ring, error) {
	order, err := interleave(weights)
	if err != nil {
		return nil, err
	}
	if len(r.points)+len(order) > MaxPoints {
		return nil, fmt.Errorf("%w: %d more", ErrWeight, len(order))
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

// Partitions returns how many partitions there are.
func (r *Ring) Partitions() int { return r.partitions }

// Generations returns how many generations there are, at least 1.
func (r *Ring) Generations() int { return r.generations }

// Owner returns the partition to which a position belongs, where new data goes.
func (r *Ring) Owner(position uint64) int { return r.points[r.at(position)].Partition }

// Candidates returns all partitions to which a position ever belonged, the newest
// first, each once: where old data may be, unless it was forwarded because one
// was full. The slice must not be changed.
func (r *Ring) Candidates(position uint64) []int { return r.candidates[r.at(position)] }

// Walk goes over all partitions clockwise from a position on, each once.
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

// Shares returns what part of the ring each partition has.
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

// at returns the first point clockwise from a position on.
func (r *Ring) at(position uint64) int {
	low, high := 0, len(r.points)
	for low < high {
		middle := int(uint(low+high) / 2)
		if r.points[middle].Position < position {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == len(r.points) {
		return 0
	}
	return low
}
