package plan

import "slices"

// Spread is a number of items, such as masters, each of which needs one of some places,
// such as nodes. Places are numbered from 0 on.
type Spread struct {
	Choices [][]int // of each item, the places that it may have
	Now     []int   // of each item, the place that it has; -1 for none
	Others  []int   // of each place, its load besides the items
	Room    []int   // of each place, how many items it takes at most; nil for no limit
}

// Even gives each item a place such that no other way is more even: it has the smallest
// sum of squares of the loads of places. So they differ by at most one if that is possible.
// An item that has a place moves only if that makes it more even. The result is nil if
// there is not enough room.
func (s Spread) Even() []int {
	e := balancer{Spread: s, at: slices.Clone(s.Now), items: make([]int, len(s.Others))}
	for _, place := range e.at {
		if place >= 0 {
			e.items[place]++
		}
	}
	for i, place := range e.at {
		if place >= 0 {
			continue
		}
		w := e.walk(s.Choices[i], i)
		to := e.emptiest(w)
		if to < 0 {
			return nil
		}
		e.shift(w, to, i)
	}
	for e.improve() {
	}
	return e.at
}

// balancer is a Spread that is being made even.
type balancer struct {
	Spread

	at    []int // the place of each item
	items []int // how many items each place has
}

// step is how a walk reached a place: an item goes there. It came from another place,
// where that leaves room, or it is new.
type step struct {
	item int
	from int // -1 for a place that the walk started at
}

// walk finds, by the fewest moves, all places where one more item can go if one comes to
// the starts. An index without a step was not reached.
func (e *balancer) walk(starts []int, item int) []*step {
	reached := make([]*step, len(e.items))
	var queue []int
	for _, place := range starts {
		if reached[place] == nil {
			reached[place] = &step{item, -1}
			queue = append(queue, place)
		}
	}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		for i, place := range e.at {
			if place != from {
				continue
			}
			for _, next := range e.Choices[i] {
				if reached[next] == nil {
					reached[next] = &step{i, from}
					queue = append(queue, next)
				}
			}
		}
	}
	return reached
}

// emptiest returns the place with room that has the least of those reached, -1 if there is
// none.
func (e *balancer) emptiest(reached []*step) int {
	best := -1
	for place, step := range reached {
		if step != nil && (e.Room == nil || e.items[place] < e.Room[place]) && (best < 0 || e.load(place) < e.load(best)) {
			best = place
		}
	}
	return best
}

func (e *balancer) load(place int) int { return e.Others[place] + e.items[place] }

// shift makes the moves that end at a place. The first of them leaves the start, or brings
// the new item there.
func (e *balancer) shift(reached []*step, to, item int) {
	e.items[to]++
	for {
		s := reached[to]
		if s.from < 0 {
			if item >= 0 {
				e.at[item] = to
			}
			return
		}
		e.at[s.item] = to
		to = s.from
	}
}

// improve moves one item from a fuller to an emptier place, perhaps by way of others, and
// reports whether it did.
func (e *balancer) improve() bool {
	for from := range e.items {
		w := e.walk([]int{from}, -1)
		to := e.emptiest(w)
		if to >= 0 && e.load(to)+2 <= e.load(from) {
			e.items[from]--
			e.shift(w, to, -1)
			return true
		}
	}
	return false
}
