package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestSlowVisits: visits that together take far longer than a slice do not keep others from
// their turn. With a cursor that moves only behind a whole page, the same 86 of these 1,000
// were visited again and again.
func TestSlowVisits(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	create(t, client, Queue, time.Now(), numbered(1000)...)
	var seen visits
	visitor := NewVisitor(client, Queue, func(ctx context.Context, name string) (bool, error) {
		seen.add(name)
		if !retry.Sleep(ctx, 5*time.Millisecond) {
			return false, context.Cause(ctx)
		}
		return false, nil
	})
	redistest.Eventually(t, "all are visited", func() bool { return seen.slice(t, visitor) == 1000 })
}

// TestVisitsThatHang: structures that never answer keep none of the others waiting, and
// are left alone for longer and longer.
func TestVisitsThatHang(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	create(t, client, Queue, time.Now(), numbered(200)...)
	hangs := func(name string) bool { return strings.HasSuffix(name, "3") }
	var answered, hung visits
	visitor := NewVisitor(client, Queue, func(ctx context.Context, name string) (bool, error) {
		if hangs(name) {
			hung.add(name)
			<-ctx.Done()
			return false, context.Cause(ctx)
		}
		answered.add(name)
		return false, nil
	})
	redistest.Eventually(t, "all that answer are visited", func() bool { return answered.slice(t, visitor) == 180 })
	began, before := time.Now(), maps.Clone(hung.of)
	for time.Since(began) < 300*time.Millisecond {
		answered.slice(t, visitor)
	}
	for name, n := range hung.of {
		if n > before[name]+1 {
			t.Errorf("%s, which does not answer, was visited %d times in 300 ms", name, n-before[name])
		}
	}
}

// TestSilentNode stops one of three masters: the structures on the others are listed and
// visited all the same, and the list ends with an error.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	for _, node := range cluster.Nodes {
		alone := node.Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
		must(t, alone, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	client := cluster.Client(t)
	names := numbered(300)
	create(t, client, Queue, time.Now(), names...)
	silent := cluster.Nodes[1]
	var there []string // whose entry and whose key are elsewhere
	inRegistry := 0
	for _, name := range names {
		if cluster.MasterOf(key(shardOf(field(Queue, name), parts))) == silent {
			continue
		}
		inRegistry++
		if cluster.MasterOf(Queue.keys(name)[0]) != silent {
			there = append(there, name)
		}
	}
	silent.Pause()
	defer silent.Resume()

	began := time.Now()
	list, err := listed(t.Context(), client, Queue)
	if took := time.Since(began); took > 3*listTimeout {
		t.Errorf("List took %v, want no more than two steps of %v", took, listTimeout)
	}
	if !errors.Is(err, millrace.ErrPartial) {
		t.Errorf("List = %v, want ErrPartial", err)
	}
	if len(list) != inRegistry {
		t.Errorf("List yields %d names, want the %d that are registered elsewhere", len(list), inRegistry)
	}

	run := script.Runner{Client: client, Scripts: library}
	var seen visits
	visitor := NewVisitor(client, Queue, func(ctx context.Context, name string) (bool, error) {
		_, err := run.Run(ctx, "there", Queue.keys(name)[0])
		if err == nil {
			seen.add(name)
		}
		return false, err
	})
	redistest.Eventually(t, "the structures of living nodes are visited", func() bool { return seen.slice(t, visitor) == len(there) })

	silent.Resume()
	redistest.Eventually(t, "all are listed again", func() bool {
		list, err := listed(t.Context(), client, Queue)
		return err == nil && len(list) == len(names)
	})
	redistest.Eventually(t, "all are visited again", func() bool { return seen.slice(t, visitor) == len(names) })
}

// TestPartThatFails: a part of the registry that fails is left alone for a while, and the
// others are gone round.
func TestPartThatFails(t *testing.T) {
	t.Parallel()
	server := own(t)
	client := server.Client(t)
	names := numbered(160)
	create(t, client, Queue, time.Now(), names...)
	must(t, client, "SET", key(3)+"x", "x")
	must(t, client, "RENAME", key(3)+"x", key(3))
	elsewhere := 0
	for _, name := range names {
		if shardOf(field(Queue, name), parts) != 3 {
			elsewhere++
		}
	}
	var seen visits
	visitor := NewVisitor(client, Queue, func(_ context.Context, name string) (bool, error) {
		seen.add(name)
		return false, nil
	})
	for range 50 {
		seen.slice(t, visitor)
	}
	redistest.Eventually(t, "all others are visited", func() bool { return seen.slice(t, visitor) == elsewhere })
	failed := 0
	stats := server.Info("commandstats")
	for _, command := range []string{"cmdstat_hlen", "cmdstat_hscan"} {
		_, text, _ := strings.Cut(stats[command], "failed_calls=")
		n, _ := strconv.Atoi(text)
		failed += n
	}
	if failed == 0 || failed > 10 {
		t.Errorf("the part that fails was asked %d times in 50 slices, want a few times", failed)
	}
}

