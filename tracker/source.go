package tracker

import "context"

// Source is the truth that a tracker follows: a table in which a row is a piece of
// work that is queued for an identifier. Several rows may have the same one. [SQL]
// makes one of a table in a database.
//
// Both methods must see everything that was committed before they were called; of
// a source that lags behind, every bound that this package promises is longer by
// its lag, and [Config.Grace] must be longer than it. They are called from
// several goroutines at once.
type Source interface {
	// Rows returns the first rows with work queued behind a cursor, at most limit,
	// in the order of a key that is unique and never changes. Fewer than limit mean
	// that these are the last. The empty cursor is before the first row.
	Rows(ctx context.Context, after Cursor, limit int) ([]Row, error)

	// Pending returns those of the identifiers that have work queued, in any order.
	// There are at most [MaxRows].
	Pending(ctx context.Context, ids []string) ([]string, error)
}

// Row is a row with work queued.
type Row struct {
	ID     string // whose work it is
	Cursor Cursor // the row's own place in the order of the key
}

// Cursor is a place in the order of a source's key, in a form of the source's
// own: not empty, at most 4,096 bytes. It is kept in Redis.
type Cursor string

// maxCursor is the longest cursor in bytes.
const maxCursor = 4096

// checkRows refuses an answer of Rows with which a pass would not end, or would
// not be complete.
func checkRows(rows []Row, after Cursor, limit int) error {
	if len(rows) > limit {
		return ErrSource.Saying("the source returned %d rows, more than %d", len(rows), limit)
	}
	if len(rows) == 0 {
		return nil
	}
	switch last := rows[len(rows)-1].Cursor; {
	case last == "":
		return ErrSource.Saying("the source returned a row without a cursor")
	case last == after:
		return ErrSource.Saying("the source returned the row at the cursor %q, not those behind it", after)
	case len(last) > maxCursor:
		return ErrSource.Saying("the source returned a cursor of %d bytes, more than %d", len(last), maxCursor)
	}
	return nil
}
