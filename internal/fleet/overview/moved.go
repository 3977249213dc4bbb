package overview

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/readable"
)

// Moved counts the moved tags and their data.
type Moved struct {
	Tags         int    `json:"tags"`
	Keys         int64  `json:"keys"`
	Bytes        int64  `json:"bytes"`
	Took         int64  `json:"took_ms"`
	MedianPause  int64  `json:"median_pause_ms"`
	LongestPause int64  `json:"longest_pause_ms"`
	Kept         []Kept `json:"kept"`
}

// Kept is a tag that stayed where it was.
type Kept struct {
	Tag jsontype.Text `json:"tag"`
	Why string        `json:"why"`
}

// NewMoved returns the counts of a report.
func NewMoved(r rebalance.Report) Moved {
	doc := Moved{
		Tags: r.Tags, Keys: r.Keys, Bytes: r.Bytes, Took: r.Took.Milliseconds(),
		MedianPause: r.MedianPause.Milliseconds(), LongestPause: r.LongestPause.Milliseconds(), Kept: []Kept{},
	}
	for _, kept := range r.Kept {
		doc.Kept = append(doc.Kept, Kept{Tag: jsontype.Text(kept.Tag), Why: readable.Line(kept.Err)})
	}
	return doc
}

// Table writes it for people.
func (doc Moved) Table(w io.Writer) {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	fmt.Fprintf(w, "moved %s with %s, %s, in %s\n", readable.Count(doc.Tags, "tag"), readable.Count(int(doc.Keys), "key"), readable.Bytes(doc.Bytes), ms(doc.Took))
	if doc.Tags > 0 {
		fmt.Fprintf(w, "writers of a tag waited for %s, at most for %s\n", ms(doc.MedianPause), ms(doc.LongestPause))
	}
	for _, kept := range doc.Kept {
		fmt.Fprintf(w, "%s stayed where it was: %s\n", kept.Tag, kept.Why)
	}
}
