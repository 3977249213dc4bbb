package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
)

// drill is a fleet in use.
type drill struct {
	shell

	fleet *fleet.Fleet

	mu        sync.Mutex
	confirmed map[string][]string // the writes that were confirmed, by tag
}

// dial opens the fleet anew, and closes the one that was open.
func (d *drill) dial() {
	d.t.Helper()
	if d.fleet != nil {
		d.fleet.Close()
	}
	f, err := fleet.Dial(d.t.Context(), d.url, fleet.Config{WaitReplicas: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.fleet = f
	d.t.Cleanup(f.Close)
}

// write adds numbers to the sets of its tags until ctx ends, and remembers those that a
// replica has confirmed.
func (d *drill) write(ctx context.Context, c rueidis.Client, writer int) {
	pace := time.NewTicker(5 * time.Millisecond) // leaves the CPUs to others
	defer pace.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-pace.C
		tag, number := fmt.Sprint("user:", 25*writer+i%25), strconv.Itoa(i)
		if c.Do(ctx, c.B().Sadd().Key("{"+tag+"}").Member(number).Build()).Error() == nil {
			d.mu.Lock()
			d.confirmed[tag] = append(d.confirmed[tag], number)
			d.mu.Unlock()
		}
	}
}

// underLoad does something while writers write.
func (d *drill) underLoad(do func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	c, writers := d.fleet.Client(), sync.WaitGroup{}
	for w := range 4 {
		writers.Go(func() { d.write(ctx, c, w) })
	}
	do()
	cancel()
	writers.Wait()
}

// wants fails if anything is missing that was confirmed.
func (d *drill) wants(after string) {
	d.t.Helper()
	c, all := d.fleet.Client(), 0
	for tag, numbers := range d.confirmed {
		has, err := c.Do(d.t.Context(), c.B().Smismember().Key("{"+tag+"}").Member(numbers...).Build()).AsIntSlice()
		if err != nil {
			d.t.Fatalf("after %s: %v", after, err)
		}
		for i, there := range has {
			if all++; there != 1 {
				d.t.Errorf("after %s the tag %s lacks %s, which was confirmed", after, tag, numbers[i])
			}
		}
	}
	if all == 0 {
		d.t.Errorf("before the end of %s nothing was written", after)
	}
}

// isGreen waits until fleet check has nothing to say.
func (d *drill) isGreen() {
	d.t.Helper()
	var got outcome
	defer func() {
		if got.code != 0 {
			d.t.Log(got.stdout, got.stderr)
		}
	}()
	redistest.Eventually(d.t, "the check is green", func() bool {
		got = d.run("fleet", "check", "--all")
		return got.code == 0
	})
}

// tagsOf returns the tags that were written and are on a partition.
func (d *drill) tagsOf(partition int) (tags []string) {
	d.t.Helper()
	d.mu.Lock()
	all := slices.Collect(maps.Keys(d.confirmed))
	d.mu.Unlock()
	for _, tag := range all {
		if answer[fleet.Location](d.shell, "fleet", "locate", tag).Partition == partition {
			tags = append(tags, tag)
		}
	}
	if len(tags) == 0 {
		d.t.Fatalf("no tag is on partition %d", partition)
	}
	return tags
}

// marks waits until a consumer of the Ick got these tags, to bring them in line again.
func (d *drill) marks(name string, tags []string) {
	d.t.Helper()
	missing := map[string]bool{}
	for _, tag := range tags {
		missing[tag] = true
	}
	marks, err := ick.New(d.fleet.Client(), name, ick.Config{})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	_ = marks.Consume(ctx, ick.ConsumeConfig{}, func(_ context.Context, batch []ick.Entry) error {
		for _, mark := range batch {
			delete(missing, mark.Member)
		}
		if len(missing) == 0 {
			cancel()
		}
		return nil
	})
	if len(missing) > 0 {
		d.t.Errorf("%v are not marked", slices.Collect(maps.Keys(missing)))
	}
}
