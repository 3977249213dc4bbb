package bench

import (
	"context"
	"fmt"
	"slices"
)

// Figure is one thing that is measured, in its unit. Rates are better when they are
// larger, times and counts when they are smaller.
type Figure struct {
	Name  string // for programs: "ick_add", of which the first word is the structure
	What  string // for people: "ick add, 50 goroutines"
	Unit  string // "adds/s"
	Sides []Side // the first is measured, the others are baselines

	// Once says that one round is enough on a server in use: a round takes a time of
	// its own, and rounds hardly differ.
	Once bool
}

// Side is one way to do a figure's work.
type Side struct {
	Name    string
	Measure Measure
	Goal    *Goal // of the figure against this side; nil for none
}

// Measure runs a side once. It ends at the first error: see package must.
type Measure func(ctx context.Context, b *B) float64

// Goal is a bound: of the ratio to a side, or of the figure itself.
type Goal struct {
	Of      string   `json:"of"` // "ratio" or "value"
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
}

// AtLeast is a goal for the ratio to a side.
func AtLeast(ratio float64) *Goal { return &Goal{Of: ofRatio, AtLeast: &ratio} }

// AtMost is a goal for the ratio to a side.
func AtMost(ratio float64) *Goal { return &Goal{Of: ofRatio, AtMost: &ratio} }

// ValueAtMost is a goal for the figure itself, in its unit.
func ValueAtMost(value float64) *Goal { return &Goal{Of: ofValue, AtMost: &value} }

const (
	ofRatio = "ratio"
	ofValue = "value"
)

// reached reports whether a figure reaches the goal, and nil if that is unknown.
func (g *Goal) reached(value float64, ratio *float64) *bool {
	if g == nil || g.Of == ofRatio && ratio == nil {
		return nil
	}
	if g.Of == ofRatio {
		value = *ratio
	}
	yes := (g.AtLeast == nil || value >= *g.AtLeast) && (g.AtMost == nil || value <= *g.AtMost)
	return &yes
}

// text writes the goal for people.
func (g *Goal) text(unit string) string {
	switch {
	case g == nil:
		return ""
	case g.Of == ofValue:
		return fmt.Sprintf("at most %v %s", *g.AtMost, unit)
	case g.AtLeast != nil:
		return fmt.Sprintf("at least %v", *g.AtLeast)
	}
	return fmt.Sprintf("at most %v", *g.AtMost)
}

// Result is the outcome of a figure.
type Result struct {
	Name    string    `json:"name"`
	What    string    `json:"what"`
	Unit    string    `json:"unit"`
	Rounds  int       `json:"rounds"`
	Value   float64   `json:"value"` // the median of the rounds
	Against []Against `json:"against"`
}

// Against is how a result compares with one baseline.
type Against struct {
	Name    string   `json:"name"`
	Value   float64  `json:"value"`   // the baseline's own, the median of the rounds
	Ratio   *float64 `json:"ratio"`   // the median of the rounds' ratios; nil where the baseline is nothing
	Goal    *Goal    `json:"goal"`    // nil for none
	Reached *bool    `json:"reached"` // nil without a goal
}

// Compare measures all sides in so many rounds, one after the other. Before each
// side it calls progress.
func (f Figure) Compare(ctx context.Context, b B, rounds int, progress func(round int, side string)) (Result, error) {
	values := make([][]float64, len(f.Sides))
	for round := range rounds {
		for i, side := range f.Sides {
			if ctx.Err() != nil {
				return Result{}, context.Cause(ctx)
			}
			progress(round+1, side.Name)
			value, err := b.run(ctx, side.Measure)
			if err != nil {
				return Result{}, fmt.Errorf("%s, %s: %w", f.What, side.Name, err)
			}
			values[i] = append(values[i], value)
		}
	}
	r := Result{Name: f.Name, What: f.What, Unit: f.Unit, Rounds: rounds, Value: median(values[0]), Against: []Against{}}
	for i, side := range f.Sides[1:] {
		a := Against{Name: side.Name, Value: median(values[i+1]), Goal: side.Goal}
		if a.Value > 0 {
			a.Ratio = ratio(values[0], values[i+1])
		}
		a.Reached = side.Goal.reached(r.Value, a.Ratio)
		r.Against = append(r.Against, a)
	}
	return r, nil
}

// ratio returns the median of the rounds' ratios, of those where there is one.
func ratio(values, baseline []float64) *float64 {
	var ratios []float64
	for round, value := range values {
		if baseline[round] > 0 {
			ratios = append(ratios, value/baseline[round])
		}
	}
	middle := median(ratios)
	return &middle
}

// median returns the middle of values, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[half-1] + sorted[half]) / 2
	}
	return sorted[half]
}
