package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/screen"
	"github.com/millrace/millrace/scatter"
)

const (
	// leaving is the server that is left.
	leaving = shards - 1

	// visitsEach is how many sessions each server gets at first.
	visitsEach = 5
)

// visit lasts long enough to be read, and not much longer.
var visit = scatter.Bucket{Every: time.Second, Keep: time.Second}

// leave drains a server: it gets no more sessions, and is empty when its time bucket has
// ended.
func (p *scatterPlay) leave(ctx context.Context) error {
	cfg := scatter.Config{Group: "visits", Shard: scatter.RoundRobin()}
	all, err := scatter.New(p.list(-1), cfg)
	if err != nil {
		return err
	}
	defer all.Close()
	fewer, err := scatter.New(p.list(leaving), cfg)
	if err != nil {
		return err
	}
	defer fewer.Close()
	for i, sc := range []*scatter.Scatter{all, fewer} {
		for range visitsEach * (shards - i) {
			s := sc.Session("")
			s.In(visit).Add("visits", 1)
			if err := p.flush(ctx, s); err != nil {
				return fmt.Errorf("count a visit: %w", err)
			}
		}
	}
	began := time.Now()
	for stalled := (stall[bool]{}); ; {
		p.left, err = fewer.Left(ctx)
		if err != nil && !errors.Is(err, millrace.ErrPartial) {
			return err
		}
		p.screen.Show(screen.Frame{
			Title: "scatter", Done: min(time.Since(began), visit.Every+visit.Keep), Whole: visit.Every + visit.Keep,
			Rows: [][]string{{fmt.Sprintf("server %d is drained", leaving), "it is read until its time bucket has ended"}},
		})
		if err == nil && p.left[leaving].Empty || stalled.lasts(true) {
			return err
		}
		if !retry.Sleep(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// judgeLeaving says whether the server that is drained got no more sessions, and is empty.
func (p *scatterPlay) judgeLeaving(seen *Scene) {
	var flushes []int64
	for _, l := range p.left {
		flushes = append(flushes, l.Flushes)
	}
	sound := len(flushes) == shards && p.left[leaving].Empty
	for i, n := range flushes {
		least := int64(visitsEach)
		if i != leaving {
			least += visitsEach
		}
		sound = sound && n == least
	}
	seen.check("server_is_left", sound,
		"a server that was drained got none of %d further sessions, and is empty when its time bucket has ended", visitsEach*(shards-1))
}
