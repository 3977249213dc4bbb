package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// keptBehaviours are those of all structures that keep something for a time or in
// step with something else, and that a program may well use together.
var keptBehaviours = []behaviour{
	{"a storm ends nothing early, shows nothing late and fails no caller", keptStorm},
}

// load is how one structure is used while a server is taken away.
type load interface {
	// begin starts the load, which goes on until ctx ends.
	begin(ctx context.Context, working *sync.WaitGroup)

	// goesOn returns a function that reports whether the load has gone on since.
	goesOn() func() bool

	// check looks, when all has ended, whether all is right.
	check()
}

// keptStorm takes the server of a tracker away, where shards of the other
// structures lie, too. It is one storm for all of them since a storm takes seconds.
func keptStorm(t *testing.T, on running) {
	name := redistest.Name(t)
	var now storm
	loads := []load{
		newShelf(t, &now, fields{openHashes(t, on.client(t), name)}, fields{openHashes(t, on.client(t), name)}),
		newShelf(t, &now, values{openKeys(t, on.client(t), name)}, values{openKeys(t, on.client(t), name)}),
		newKitchen(t, on, &now),
		newOffice(t, on, &now, name),
	}
	victim := "mr:tracker:{" + name + "}"
	t.Cleanup(on.mend) // should the test end before it does so itself

	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	t.Cleanup(working.Wait)
	t.Cleanup(stop)
	for _, l := range loads {
		l.begin(ctx, &working)
	}
	flow := func(what string) {
		t.Helper()
		for _, l := range loads {
			redistest.Eventually(t, fmt.Sprintf("%s: %T goes on", what, l), l.goesOn())
		}
	}
	flow("before the disturbance")
	now.Store(inStorm)
	on.secure(victim)
	on.disturb(victim)
	now.Store(afterStorm)
	flow("after the disturbance")
	on.mend()
	flow("after all servers are back")
	stop()
	working.Wait()
	for _, l := range loads {
		l.check()
	}
}
