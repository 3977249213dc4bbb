package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/screen"
)

// scene is one structure's story.
type scene struct {
	name  string // the structure's
	shows string // what there is to see, one sentence without a final stop

	load    time.Duration // how long it makes load, unless the demo is told otherwise
	private bool          // it leaves the demo's server alone: it starts one of its own

	// play makes the load, waits until it is worked off, checks, and deletes
	// what it wrote, whatever happens. Its result has figures, checks and
	// failures, or why it was skipped; an error means that there is none.
	play func(context.Context, *stage) (Scene, error)

	// child is what the scene's child processes do until their context ends; nil for
	// a scene that has none.
	child func(context.Context, part) error
}

// scenes returns all scenes in the order in which they are played.
func scenes() []scene {
	return []scene{ickScene(), stealScene(), expiryScene(), leaseScene(), queueScene(), scatterScene(), fleetScene(), failoverScene()}
}

// run plays the scene, with progress on the screen.
func (s scene) run(ctx context.Context, st *stage) (Scene, error) {
	st.screen.Say("\n%s: %s", s.name, s.shows)
	if !s.private {
		st.screen.Say("  (under the name %s)", st.name)
	}
	st.screen.Begin()
	defer st.screen.Wipe()
	seen, err := s.play(ctx, st)
	if seen.Skipped != "" {
		st.screen.Say("  skipped: %s", seen.Skipped)
	}
	seen.Name, seen.Shows = s.name, s.shows
	seen.OK = !slices.ContainsFunc(seen.Checks, func(c Check) bool { return !c.OK })
	return seen, err
}

// stage is what a scene plays on.
type stage struct {
	client   rueidis.Client
	redis    string        // the server's address, for children
	mimic    bool          // the server is an imitation
	name     string        // random, for the structure and the keys around it
	duration time.Duration // of the load
	screen   *screen.Screen
	child    []string               // the command that starts a child
	find     func() (string, error) // the server binary, or redisproc.ErrNotFound
}

// crew returns a crew without members.
func (st *stage) crew(heard func(line []byte), lost func(error)) *crew {
	return &crew{
		command: st.child,
		task:    task{Redis: st.redis, Name: st.name},
		heard:   heard,
		lost:    lost,
	}
}

// silence is how long a server may take to answer a call of the clean-up when the demo
// was cancelled.
const silence = 3 * time.Second

// cleanUp deletes what the scene wrote, which a cancel does not end: each remove says how
// many keys it deleted. A child that was killed may have left a command on its way, so
// each is called again until nothing is there.
func (st *stage) cleanUp(ctx context.Context, removes ...func(context.Context) (int64, error)) error {
	for _, remove := range removes {
		for {
			n, err := removeOnce(ctx, remove)
			if err != nil {
				return fmt.Errorf("keys under %s could not be deleted and are left: %w", st.name, err)
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

func removeOnce(ctx context.Context, remove func(context.Context) (int64, error)) (int64, error) {
	ctx, cancel := outlive(ctx, silence)
	defer cancel()
	return remove(ctx)
}

// outlive returns a context that ends some time after another one has.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(by, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// unlink deletes keys, which share a hash tag, and returns how many there were.
func (st *stage) unlink(ctx context.Context, keys ...string) (int64, error) {
	return st.client.Do(ctx, st.client.B().Unlink().Key(keys...).Build()).AsInt64()
}
