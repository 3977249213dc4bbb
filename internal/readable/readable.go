// Package readable writes amounts for people, in the same way wherever the command
// and the service show them. What programs read has plain numbers instead.
package readable

import (
	"math"
	"strconv"
	"time"
)

// Count writes a number of things: "1 mark", "2 marks".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Bytes writes a size, to a tenth of its unit: "1.5 MB".
func Bytes(n int64) string {
	const step = 1024
	size, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	for size >= step && len(units) > 1 {
		size, units = size/step, units[1:]
	}
	return strconv.FormatFloat(math.Round(size*10)/10, 'f', -1, 64) + " " + units[0]
}

// Duration writes a duration: "120ms", "3m12s", "2d5h".
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < day:
		return d.Round(time.Second).String()
	}
	hours := int64(d.Round(time.Hour) / time.Hour)
	return strconv.FormatInt(hours/24, 10) + "d" + strconv.FormatInt(hours%24, 10) + "h"
}
