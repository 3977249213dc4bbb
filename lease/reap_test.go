package lease

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// TestReapJob removes the abandoned leases among others, in bounded slices.
func TestReapJob(t *testing.T) {
	t.Parallel()
	l := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), Config{})
	const each = 300
	for i := range each {
		abandoned, held, expired := fmt.Sprint("abandoned", i), fmt.Sprint("held", i), fmt.Sprint("expired", i)
		for _, name := range []string{abandoned, held, expired} {
			acquire(t, l, name, long)
		}
		abandon(t, l, abandoned)
		pass(t, l, expired)
	}
	released := acquire(t, l, "released", long)
	if err := released.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, l.run.Client, "SET", baseKey("foreign"), "x")
	job := l.ReapJob()
	keys := func() int64 { return integer(t, l.run.Client, "DBSIZE") }
	before, slices := keys(), 0
	found := map[millrace.Progress]int{}
	for goal := before - each; keys() > goal && slices < 100; slices++ {
		had := keys()
		progress, err := job.Slice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found[progress]++
		if reaped := had - keys(); reaped > 2*reapScan || (reaped > 0) == (progress == millrace.Idle) {
			t.Errorf("a slice reaped %d and says %v", reaped, progress)
		}
	}
	if got := before - keys(); got != each || slices < 3 {
		t.Errorf("%d slices reaped %d, want %d in several", slices, got, each)
	}
	if found[millrace.Full] == 0 {
		t.Errorf("slices = %v, want some full", found)
	}
	for range 10 {
		if progress, err := job.Slice(t.Context()); err != nil || progress != millrace.Idle {
			t.Errorf("slice with nothing left = %v, %v, want idle", progress, err)
		}
	}
	if !exists(t, l, "held0") || !exists(t, l, "expired0") || !exists(t, l, "released") || !exists(t, l, "foreign") {
		t.Error("reaped too much")
	}
}
