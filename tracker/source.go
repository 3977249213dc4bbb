package tracker

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"
)

// Source is the table that a tracker follows. Each row may be a piece of work queued for an
// identifier; several rows may have the same one, and work may move between them. [SQL] makes a
// source of a database table.
//
// Both methods must see everything committed before the call. If a source lags behind, every
// bound of this package is longer by its lag, and [Config.Grace] must be longer than the lag.
// Several goroutines call them at once.
type Source interface {
	// Rows reads the next rows behind a cursor, at most about limit, in the order of their
	// identifiers, which never changes, and returns the identifiers that have work queued. A
	// page ends after limit rows, with work or not, so that no call reads more however rare
	// work is. It looks at all rows of each of its identifiers at one moment, also of the
	// last one: the next page begins with another. So work that moves to another row is not
	// missed. The empty cursor is before the first row.
	Rows(ctx context.Context, after string, limit int) (Page, error)

	// Pending returns those of the identifiers that have work queued, in any order and as
	// they are spelled here. There are at most [MaxIDs].
	Pending(ctx context.Context, ids []string) ([]string, error)
}

// Page has the rows that a source read.
type Page struct {
	// IDs are the identifiers with work queued, at most [MaxIDs]. They may repeat. A source
	// that finds more ends its page sooner.
	IDs []string

	// Next is the cursor behind the last identifier: a text of the source's own, not empty,
	// at most 4,096 bytes, stored in Redis. It is empty when no row follows: then the pass
	// over the table is complete.
	Next string

	// Looked is the number of rows read. It is for progress reports only.
	Looked int
}

const maxCursor = 4096 // bytes

// checkPage refuses a page with which a pass would not end, or whose call would be too large.
func checkPage(p Page, after string) error {
	switch {
	case len(p.IDs) > MaxIDs:
		return ErrSource.Errorf("the source returned %d identifiers, more than %d", len(p.IDs), MaxIDs)
	case p.Next != "" && p.Next == after:
		return ErrSource.Errorf("the source read no row behind the cursor %q, and does not report the end", after)
	case len(p.Next) > maxCursor:
		return ErrSource.Errorf("the source returned a cursor of %d bytes, more than %d", len(p.Next), maxCursor)
	}
	return nil
}

// pace adapts the size of a slice to a slow source, so that slices end within their budget:
// half the size after a call that failed or took half of the budget, twice the size after a
// call that took less than a quarter. Each process adapts by itself.
type pace struct {
	n      atomic.Int64 // 0 for the maximum
	warned atomic.Bool
}

// size returns how much to ask for, up to most.
func (p *pace) size(most int) int {
	if n := int(p.n.Load()); n > 0 {
		return min(n, most)
	}
	return most
}

// learn adapts the size to a call for n that began at a time.
func (p *pace) learn(ctx context.Context, began time.Time, n, most int, err error) {
	took, budget := time.Since(began), time.Duration(math.MaxInt64)
	if end, ok := ctx.Deadline(); ok {
		budget = end.Sub(began)
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the caller did not wait for the end
	case err != nil || took > budget/2:
		p.n.Store(int64(max(1, n/2)))
	case took < budget/4 && 2*n < most:
		p.n.CompareAndSwap(int64(n), int64(2*n))
	case took < budget/4:
		p.n.Store(0)
	}
	if err == nil {
		p.warned.Store(false)
	}
}

// stuck reports, once until a call succeeds, that a call for a single row or identifier
// exceeded the budget: smaller ones are impossible.
func (p *pace) stuck(ctx context.Context, n int) bool {
	return n == 1 && errors.Is(ctx.Err(), context.DeadlineExceeded) && !p.warned.Swap(true)
}
