package main

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/millrace/millrace/shuffleshard"
)

// shape is how many streams a queue has, and how many of them each tenant.
type shape struct{ streams, perTenant int }

func (s shape) String() string { return fmt.Sprintf("%d/%d", s.streams, s.perTenant) }

// shapes are one stream for all, plain hashing, and shuffle shards.
var shapes = []shape{{1, 1}, {64, 1}, {16, 2}, {64, 4}, {256, 4}, {1024, 8}}

const (
	population = 1_000_000 // tenants
	draws      = 10        // of the flooding tenants
)

// flooded returns how likely it is that of a tenant's streams exactly i are also
// streams of others that flood, for i from 0 to all of them.
func (s shape) flooded(others int) []float64 {
	covered := make([]float64, s.streams+1) // how likely it is that so many streams are flooded
	covered[0] = 1
	for range others {
		next := make([]float64, s.streams+1)
		for n, p := range covered {
			for shared, q := range s.hits(n) {
				if p*q > 0 {
					next[n+s.perTenant-shared] += p * q
				}
			}
		}
		covered = next
	}
	likely := make([]float64, s.perTenant+1)
	for n, p := range covered {
		for shared, q := range s.hits(n) {
			likely[shared] += p * q
		}
	}
	return likely
}

// hits returns how likely it is that a shard has exactly i of n given streams. It
// draws one stream after the other.
func (s shape) hits(n int) []float64 {
	likely := make([]float64, s.perTenant+1)
	likely[0] = 1
	for drawn := range s.perTenant {
		for hit := drawn; hit >= 0; hit-- {
			again := float64(n-hit) / float64(s.streams-drawn)
			likely[hit+1] += likely[hit] * again
			likely[hit] *= 1 - again
		}
	}
	return likely
}

// census is how many tenants of the population have how many flooded streams.
type census struct {
	mean  []float64 // element i: how many have i, over all draws
	worst int       // how many had no other stream in the worst draw
}

// town is the streams of a whole population.
type town struct {
	shape

	shards []uint16 // those of all tenants, one after the other
}

func newTown(s shape, tenants int) town {
	t := town{shape: s, shards: make([]uint16, 0, tenants*s.perTenant)}
	for i := range tenants {
		for _, stream := range shuffleshard.Get(s.streams, s.perTenant, "tenant-"+strconv.Itoa(i)) {
			t.shards = append(t.shards, uint16(stream))
		}
	}
	return t
}

// count draws the flooding tenants again and again, and counts all tenants. The number of the
// first draw is the seed of its flooding tenants.
func (t town) count(others, first int) census {
	c := census{mean: make([]float64, t.perTenant+1)}
	for draw := first; draw < first+draws; draw++ {
		under := make([]bool, t.streams)
		for i := range others {
			for _, stream := range shuffleshard.Get(t.streams, t.perTenant, fmt.Sprintf("noisy-%d-%d", draw, i)) {
				under[stream] = true
			}
		}
		tally := make([]int, t.perTenant+1)
		for shard := range slices.Chunk(t.shards, t.perTenant) {
			hit := 0
			for _, stream := range shard {
				if under[stream] {
					hit++
				}
			}
			tally[hit]++
		}
		for i, n := range tally {
			c.mean[i] += float64(n) / draws
		}
		c.worst = max(c.worst, tally[t.perTenant])
	}
	return c
}

// overlapTable counts the population for each shape.
func overlapTable() table {
	t := table{title: fmt.Sprintf("Of %s tenants, how many have how much of their streams flooded by others: means of %d draws.", grouped(population), draws)}
	t.row("queue", "flooding", "nothing", "up to half", "more", "all", "all: formula", "all: worst draw")
	noisy := []int{1, 10, 100}
	rows := make([][]string, len(shapes)*len(noisy))
	var all sync.WaitGroup
	for i, s := range shapes {
		all.Go(func() {
			town := newTown(s, population)
			for j, others := range noisy {
				c := town.count(others, 0)
				part := func(from, to int) string { // those with from..to flooded streams
					n := 0.0
					for hit := from; hit <= to; hit++ {
						n += c.mean[hit]
					}
					return grouped(int(n + 0.5))
				}
				k := s.perTenant
				rows[i*len(noisy)+j] = []string{
					s.String(), strconv.Itoa(others), part(0, 0), part(1, k/2), part(k/2+1, k-1), amount(c.mean[k]),
					amount(population * s.flooded(others)[k]), grouped(c.worst),
				}
			}
		})
	}
	all.Wait()
	t.rows = append(t.rows, rows...)
	return t
}

// freeTable computes how many tenants have no free stream, to choose a shape by.
func freeTable() table {
	t := table{title: fmt.Sprintf("Of %s tenants, how many have no stream that is not flooded, by the formula.", grouped(population))}
	perTenant := []int{1, 2, 4, 8, 16}
	head := []string{"flooding", "streams"}
	for _, k := range perTenant {
		head = append(head, strconv.Itoa(k)+" a tenant")
	}
	t.row(head...)
	for _, others := range []int{1, 10, 100} {
		for _, streams := range []int{16, 64, 256, 1024} {
			cells := []string{strconv.Itoa(others), strconv.Itoa(streams)}
			for _, k := range perTenant {
				cells = append(cells, amount(population*shape{streams, k}.flooded(others)[k]))
			}
			t.row(cells...)
		}
	}
	return t
}
