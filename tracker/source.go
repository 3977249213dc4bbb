package tracker

import "context"

// Source is the truth that a tracker follows: a table in which a row may be a piece of
// work that is queued for an identifier. Several rows may have the same one. [SQL]
// makes one of a table in a database.
//
// Both methods must see everything that was committed before they were called; of
// a source that lags behind, every bound that this package promises is longer by
// its lag, and [Config.Grace] must be longer than it. They are called from
// several goroutines at once.
type Source interface {
	// Rows looks at the next rows behind a cursor, at most limit, in the order of a key
	// that is unique and never changes, and tells which identifiers have work queued
	// there. A page ends after so many rows whether they have work or not: so a call
	// never reads more than limit rows, however rare those with work are. The empty
	// cursor is before the first row.
	Rows(ctx context.Context, after Cursor, limit int) (Page, error)

	// Pending returns those of the identifiers that have work queued, in any order.
	// There are at most [MaxIDs].
	Pending(ctx context.Context, ids []string) ([]string, error)
}

// Page is what a source found in the rows that it looked at.
type Page struct {
	// IDs are the identifiers of the rows with work queued, at most [MaxIDs]. They may
	// repeat. A source that finds more ends its page sooner.
	IDs []string

	// Next is the place of the last row that was looked at. It is empty when no row is
	// behind it: then the pass over the table is complete.
	Next Cursor

	// Looked is how many rows were looked at. It serves for progress only.
	Looked int
}

// Cursor is a place in the order of a source's key, in a form of the source's
// own: not empty, at most 4,096 bytes. It is kept in Redis.
type Cursor string

// maxCursor is the longest cursor in bytes.
const maxCursor = 4096

// checkPage refuses a page with which a pass would not end, or a call would be too large.
func checkPage(p Page, after Cursor) error {
	switch {
	case len(p.IDs) > MaxIDs:
		return ErrSource.Errorf("the source returned %d identifiers, more than %d", len(p.IDs), MaxIDs)
	case p.Next != "" && p.Next == after:
		return ErrSource.Errorf("the source looked at no row behind the cursor %q, and does not say that there is none", after)
	case len(p.Next) > maxCursor:
		return ErrSource.Errorf("the source returned a cursor of %d bytes, more than %d", len(p.Next), maxCursor)
	}
	return nil
}
