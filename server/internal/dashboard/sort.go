package dashboard

import (
	"maps"
	"net/url"
	"slices"
)

// listColumn is a column of a list. A list is sorted by it if it has a compare.
type listColumn[R any] struct {
	Key     string // in the query of the path
	Name    string
	Number  bool // the largest come first
	Bar     bool // the numbers have bars, and begin at the left
	compare func(a, b R) int
}

// columnHead is the head of a column.
type columnHead struct {
	Name   string
	Number bool
	Bar    bool
	Path   string // sorts the list by it; empty if nothing does
	Sorted string // ascending or descending; empty if the list is sorted otherwise
}

// sortRows sorts rows by the column of a query, and returns the heads of all columns. Rows
// that are equal stay in their order. The heads lead to the path, with the rest of the query.
func sortRows[R any](asked url.Values, path string, rows []R, columns []listColumn[R]) []columnHead {
	by, desc := asked.Get("sort"), asked.Get("desc") != ""
	heads := make([]columnHead, len(columns))
	for i, c := range columns {
		heads[i] = columnHead{Name: c.Name, Number: c.Number, Bar: c.Bar}
		if c.compare == nil {
			continue
		}
		down := c.Number
		if c.Key == by {
			down = !desc
			heads[i].Sorted = "ascending"
			if desc {
				heads[i].Sorted = "descending"
			}
			slices.SortStableFunc(rows, func(a, b R) int {
				if desc {
					return c.compare(b, a)
				}
				return c.compare(a, b)
			})
		}
		link := url.Values{}
		maps.Copy(link, asked)
		link.Set("sort", c.Key)
		link.Del("desc")
		if down {
			link.Set("desc", "1")
		}
		heads[i].Path = path + "?" + link.Encode()
	}
	return heads
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
