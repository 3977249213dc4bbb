package main

import (
	"github.com/dustin/go-humanize"

	"fmt"
	"strconv"
	"strings"
	"time"
)

// table is text in columns: the first aligned left, the others right.
type table struct {
	title string // a sentence about the table, above it
	rows  [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// String is the title, an empty line and the rows.
func (t table) String() string {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", t.title)
	for _, row := range t.rows {
		for i, cell := range row {
			if i == 0 {
				fmt.Fprintf(&b, "%-*s", widths[i], cell)
			} else {
				fmt.Fprintf(&b, "  %*s", widths[i], cell)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// grouped writes a whole number with commas.
func grouped(n int) string { return humanize.Comma(int64(n)) }

// amount writes a number of any size, from millions to a small part of one.
func amount(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x < 0.001:
		return "< 0.001"
	case x < 10:
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return grouped(int(x + 0.5))
}

// lasting writes a time with two or three digits, and a unit that they suit.
func lasting(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 1:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case s < 100:
		return fmt.Sprintf("%.1f s", s)
	default:
		return grouped(int(s+0.5)) + " s"
	}
}
