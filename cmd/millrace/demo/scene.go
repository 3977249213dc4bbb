package demo

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// scene is one structure's story.
type scene struct {
	name  string // the structure's
	shows string // what there is to see, one sentence without a final stop

	// play makes the load, waits until it is worked off, checks, and deletes
	// what it wrote, whatever happens. Its result has figures, checks and
	// failures; an error means that there is none.
	play func(context.Context, *stage) (Scene, error)

	// child is what the scene's child processes do until their context ends.
	child func(context.Context, part) error
}

// scenes returns all scenes in the order in which they are played.
func scenes() []scene {
	return []scene{ickScene()}
}

// run plays the scene, with progress on the screen.
func (s scene) run(ctx context.Context, st *stage) (Scene, error) {
	st.screen.say("\n%s: %s\n  (under the name %s)", s.name, s.shows, st.name)
	st.screen.begin()
	defer st.screen.wipe()
	seen, err := s.play(ctx, st)
	seen.Name, seen.Shows = s.name, s.shows
	seen.OK = !slices.ContainsFunc(seen.Checks, func(c Check) bool { return !c.OK })
	return seen, err
}

// stage is what a scene plays on.
type stage struct {
	client   rueidis.Client
	redis    string        // the server's address, for children
	name     string        // random, for the structure and the keys around it
	duration time.Duration // of the load
	screen   *screen
	child    []string // the command that starts a child
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
