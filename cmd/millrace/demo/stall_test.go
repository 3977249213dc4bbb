package demo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestStalledWhenNothingChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s stall[int]
		for _, step := range []struct {
			after time.Duration
			seen  int
			want  bool
		}{
			{0, 9, false},
			{drainTimeout - 1, 9, false},
			{1, 8, false},
			{drainTimeout - 1, 8, false},
			{1, 8, true},
			{0, 7, false},
		} {
			<-time.After(step.after)
			if got := s.lasts(step.seen); got != step.want {
				t.Errorf("lasts(%d) after another %s = %v, want %v", step.seen, step.after, got, step.want)
			}
		}
	})
}

func TestOutliveEndsSomeTimeAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		longer, cancel := outlive(ctx, time.Second)
		defer cancel()
		for _, step := range []struct {
			after time.Duration
			do    func()
			ended bool
		}{
			{time.Hour, end, false},
			{time.Second - 1, func() {}, false},
			{1, func() {}, true},
		} {
			<-time.After(step.after)
			synctest.Wait()
			if got := longer.Err() != nil; got != step.ended {
				t.Errorf("after another %s it has ended: %v, want %v", step.after, got, step.ended)
			}
			step.do()
		}
	})
}
