package plan

import (
	"math"
	"strconv"
	"strings"
)

// ParseBytes reads an amount of memory as Redis does in its configuration: a whole
// number, and a unit in upper or lower case, or none. As there, k, m and g are
// 1000, 1000000 and 1000000000 bytes, and kb, mb and gb are 1024, 1024*1024 and
// 1024*1024*1024.
func ParseBytes(text string) (int64, error) {
	lower := strings.ToLower(text)
	digits := strings.TrimRight(lower, "bgkm")
	number, err := strconv.ParseUint(digits, 10, 63)
	unit, known := map[string]uint64{
		"": 1, "b": 1,
		"k": 1e3, "m": 1e6, "g": 1e9,
		"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30,
	}[lower[len(digits):]]
	if err != nil || !known || number > math.MaxInt64/unit {
		return 0, refuse("Use a whole number and one of b, kb, mb, gb, such as 96gb.", "not an amount of memory: %q", text)
	}
	return int64(number * unit), nil
}
