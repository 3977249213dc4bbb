package tracker

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"
)

// pace is how much a slice asks the source for at once. What takes too long is asked for
// in smaller pieces, so that slices end within their budget and get somewhere: half of it
// after a call that failed or took half of its time, and twice as much after one that took
// less than a quarter. Each process finds out by itself.
type pace struct {
	n atomic.Int64 // 0 for as much as is allowed
}

// size returns how much to ask for, of what is allowed at most.
func (p *pace) size(most int) int {
	if n := int(p.n.Load()); n > 0 {
		return min(n, most)
	}
	return most
}

// learn is told what became of a call for n, which began at a time.
func (p *pace) learn(ctx context.Context, began time.Time, n, most int, err error) {
	took, left := time.Since(began), time.Duration(math.MaxInt64)
	if end, ok := ctx.Deadline(); ok {
		left = end.Sub(began)
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // nobody waited for the end
	case err != nil || took > left/2:
		p.n.Store(int64(max(1, n/2)))
	case took < left/4 && 2*n < most:
		p.n.CompareAndSwap(int64(n), int64(2*n))
	case took < left/4:
		p.n.Store(0)
	}
}
