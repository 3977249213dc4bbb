package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// Bounds of intervals.
const (
	minEvery = time.Second
	maxEvery = 366 * 24 * time.Hour
)

// Spec says when a schedule ticks. The zero value never does. Specs are made by [Every],
// [NewCalendar] and [ParseSpec], and never change. Two Specs with the same String tick at the
// same instants.
type Spec struct {
	every    time.Duration // 0 for a calendar
	calendar *calendar
}

// Every ticks at the whole multiples of d since the Unix epoch: every 15 minutes is at :00, :15,
// :30 and :45 of each hour, every 24 hours is at midnight UTC. d is whole seconds, from a second
// to 366 days. Errors: [millrace.ErrBadArgument].
func Every(d time.Duration) (Spec, error) {
	if d < minEvery || d > maxEvery || d%time.Second != 0 {
		return Spec{}, millrace.ErrBadArgument.Errorf("invalid interval %s", d).
			WithHint("An interval is whole seconds, from 1s to 8784h.")
	}
	return Spec{every: d}, nil
}

// Zone returns the name of the time zone in which s ticks, as in the IANA database.
func (s Spec) Zone() string {
	if s.calendar == nil {
		return "UTC"
	}
	return s.calendar.zone.String()
}

// Next returns the first tick after the instant, or the zero time if there is none in the next
// 40 years.
func (s Spec) Next(after time.Time) time.Time {
	switch {
	case s.calendar != nil:
		return s.calendar.next(after)
	case s.every > 0:
		step := int64(s.every / time.Second)
		whole := after.Unix() - mod(after.Unix(), step)
		return time.Unix(whole+step, 0).UTC()
	}
	return time.Time{}
}

// mod is the remainder that is not negative.
func mod(a, b int64) int64 { return (a%b + b) % b }

// String returns the text that [ParseSpec] reads: 'every 15m0s', or 'at', the fields of a
// calendar, and its zone, such as 'at 0 3 * * 1-5 Europe/Berlin'.
func (s Spec) String() string {
	switch {
	case s.calendar != nil:
		return s.calendar.String()
	case s.every > 0:
		return "every " + s.every.String()
	}
	return ""
}

// ParseSpec reads the text of [Spec.String]. It is for stored Specs: fields are numbers, ranges
// and lists, without names and steps. Package schedule/cron reads text that people write. Errors:
// [millrace.ErrBadArgument], also for a time zone that this machine does not know.
func ParseSpec(text string) (Spec, error) {
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "every":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return Spec{}, millrace.ErrBadArgument.Errorf("invalid interval %q", rest)
		}
		return Every(d)
	case "at":
		fields := strings.Fields(rest)
		if len(fields) != 6 {
			return Spec{}, millrace.ErrBadArgument.Errorf("%q has not five fields and a time zone", text)
		}
		var c Calendar
		weekday, both := strings.CutPrefix(fields[4], "&")
		fields[4], c.DayAndWeekday = weekday, both
		for i, f := range c.fields() {
			set, err := readSet(fields[i], f)
			if err != nil {
				return Spec{}, err
			}
			*f.set = set
		}
		c.Zone = fields[5]
		return NewCalendar(c)
	}
	return Spec{}, millrace.ErrBadArgument.Errorf("not the text of a schedule: %.60q", text)
}

// loadZone returns a time zone of the IANA database. "" is UTC. The zone of the machine, "Local",
// is refused: processes would not agree on it.
func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, millrace.ErrBadArgument.Errorf("unknown time zone %q", name).
			WithHint(`Use a name of the IANA database, such as Europe/Berlin. If the machine has no such database, import _ "time/tzdata".`)
	}
	return zone, nil
}

// field is one field of a calendar.
type field struct {
	name      string
	low, high int
	set       *uint64
}

func (f field) all() uint64 { return 1<<(f.high+1) - 1<<f.low }

// readSet reads '*', or numbers and ranges with commas between.
func readSet(text string, f field) (set uint64, err error) {
	if text == "*" {
		return f.all(), nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, errLow := strconv.Atoi(first)
		high, errHigh := strconv.Atoi(last)
		if errLow != nil || errHigh != nil || low < f.low || high > f.high || low > high {
			return 0, millrace.ErrBadArgument.Errorf("invalid %s %q: numbers are %d to %d", f.name, part, f.low, f.high)
		}
		set |= 1<<(high+1) - 1<<low
	}
	return set, nil
}

// setText is the text that readSet reads.
func setText(f field) string {
	if *f.set == f.all() {
		return "*"
	}
	var parts []string
	for set := *f.set; set != 0; {
		low := bits.TrailingZeros64(set)
		n := bits.TrailingZeros64(^(set >> low))
		set &^= 1<<(low+n) - 1<<low
		if n == 1 {
			parts = append(parts, strconv.Itoa(low))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", low, low+n-1))
		}
	}
	return strings.Join(parts, ",")
}
