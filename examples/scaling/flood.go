package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/millrace/millrace/shuffleshard"
)

const (
	floodSize = 3000 // messages of each tenant that floods
	quiet     = 60   // tenants with one message each, written after that
	floods    = 200  // how often the whole is repeated, each time with other tenants
)

// line is a queue before anything is read: of each stream the messages that wait,
// the first one first. A message is only whether a quiet tenant wrote it.
type line struct {
	shape

	waiting [][]bool
}

// write puts a message into the one of the tenant's streams in which the fewest
// wait, the preferred one if there are several, as the script fairqueue.write does.
func (l line) write(shard []int, isQuiet bool) {
	best := slices.MinFunc(shard, func(a, b int) int { return len(l.waiting[a]) - len(l.waiting[b]) })
	l.waiting[best] = append(l.waiting[best], isQuiet)
}

// read takes messages as the script fairqueue.read does, going round the streams
// in which any wait, one message a stream a turn, until those of all quiet tenants
// are read. It returns how many were read by then for each, itself included.
func (l line) read() []int {
	var positions []int
	holding := slices.DeleteFunc(slices.Clone(l.waiting), func(stream []bool) bool { return len(stream) == 0 })
	for read := 1; len(positions) < quiet; {
		for i, stream := range holding {
			if stream[0] {
				positions = append(positions, read)
			}
			holding[i] = stream[1:]
			read++
		}
		holding = slices.DeleteFunc(holding, func(stream []bool) bool { return len(stream) == 0 })
	}
	return positions
}

// positionsBehind has some tenants flood a queue and the quiet ones write one
// message each, and returns the positions at which those are read.
func positionsBehind(s shape, others, repeat int) []int {
	l := line{shape: s, waiting: make([][]bool, s.streams)}
	shards := make([][]int, others)
	for i := range shards {
		shards[i] = shuffleshard.Get(s.streams, s.perTenant, fmt.Sprintf("noisy-%d-%d", repeat, i))
	}
	for range floodSize {
		for _, shard := range shards {
			l.write(shard, false)
		}
	}
	for i := range quiet {
		l.write(shuffleshard.Get(s.streams, s.perTenant, fmt.Sprintf("quiet-%d-%d", repeat, i)), true)
	}
	return l.read()
}

// positionTable repeats that for each shape.
func positionTable() table {
	t := table{title: fmt.Sprintf("Some tenants write %s messages each, then %d others write one each. After how many messages theirs are read, and in how many of %d repeats one of them has no free stream.",
		grouped(floodSize), quiet, floods)}
	t.row("queue", "flooding", "half by", "99% by", "the last", "one not free", "formula")
	for _, others := range []int{1, 10} {
		for _, s := range shapes {
			var all []int
			stuck := 0
			for repeat := range floods {
				positions := positionsBehind(s, others, repeat)
				all = append(all, positions...)
				if noneFree(s, others, repeat) {
					stuck++
				}
			}
			slices.Sort(all)
			p := s.flooded(others)[s.perTenant]
			t.row(s.String(), strconv.Itoa(others), grouped(quantile(all, 0.5)), grouped(quantile(all, 0.99)), grouped(all[len(all)-1]),
				strconv.Itoa(stuck), fmt.Sprintf("%.1f", -floods*math.Expm1(quiet*math.Log1p(-p))))
		}
	}
	return t
}

// noneFree reports whether one of the quiet tenants of a repeat has no stream that
// is not flooded.
func noneFree(s shape, others, repeat int) bool {
	under := make([]bool, s.streams)
	for i := range others {
		for _, stream := range shuffleshard.Get(s.streams, s.perTenant, fmt.Sprintf("noisy-%d-%d", repeat, i)) {
			under[stream] = true
		}
	}
	for i := range quiet {
		shard := shuffleshard.Get(s.streams, s.perTenant, fmt.Sprintf("quiet-%d-%d", repeat, i))
		if !slices.ContainsFunc(shard, func(stream int) bool { return !under[stream] }) {
			return true
		}
	}
	return false
}

// quantile returns the value that a share p of sorted values does not exceed.
func quantile[T any](sorted []T, p float64) T {
	return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)]
}
