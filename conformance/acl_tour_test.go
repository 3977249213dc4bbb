package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
)

// tour is a walk through everything that programs do with Redis: each stop is a
// piece of one structure's life. A stop stands alone, so that a test can run it
// without a permission.
var tour = []stop{
	{name: "ick", walk: walkIck, of: []string{"an Ick"}},
	{name: "ick consumer", walk: walkIckConsumer, of: []string{"an Ick"}},
	{name: "channel", walk: walkChannel, of: []string{"a channel's Icks"}},
	{name: "queue", walk: walkQueue},
	{name: "tenants", walk: walkTenants},
	{name: "queue reader", walk: walkQueueReader},
	{name: "queue upkeep", walk: walkQueueUpkeep},
	{name: "legacy stream", walk: walkLegacy, of: []string{"a stream that a queue replaces"}},
	{name: "shuffle queue", walk: walkShuffle, of: []string{"a shuffle queue that a queue replaces"}},
	{name: "lease", walk: walkLease},
	{name: "hashes", walk: walkHashes},
	{name: "hashes upkeep", walk: walkHashesUpkeep},
	{name: "keys", walk: walkKeys},
	{name: "fetch", walk: walkFetch},
	{name: "tracker", walk: walkTracker},
	{name: "counters", walk: walkCounters, of: []string{"a counter, set or list"}},
	{name: "totals", walk: walkTotals},
	{name: "doctor", walk: walkDoctor, may: dispensableToDoctor},
	{name: "doctor --scan", walk: walkScan, may: dispensableToDoctor},
	{name: "survey", walk: walkSurvey},
	{name: "idle connection", walk: walkIdle},
	{name: "a wait that is given up", walk: walkGivenUp},
}

// dispensableToDoctor are the commands without which the doctor says "unknown" or "refused".
var dispensableToDoctor = []string{"config|get", "config", "slowlog|get", "slowlog"}

type stop struct {
	name string
	walk func(w *walker)
	of   []string // its structures without keys of Millrace's own, by the page's table
	may  []string // commands without which it gets by
}

// walker goes to one stop.
type walker struct {
	context.Context

	client rueidis.Client // of the server
	other  rueidis.Client // of another server, where a stop needs two
	admin  *walker        // may do everything
	dial   func(change func(*rueidis.ClientOption)) rueidis.Client
	name   string // for the structures of the stop
	err    error
}

// visit goes to a stop and returns its error.
func (w *walker) visit(s stop) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.walk(w)
	}()
	<-done
	return errors.Join(w.err, w.admin.err)
}

// must ends the visit unless err is nil.
func (w *walker) must(what string, err error) {
	if err != nil {
		w.err = fmt.Errorf("%s: %w", what, err)
		runtime.Goexit()
	}
}

// fails ends the visit unless err is a certain one.
func (w *walker) fails(what string, err, with error) {
	if !errors.Is(err, with) {
		w.must(what, fmt.Errorf("want the error %w, not: %w", with, errors.Join(err)))
	}
}

// others runs a command of other programs, or of the operator, on the server.
func (w *walker) others(words ...string) rueidis.RedisResult {
	c := w.admin.client
	return c.Do(w, c.B().Arbitrary(words...).Build())
}

// did is others for a command that must succeed.
func (w *walker) did(words ...string) {
	w.must(words[0], w.others(words...).Error())
}

// until repeats something until it is so.
func (w *walker) until(what string, so func() (bool, error)) {
	for {
		ok, err := so()
		w.must(what, err)
		if ok {
			return
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-w.Done():
			w.must(what, context.Cause(w))
		}
	}
}

// work does slices of a job until one finds work.
func (w *walker) work(job millrace.Job) {
	w.until(job.Name, func() (bool, error) {
		progress, err := job.Slice(w)
		return progress != millrace.Idle, err
	})
}

// consume runs a consumer until meanwhile has returned.
func (w *walker) consume(run func(ctx context.Context) error, meanwhile func()) {
	ctx, cancel := context.WithCancel(w)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	meanwhile()
}

// found goes through a list and says whether a name is in it.
func (w *walker) found(what, name string, list iter.Seq2[string, error]) {
	if w.admin != nil { // which may have made it just now
		registry.Settle(w, w.admin.client)
	}
	seen := false
	for one, err := range list {
		w.must(what, err)
		seen = seen || one == name
	}
	if !seen {
		w.must(what, fmt.Errorf("%s is not listed", name))
	}
}
