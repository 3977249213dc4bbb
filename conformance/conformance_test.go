package conformance

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
)

// Test runs every behaviour of every structure on every engine.
func Test(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			on := e.start(t)
			for _, s := range structures {
				t.Run(s.name, func(t *testing.T) {
					for _, b := range s.behaviours {
						t.Run(b.name, func(t *testing.T) { b.run(t, on) })
					}
				})
			}
		})
	}
}

// engines are the ways to run Redis.
var engines = []engine{serverEngine, sentinelEngine, clusterEngine, fleetEngine}

// structures are the structures that must behave alike on them.
var structures = []structure{
	{"ick", ickBehaviours},
	{"channel", channelBehaviours},
	{"queue", queueBehaviours},
	{"lease", leaseBehaviours},
	{"hashes", hashesBehaviours},
	{"keys", keysBehaviours},
	{"fetch", fetchBehaviours},
	{"tracker", trackerBehaviours},
	{"kept", keptBehaviours},
	{"registry", registryBehaviours},
	{"replicas", replicaBehaviours},
}

// engine is a way to run Redis.
type engine struct {
	name  string
	start func(t *testing.T) running
}

// running is an engine that runs. Behaviours use it one at a time.
type running interface {
	// client returns a new client, closed when the test ends.
	client(t *testing.T) rueidis.Client

	// homes is the number of servers that share the keys.
	homes() int

	// home says which of them holds a key now.
	home(key string) string

	// secure returns when a disturbance of the home of a key would lose nothing
	// that was acknowledged before secure was called.
	secure(key string)

	// disturb takes the home of a key away, and returns when the key has one that
	// takes writes again. All else finds that out by itself.
	disturb(key string)

	// mend restores the engine after a disturbance.
	mend()
}

// structure has behaviours that every engine must show.
type structure struct {
	name       string
	behaviours []behaviour
}

// behaviour is something that a structure does on every engine.
type behaviour struct {
	name string
	run  func(t *testing.T, on running)
}

// spread returns names of structures, each of the engine's servers being home to
// n of them.
func spread(t *testing.T, on running, n int) []string {
	t.Helper()
	var names []string
	have := map[string]int{}
	redistest.Eventually(t, "names are spread over all servers", func() bool {
		name := redistest.Name(t)
		if home := on.home(name); have[home] < n {
			have[home]++
			names = append(names, name)
		}
		return len(names) == n*on.homes()
	})
	return names
}

// must fails the test at once unless err is nil.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// retryTime is a little less than the five seconds for which a call is repeated
// before its caller hears of the trouble with a server.
const retryTime = 4 * time.Second

// pace is the rest between two calls of a structure's user in a storm. A storm
// lasts as long as servers take to come back, and with more calls shows no more.
const pace = 10 * time.Millisecond

// wantPatient checks that a call that began then did not fail too early.
func wantPatient(t *testing.T, what string, began time.Time, err error) {
	t.Helper()
	if took := time.Since(began); err != nil && took < retryTime {
		t.Errorf("%s = %v after %v, want it repeated for longer", what, err, took)
	}
}

// keysOf returns the keys with a structure's name in them, on all servers. A
// fleet's record of the structure's place stays until a call removes
// it.
func keysOf(t *testing.T, client rueidis.Client, name string) (keys []string) {
	t.Helper()
	for key, err := range script.Scan(t.Context(), client, "*"+name+"*") {
		must(t, "Scan", err)
		if !strings.HasPrefix(key, "mr:fleet:") {
			keys = append(keys, key)
		}
	}
	return keys
}

// want fails the test at once on an error, or unless got equals want.
func want(t *testing.T, what string, got, want any, err error) {
	t.Helper()
	must(t, what, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// calls is a hook that counts the script calls that were answered.
type calls struct {
	mu sync.Mutex
	by map[string]int
}

func (c *calls) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	return ctx, func(error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.by == nil {
			c.by = map[string]int{}
		}
		c.by[call.Script]++
	}
}

func (c *calls) of(script string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[script]
}
