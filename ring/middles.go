package ring

import (
	"container/heap"
)

// gap is the way from one point to the next.
type gap struct{ from, width uint64 }

// gaps is a heap: the widest gap first, and of equally wide ones the first on the
// ring.
type gaps []gap

func (g gaps) Len() int      { return len(g) }
func (g gaps) Swap(i, j int) { g[i], g[j] = g[j], g[i] }
func (g *gaps) Push(x any)   { *g = append(*g, x.(gap)) } //nolint:forcetypeassert // only gaps are pushed

func (g gaps) Less(i, j int) bool {
	// A gap of 1/160 of the ring is not always as wide as the next one, since
	// positions are whole numbers.
	if wide, other := g[i].width>>8, g[j].width>>8; wide != other {
		return wide > other
	}
	return g[i].from < g[j].from
}

func (g *gaps) Pop() any {
	last := (*g)[len(*g)-1]
	*g = (*g)[:len(*g)-1]
	return last
}

// middles returns n places, each in the middle of the widest gap between points
// that is left. The points are by position.
func middles(points []Point, n int) []uint64 {
	open := make(gaps, len(points))
	for i, p := range points {
		next := points[(i+1)%len(points)].Position
		open[i] = gap{from: p.Position, width: next - p.Position} // around at 0
		if len(points) == 1 {
			open[i].width = 1<<64 - 1
		}
	}
	heap.Init(&open)
	places := make([]uint64, n)
	for i := range places {
		widest := heap.Pop(&open).(gap) //nolint:forcetypeassert // only gaps are pushed
		half := widest.width/2 + widest.width%2
		places[i] = widest.from + half
		heap.Push(&open, gap{from: widest.from, width: half})
		heap.Push(&open, gap{from: places[i], width: widest.width - half})
	}
	return places
}
