package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEven compares with all ways there are: it finds one if there is one, and none is
// more even. Items that had places make way only if that helps.
func TestEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpread(t)
		best, found := 0, false
		all(s, nil, func(at []int) {
			if sum := s.squares(at); !found || sum < best {
				best, found = sum, true
			}
		})
		got := s.Even()
		if (got != nil) != found {
			t.Fatalf("Even = %v, and a way exists: %t", got, found)
		}
		if !found {
			return
		}
		if !s.allows(got) {
			t.Fatalf("Even = %v is not allowed", got)
		}
		if sum := s.squares(got); sum != best {
			t.Fatalf("Even = %v with the sum of squares %d, want %d", got, sum, best)
		}
		if again := (Spread{s.Choices, got, s.Others, s.Room}).Even(); !slices.Equal(again, got) {
			t.Fatalf("Even = %v of %v, which cannot be more even", again, got)
		}
	})
}

func drawSpread(t *rapid.T) Spread {
	places := rapid.IntRange(1, 4).Draw(t, "places")
	items := rapid.IntRange(1, 6).Draw(t, "items")
	s := Spread{Others: rapid.SliceOfN(rapid.IntRange(0, 4), places, places).Draw(t, "others")}
	if rapid.Bool().Draw(t, "limited") {
		s.Room = rapid.SliceOfN(rapid.IntRange(0, 3), places, places).Draw(t, "room")
	}
	taken := make([]int, places)
	for range items {
		choices := rapid.SliceOfNDistinct(rapid.IntRange(0, places-1), 1, places, rapid.ID[int]).Draw(t, "choices")
		now := -1
		if at := choices[0]; rapid.Bool().Draw(t, "placed") && (s.Room == nil || taken[at] < s.Room[at]) {
			now = at
			taken[at]++
		}
		s.Choices, s.Now = append(s.Choices, choices), append(s.Now, now)
	}
	return s
}

// all calls a function with every way that is allowed.
func all(s Spread, at []int, visit func([]int)) {
	if len(at) == len(s.Choices) {
		if s.allows(at) {
			visit(at)
		}
		return
	}
	for _, place := range s.Choices[len(at)] {
		all(s, append(slices.Clone(at), place), visit)
	}
}

func (s Spread) allows(at []int) bool {
	items := make([]int, len(s.Others))
	for i, place := range at {
		if !slices.Contains(s.Choices[i], place) {
			return false
		}
		items[place]++
	}
	for place, n := range items {
		if s.Room != nil && n > s.Room[place] {
			return false
		}
	}
	return true
}

func (s Spread) squares(at []int) (sum int) {
	loads := slices.Clone(s.Others)
	for _, place := range at {
		loads[place]++
	}
	for _, n := range loads {
		sum += n * n
	}
	return sum
}
