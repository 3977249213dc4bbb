package script

import "iter"

// MaxBytes is about how much one call sends or brings at most. A larger request is cut
// up, so that no call keeps the server from others for long.
const MaxBytes = 1 << 20

// Chunks cuts items into parts of at most so many, and of at most [MaxBytes] together
// unless one item alone is larger. No items are no part.
func Chunks[T any](items []T, most int, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for first := 0; first < len(items); {
			last, bytes := first, 0
			for last < len(items) && last-first < most {
				bytes += size(items[last])
				if bytes > MaxBytes && last > first {
					break
				}
				last++
			}
			if !yield(items[first:last]) {
				return
			}
			first = last
		}
	}
}
