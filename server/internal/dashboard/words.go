package dashboard

import (
	"math"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/readable"
)

// rate writes a number per second: "0", "0.4", "12.5", "1,204".
func rate(perSecond float64) string {
	switch {
	case math.IsNaN(perSecond):
		return "–"
	case perSecond >= 100:
		return readable.Number(int64(math.Round(perSecond)))
	case perSecond > 0 && perSecond < 0.1:
		return "< 0.1"
	}
	return strconv.FormatFloat(math.Round(perSecond*10)/10, 'f', -1, 64)
}

// inUnit writes a value of a chart.
func inUnit(unit string, value float64) string {
	switch unit {
	case "rate":
		return rate(value) + "/s"
	case "bytes":
		return readable.Bytes(int64(value))
	}
	return readable.Number(int64(value))
}

// percent writes a share: "0.6%", "78%".
func percent(part float64) string {
	digits := 1
	if part >= 0.0995 || part == 0 {
		digits = 0
	}
	return strconv.FormatFloat(100*part, 'f', digits, 64) + "%"
}

// odds writes a small probability: "once in 120 pairs", "always".
func odds(p float64) string {
	switch {
	case p <= 0:
		return "never"
	case p > 0.995:
		return "always"
	case p >= 0.2:
		return "in " + percent(p) + " of all pairs"
	}
	return "once in " + readable.Number(int64(math.Round(1/p))) + " pairs"
}

// ago writes a duration, or a dash for none.
func ago(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return readable.Duration(d)
}

// since writes the time from at until now; nothing for the zero time.
func since(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return readable.Duration(max(0, now.Sub(at)).Round(time.Second))
}

// left writes a remaining time in whole seconds.
func left(d time.Duration) string { return readable.Duration(d.Truncate(time.Second)) }

// exact writes an instant with date and zone, for titles. A script replaces it, and the
// result of clock, by the reader's zone.
func exact(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 MST") }

// clock writes the time of day, and the date unless it is today.
func clock(now, t time.Time) string {
	now, t = now.UTC(), t.UTC()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05 MST")
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// takes writes a handling time.
func takes(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < time.Millisecond:
		return "< 1ms"
	}
	return ago(d)
}
