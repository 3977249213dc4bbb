package dashboard

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/fairqueue"
)

// heat is the streams of a queue as a field of cells, the darker the more wait.
type heat struct {
	Cells []cell
	Many  bool // so many that cells are small
	Few   bool // so few that cells are large
	Drawn bool // a tenant's streams are marked
	Most  int  // that wait in one stream
	Old   int  // streams that writers do not use any more
}

// cell is one stream.
type cell struct {
	Index    int
	Waiting  int
	InFlight int
	Level    int  // from 0, nothing, to heatLevels
	Mine     bool // it is one of the tenant's
	Old      bool // it is read until it is empty
	Words    string
}

const (
	// heatLevels is how many shades there are besides that of nothing.
	heatLevels = 6

	// manyStreams is from how many streams on cells are small.
	manyStreams = 129

	// fewStreams is up to how many streams cells are large.
	fewStreams = 8
)

func newHeat(s fairqueue.Stats, mine []int) heat {
	n := s.StreamCount
	for _, one := range s.Streams {
		n = max(n, one.Index+1)
	}
	h := heat{Cells: make([]cell, n), Many: n >= manyStreams, Few: n <= fewStreams, Drawn: len(mine) > 0}
	for _, one := range s.Streams {
		h.Most = max(h.Most, one.Waiting)
	}
	for i := range h.Cells {
		h.Cells[i] = cell{Index: i, Words: fmt.Sprintf("stream %d: empty", i), Old: i >= s.StreamCount, Mine: slices.Contains(mine, i)}
		if h.Cells[i].Old {
			h.Old++
		}
	}
	for _, one := range s.Streams {
		c := &h.Cells[one.Index]
		c.Waiting, c.InFlight, c.Level = one.Waiting, one.InFlight, level(one.Waiting, h.Most)
		c.Words = fmt.Sprintf("stream %d: %s waiting, %s in flight", one.Index, number(one.Waiting), number(one.InFlight))
		if one.OldestAge > 0 {
			c.Words += ", oldest " + ago(one.OldestAge)
		}
	}
	for i := range h.Cells {
		if h.Cells[i].Mine {
			h.Cells[i].Words += ", one of the tenant's"
		}
		if h.Cells[i].Old {
			h.Cells[i].Words += ", no longer written to"
		}
	}
	return h
}

// level is the shade of a cell. It follows the logarithm, so that one message can be
// told from none beside a flood of thousands.
func level(n, most int) int {
	switch {
	case n <= 0:
		return 0
	case most <= heatLevels:
		return n
	}
	return 1 + int(math.Round(float64(heatLevels-1)*math.Log(float64(n))/math.Log(float64(most))))
}
