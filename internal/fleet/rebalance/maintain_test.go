package rebalance

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestMaintain: a call is killed while writers for its tag wait, or its caller goes. Maintain
// completes it, and leaves running calls alone.
func TestMaintain(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"killed": errKilled, "interrupted": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{})
			tag := tf.place(0, 0, "a")
			ctx, cancel := context.WithCancel(t.Context())
			tending := impatient(tf.mover(Config{Moves: tf.dir}))
			waitless := tending.step
			rounds := make(chan struct{})
			tending.step = func(step, tag string, do func() error) error {
				if step != "tend" {
					return waitless(step, tag, do)
				}
				select {
				case rounds <- struct{}{}:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			var running sync.WaitGroup
			running.Go(func() {
				if err := tending.Maintain(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("Maintain = %v, want that it was cancelled", err)
				}
			})
			t.Cleanup(func() { cancel(); running.Wait() })

			calling, goes := context.WithCancel(ctx)
			defer goes()
			reached, dead := false, false
			k := &killer{fails: func(int) bool { return dead }}
			mover := interrupt(tf.mover(Config{Moves: tf.dir}), func(step, tag string) error {
				if step == "restore" && !reached {
					reached = true
					// No round finishes a call that goes on: two rounds begin, so one has ended.
					<-rounds
					<-rounds
					if text := tf.records(tag)[0]; !strings.Contains(text, "!") {
						t.Errorf("the record of a tag that is being moved is %q", text)
					}
					if dead = name == "killed"; !dead {
						goes()
					}
				}
				return k.before(step, tag)
			})
			if _, err := mover.Move(calling, 1, tag); !errors.Is(err, want) {
				t.Fatalf("Move = %v, want %v", err, want)
			}
			redistest.Eventually(t, "the tag is in one place, without marks", func() bool {
				<-rounds
				return !strings.Contains(strings.Join(tf.records(tag), ""), " ")
			})
			tf.wantHome(tf.open(), tag, 1)
			tf.wantWrite("afterwards", tag)
		})
	}
}

func TestMaintainNeedsMoves(t *testing.T) {
	t.Parallel()
	wantError(t, (&Mover{}).Maintain(t.Context()), millrace.ErrBadArgument)
}
