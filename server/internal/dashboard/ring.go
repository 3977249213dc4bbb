package dashboard

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

// ring is the ring of a fleet as a picture: an arc for each point of a partition, as
// long as the part of all tags that belong to it. A tag belongs to the next point
// clockwise, so an arc ends at its point. Position 0 is at the top.
type ring struct {
	Arcs        []arc
	Generations []int
	Words       string // for those who cannot see it
}

// arc is the part of the ring that belongs to one point. Its lengths are written as
// the picture takes them.
type arc struct {
	Path      string // of the arc itself, by its generation nearer to the middle
	Outer     string // of the mark of its state
	Tick      line   // where its point is
	Shade     int    // by generation, from 0 to ringShades-1
	State     fleet.State
	Partition int
	Label     spot // where the partition's number has room; empty if it has none
	Title     string
}

type (
	spot struct{ X, Y string }
	line struct{ From, To spot }
)

const (
	// ringShades is how many colours generations have; the last is for all that
	// come after.
	ringShades = 5

	// ringSteps is how many generations have a radius of their own.
	ringSteps = 3

	// labelRoom is the part of the ring that a label needs.
	labelRoom = 0.026

	// Lengths in the picture, whose middle is at 0.
	ringRadius = 150.0
	ringStep   = 14.0 // from one generation to the next, inwards
	halfWidth  = 15.0 // of an arc, with its edge
	stateAt    = 172.0
	labelAt    = 192.0
)

func newRing(points directory.Points, partitions []fleet.PartitionStatus) ring {
	r := ring{Words: fmt.Sprintf("The ring: %s of %s. The table below says the same.",
		readable.Count(len(points), "point"), readable.Count(len(partitions), "partition"))}
	byID := map[int]fleet.PartitionStatus{}
	for _, p := range partitions {
		byID[p.ID] = p
		if shade := min(p.Generation, ringShades-1); !slices.Contains(r.Generations, shade) {
			r.Generations = append(r.Generations, shade)
		}
	}
	slices.Sort(r.Generations)
	labelled := -1.0 // where the last label is
	for i, p := range points {
		length := turn(p.Position - points[(i+len(points)-1)%len(points)].Position)
		if len(points) == 1 {
			length = 1
		}
		from := turn(p.Position) - length // less than 0 for the first
		a := newArc(byID[p.Partition], from, length)
		if middle := from + length/2; middle-labelled >= labelRoom {
			labelled, a.Label = middle, at(labelAt, middle)
		}
		r.Arcs = append(r.Arcs, a)
	}
	return r
}

// newArc draws what belongs to a point of a partition.
func newArc(p fleet.PartitionStatus, from, length float64) arc {
	radius := ringRadius - ringStep*float64(min(p.Generation, ringSteps))
	return arc{
		Path: arcPath(radius, from, length), Outer: arcPath(stateAt, from, length),
		Tick:  line{at(radius-halfWidth, from+length), at(radius+halfWidth, from+length)},
		Shade: min(p.Generation, ringShades-1), State: p.State, Partition: p.ID,
		Title: fmt.Sprintf("partition %d: %s of the ring, generation %d, %s", p.ID, percent(length), p.Generation, p.State),
	}
}

// turn is a position as a part of the way round.
func turn(position uint64) float64 { return float64(position) / (1 << 64) }

// at is the spot at a part of the way round, clockwise from the top.
func at(radius, turn float64) spot {
	angle := 2 * math.Pi * turn
	return spot{coordinate(radius * math.Sin(angle)), coordinate(-radius * math.Cos(angle))}
}

// arcPath draws a part of a circle. One of more than half a circle is drawn in two,
// since the ends of a whole one are the same.
func arcPath(radius, from, length float64) string {
	if length > 0.5 {
		return arcPath(radius, from, length/2) + arcPath(radius, from+length/2, length/2)
	}
	start, end, r := at(radius, from), at(radius, from+length), coordinate(radius)
	return fmt.Sprintf("M%s %sA%s %s 0 0 1 %s %s", start.X, start.Y, r, r, end.X, end.Y)
}
