package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// varies is how much two counts of the same code differ at most, as a part of them.
const varies = 0.05

// against returns, in Markdown, the figures that both results have. What differs by more than figures of the same code
// do is bold.
func (r *results) against(before *results) string {
	var out strings.Builder
	for _, measure := range slices.Sorted(maps.Keys(r.Figures)) {
		fmt.Fprintf(&out, "### %s\n\n| | before | after | change |\n|---|---|---|---|\n", measure)
		for _, row := range slices.Sorted(maps.Keys(r.Figures[measure])) {
			after := r.Figures[measure][row]
			for _, name := range slices.Sorted(maps.Keys(after)) {
				was, ok := before.Figures[measure][row][name]
				if !ok || was == 0 || name == "rounds" {
					continue
				}
				change := after[name]/was - 1
				text := fmt.Sprintf("%+.1f %%", 100*change)
				if math.Abs(change) > varies {
					text = "**" + text + "**"
				}
				fmt.Fprintf(&out, "| %s, %s | %s | %s | %s |\n", row, name, thousands(was), thousands(after[name]), text)
			}
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "Figures of the same code differ by up to %.0f %%; what differs by more is bold. Other systems are measured to show that.\n", 100*varies)
	return out.String()
}