// TestResumption: a visitor goes on where it stopped, so that all are visited once in a
// round, and begins the next one by itself.
func TestResumption(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	names := numbered(1000)
	create(t, client, Queue, time.Now(), names...)
	create(t, client, Tracker, time.Now(), numbered(100)...) // which this visitor must not visit
	for round := range 2 {
		var seen visits
		visitor := NewVisitor(client, Queue, func(_ context.Context, name string) (bool, error) {
			seen.add(name)
			return true, nil
		})
		for i := range 2 * len(names) / visitsAtOnce {
			progress, err := visitor.Slice(t.Context())
			want := millrace.More
			if i%(len(names)/visitsAtOnce) == len(names)/visitsAtOnce-1 {
				want = millrace.Worked // nothing is left in this round
			}
			if err != nil || progress != want {
				t.Errorf("slice %d = %v, %v, want %v", i, progress, err, want)
			}
		}
		for _, name := range names {
			if seen.of[name] != 2 {
				t.Errorf("round %d: %s was visited %d times in two rounds", round, name, seen.of[name])
			}
		}
	}
}

// TestRandomStart: visitors of several processes begin at different places, so that the last
// structures have their turn although each process ends soon; also in a shard of many steps.
func TestRandomStart(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	names := numbered(20_000) // 1,250 in a shard, which are five steps
	create(t, client, Queue, time.Now(), names...)
	var first []string
	seen := map[string]bool{}
	for range 20 {
		var mine visits
		visitor := NewVisitor(client, Queue, func(_ context.Context, name string) (bool, error) {
			mine.add(name)
			return false, nil
		})
		for len(mine.in) == 0 { // a busy machine may have no time left for a visit
			if _, err := visitor.Slice(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		first = append(first, mine.in[0])
		for _, e := range visitor.todo { // the next ones
			seen[e.field] = true
		}
	}
	slices.Sort(first)
	if len(slices.Compact(first)) < 15 {
		t.Errorf("20 visitors begin at only a few places: %v", first)
	}
	if len(seen) < 15_000 {
		t.Errorf("20 short lives would visit %d of 20,000 structures, want most of them", len(seen))
	}
}

// TestVisitorErrors: slices whose visits fail or whose servers are gone.
func TestVisitorErrors(t *testing.T) {
	t.Parallel()
	server := own(t)
	client := server.Client(t)
	create(t, client, Queue, time.Now(), "a")
	why := errors.New("why")
	fails := NewVisitor(client, Queue, func(context.Context, string) (bool, error) { return true, why })
	if progress, err := fails.Slice(t.Context()); progress != millrace.Idle || err != nil {
		t.Errorf("a visit that fails: %v, %v, want idle and no error", progress, err)
	}
	crashes := NewVisitor(client, Queue, func(context.Context, string) (bool, error) { panic("crash") })
	func() {
		defer func() {
			if v := fmt.Sprint(recover()); !strings.Contains(v, "crash") {
				t.Errorf("a visit that panics: %s, want it to reach the slice's caller", v)
			}
		}()
		_, _ = crashes.Slice(t.Context())
		t.Error("a visit that panics does not")
	}()

	gone := NewVisitor(client, Queue, func(context.Context, string) (bool, error) { return false, nil })
	server.Kill()
	for range 3 { // also while all shards are left alone
		ctx, cancel := script.Within(t.Context(), 25*time.Millisecond)
		if _, err := gone.Slice(ctx); err == nil {
			t.Error("a slice without a server = nil, want an error")
		}
		cancel()
	}
	server.Restart()
	redistest.Eventually(t, "slices run again", func() bool {
		_, err := gone.Slice(t.Context())
		return err == nil
	})
}

// TestCancelledSlice: a visit that fails because its slice was cancelled causes no backoff.
func TestCancelledSlice(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	create(t, client, Queue, time.Now(), "a")
	n, leave := 0, func() {}
	visitor := NewVisitor(client, Queue, func(ctx context.Context, _ string) (bool, error) {
		n++
		leave()
		return false, ctx.Err()
	})
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		leave = cancel
		_, _ = visitor.Slice(ctx)
		cancel()
	}
	if n != 2 {
		t.Errorf("%d visits, want one in each slice", n)
	}
}
