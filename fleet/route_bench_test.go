package fleet

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/ring"
)

// offline is a fleet of 160 partitions that is not connected to anything.
func offline(t testing.TB) *Fleet {
	t.Helper()
	r, err := ring.New(slices.Repeat([]int{1}, 160)...)
	if err != nil {
		t.Fatal(err)
	}
	m := &directory.Map{Version: 1, Epoch: 1, Points: r.Points()}
	v := &view{m: m, ring: r, viewTTL: int64(time.Hour), replyTimeout: int64(time.Second)}
	f := &Fleet{start: time.Now(), places: newCache(1 << 17)}
	for i := range 160 {
		v.partitions = append(v.partitions, &partition{Partition: &directory.Partition{ID: i}, f: f, v: v})
	}
	f.view.Store(v)
	return f
}

// words are commands as structures send them, for tags whose place is known.
func words(f *Fleet, n int) [][]string {
	list := make([][]string, n)
	for i := range list {
		tag := fmt.Sprintf("user:%d@example.com", i)
		position := ring.Position(tag)
		owner := f.view.Load().ring.Owner(position)
		f.places.put(tag, &placement{home: owner, via: owner, until: int64(time.Hour), position: position})
		list[i] = []string{"EVALSHA", "cbf2f6b6b1a0f2d0e0f3f4a5b6c7d8e9f0a1b2c3", "1", "mr:queue:{" + tag + "}", "argument"}
	}
	return list
}

// BenchmarkRoute finds the partition of a command whose tag's place is known: the
// tag, whether the caller may write, and the place.
func BenchmarkRoute(b *testing.B) {
	f := offline(b)
	by := &client{f: f, partition: anyPartition}
	list := words(f, 10_000)
	ctx := context.Background()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tag, err := by.tag(list[i%len(list)])
		if err != nil {
			b.Fatal(err)
		}
		if t, err := by.locateOne(ctx, tag, true); err != nil || t.p == nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRouteHot is the same for few tags, which stay in the processor's cache.
func BenchmarkRouteHot(b *testing.B) {
	f := offline(b)
	by := &client{f: f, partition: anyPartition}
	list := words(f, 16)
	ctx := context.Background()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tag, _ := by.tag(list[i%len(list)])
		if _, err := by.locateOne(ctx, tag, true); err != nil {
			b.Fatal(err)
		}
	}
}

func TestARouteAllocatesNothing(t *testing.T) {
	f := offline(t)
	by := &client{f: f, partition: anyPartition}
	list := words(f, 100)
	got := testing.AllocsPerRun(100, func() {
		for _, w := range list {
			tag, err := by.tag(w)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := by.locateOne(t.Context(), tag, true); err != nil {
				t.Fatal(err)
			}
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

// BenchmarkLookUp is the part of it that is not the clock's: the tag of a command,
// and the partition that has it.
func BenchmarkLookUp(b *testing.B) {
	f := offline(b)
	list := words(f, 10_000)
	v := f.view.Load()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tag, err := tagOf(list[i%len(list)])
		if place := f.places.get(tag); err != nil || !place.holds(v, 0) {
			b.Fatal(tag, err)
		}
	}
}

// BenchmarkClock measures a reading of the clock, which the fence takes.
func BenchmarkClock(b *testing.B) {
	f := offline(b)
	for b.Loop() {
		_ = f.now()
	}
}
