// Package demo has the scenes of "millrace demo": each structure under a realistic load,
// with the accidents that it is built for, and checks of its promises.
//
//	scene     workers        accident                       promise
//	queue     consumers      a flood, a slow tenant, kills  the others do not wait
//	ick       consumers      kills                          no change is forgotten
//	steal     web processes  kills, then no requests        upkeep is done, garbage is bounded
//	expiry    readers        fields expire, kills           fields live exactly as long as they should
//	lease     a rival        memory is full                 no lease gets a second holder
//	scatter   none           lost replies, a server dies    counts are exact, gaps are reported
//	fleet     none           a partition is added           no data moves, nothing is lost
//	failover  none           a master dies, one hangs       confirmed writes survive
//
// A new scene is a file with a function that returns a [chaos.Scene], and a line in
// [Scenes]. All scenes together take at most 45 seconds.
package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/chaos"
)

// Scenes returns all scenes in the order in which they play.
func Scenes() []chaos.Scene {
	return []chaos.Scene{queueScene(), ickScene(), stealScene(), expiryScene(), leaseScene(), scatterScene(), fleetScene(), failoverScene()}
}

// Names returns the names of all scenes.
func Names() (names []string) {
	for _, s := range Scenes() {
		names = append(names, s.Name)
	}
	return names
}

// All stands for all scenes.
const All = "all"

// Choose returns the scenes with these names: that of the queue without a name, all scenes for [All].
func Choose(names ...string) ([]chaos.Scene, error) {
	switch {
	case len(names) == 0:
		return Scenes()[:1], nil
	case slices.Contains(names, All):
		return Scenes(), nil
	}
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("there is no scene %q; the scenes are %s, or %s", name, strings.Join(Names(), ", "), All)
		}
	}
	return slices.DeleteFunc(Scenes(), func(s chaos.Scene) bool { return !slices.Contains(names, s.Name) }), nil
}
