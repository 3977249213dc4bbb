package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// The ring as a circle: position 0 is at the top, and what stands at a point of a
// partition is its number. A tag belongs to the next one clockwise.

// canvas is a field of characters, about twice as high as wide each.
type canvas struct {
	cells  [][]rune
	radius int // in lines; in columns it is twice that
}

func newCanvas(radius int) *canvas {
	c := &canvas{cells: make([][]rune, 2*radius+1), radius: radius}
	for i := range c.cells {
		c.cells[i] = []rune(strings.Repeat(" ", 4*radius+1+2*margin))
	}
	return c
}

// margin is the room for a number at the left and at the right.
const margin = 3

// at returns the cell at a part of the way round, clockwise from the top.
func (c *canvas) at(turn float64) (line, column int) {
	r := float64(c.radius)
	line = c.radius - int(math.Round(r*math.Cos(2*math.Pi*turn)))
	column = margin + 2*c.radius + int(math.Round(2*r*math.Sin(2*math.Pi*turn)))
	return line, column
}

// write writes words with their middle at a cell, and reports whether there was
// room, with a space on both sides.
func (c *canvas) write(line, column int, words string) bool {
	text := []rune(words)
	start := column - len(text)/2
	for i := start - 1; i <= start+len(text); i++ {
		if i >= 0 && i < len(c.cells[line]) && c.cells[line][i] != ' ' {
			return false
		}
	}
	copy(c.cells[line][start:], text)
	return true
}

// dot writes a dot where nothing is near.
func (c *canvas) dot(turn float64) {
	line, column := c.at(turn)
	for i := column - 1; i <= column+1; i++ {
		if c.cells[line][i] != ' ' && c.cells[line][i] != '·' {
			return
		}
	}
	c.cells[line][column] = '·'
}

// drawRing draws the circle, unless there are so many points that they have no
// room.
func drawRing(w io.Writer, points directory.Points, s fleet.Status) {
	words := append([]string{string(s.State)}, summary(s)...)
	for radius := 6; radius <= 10; radius++ {
		c := newCanvas(radius)
		if !c.drawPoints(points, s) {
			continue
		}
		dots := 10 * radius
		for i := range dots {
			c.dot(float64(i) / float64(dots))
		}
		for i, line := range words {
			c.write(radius-len(words)/2+i, margin+2*radius, line)
		}
		for _, line := range c.cells {
			fmt.Fprintln(w, strings.TrimRight(string(line), " "))
		}
		if s.State != directory.Full {
			fmt.Fprintln(w, "\n~ partial: a replica does not serve   ! read-only   ✗ out")
		}
		return
	}
	fmt.Fprintf(w, "%s\n", strings.Join(words, ", "))
}

// drawPoints writes the numbers of partitions at their points.
func (c *canvas) drawPoints(points directory.Points, s fleet.Status) bool {
	for _, p := range points {
		name := strconv.Itoa(p.Partition)
		if p.Partition < len(s.Partitions) {
			name += map[directory.State]string{directory.Partial: "~", directory.ReadOnly: "!", directory.Out: "✗"}[s.Partitions[p.Partition].State]
		}
		line, column := c.at(float64(p.Position) / (1 << 64))
		if !c.write(line, column, name) {
			return false
		}
	}
	return true
}
