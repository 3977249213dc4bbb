// Scaling computes and simulates the figures of docs/SCALING.md for many tenants and their
// upkeep, and prints its tables. It needs no Redis: the streams of a tenant come from
// package shuffleshard, as in a queue; queues, readers and recruits are models of a few
// lines each, next to the formulas that they are compared with.
//
//	overlap.go  how many tenants share how many of their streams with those that flood
//	flood.go    how many messages are read before theirs
//	upkeep.go   how long upkeep waits for a recruit
//
// The numbers are drawn from fixed seeds, so each run prints the same, and a test
// holds the guide to it.
package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

func main() { printAll(os.Stdout) }

// printAll makes all tables at the same time and prints them in order.
func printAll(w io.Writer) {
	for i, text := range tables() {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, text)
	}
}

// tables returns all tables with their titles, as the guide shows them.
func tables() []string {
	makers := []func() table{
		overlapTable, freeTable,
		positionTable,
		rateTable, trafficTable, victimTable,
	}
	texts := make([]string, len(makers))
	var all sync.WaitGroup
	for i, made := range makers {
		all.Go(func() { texts[i] = made().String() })
	}
	all.Wait()
	return texts
}
