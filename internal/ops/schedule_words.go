package ops

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/millrace/millrace/schedule"
)

// Zone returns the time zone of a spec; empty for an interval.
func Zone(s schedule.Spec) string {
	if strings.HasPrefix(s.String(), "at ") {
		return s.Zone()
	}
	return ""
}

// location returns the time zone of a spec: this process made it, so it knows the zone.
func location(s schedule.Spec) *time.Location {
	zone, err := time.LoadLocation(s.Zone())
	if err != nil {
		return time.UTC
	}
	return zone
}

// InWords writes when a spec ticks for people: "every 15m", "at 03:00, Monday to Friday". The
// time zone is not part of it.
func InWords(s schedule.Spec) string {
	text := s.String()
	if every, ok := strings.CutPrefix(text, "every "); ok {
		d, _ := time.ParseDuration(every) // as schedule.ParseSpec does
		return "every " + interval(d)
	}
	fields := strings.Fields(text)
	if len(fields) != 7 || fields[0] != "at" {
		return text
	}
	weekdays, both := strings.CutPrefix(fields[5], "&")
	c := calendar{
		minutes: numbers(fields[1]), hours: numbers(fields[2]), days: numbers(fields[3]),
		months: numbers(fields[4]), weekdays: numbers(weekdays), both: both,
	}
	return c.String()
}

// numbers reads a field of a spec's text: numbers and ranges, with commas between. It returns
// nil for every number.
func numbers(field string) (all []int) {
	if field == "*" {
		return nil
	}
	for part := range strings.SplitSeq(field, ",") {
		first, last, isRange := strings.Cut(part, "-")
		low, _ := strconv.Atoi(first) // package schedule wrote it
		high := low
		if isRange {
			high, _ = strconv.Atoi(last)
		}
		for n := low; n <= high; n++ {
			all = append(all, n)
		}
	}
	return all
}

// interval writes a duration exactly: "15m", "36h", "1h30m".
func interval(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// calendar is a calendar spec. A nil list is every value.
type calendar struct {
	minutes, hours, days, months, weekdays []int

	both bool // the day of the month and that of the week must match; otherwise one is enough
}

// String writes it for people.
func (c calendar) String() string {
	text := c.clock() + c.date()
	if c.months != nil {
		text += " in " + series(c.months, func(m int) string { return time.Month(m).String() })
	}
	return text
}

// maxTimes is how many times of a day are listed.
const maxTimes = 6

func (c calendar) clock() string {
	hourly := c.hours == nil
	each := "every minute"
	if n := step(c.minutes, 60); n > 0 {
		each = fmt.Sprintf("every %d minutes", n)
	} else if c.minutes != nil {
		each = ""
	}
	hours := step(c.hours, 24)
	switch {
	case hourly && each != "":
		return each
	case hourly && len(c.minutes) == 1 && c.minutes[0] == 0:
		return "every hour"
	case hourly:
		return "at " + english.PluralWord(len(c.minutes), "minute", "") + " " + series(c.minutes, strconv.Itoa) + " of every hour"
	case each != "" && run(c.hours):
		return fmt.Sprintf("%s from %02d:00 to %02d:59", each, c.hours[0], c.hours[len(c.hours)-1])
	case each != "":
		return each + " of the " + english.PluralWord(len(c.hours), "hour", "") + " " + series(c.hours, strconv.Itoa)
	case hours > 0 && len(c.minutes) == 1 && len(c.hours) > maxTimes/2:
		return fmt.Sprintf("every %d hours at minute %d", hours, c.minutes[0])
	case len(c.hours)*len(c.minutes) <= maxTimes:
		var times []int
		for _, h := range c.hours {
			for _, m := range c.minutes {
				times = append(times, 60*h+m)
			}
		}
		return "at " + series(times, func(t int) string { return fmt.Sprintf("%02d:%02d", t/60, t%60) })
	}
	return fmt.Sprintf("at %s %s of the hours %s", english.PluralWord(len(c.minutes), "minute", ""), series(c.minutes, strconv.Itoa), series(c.hours, strconv.Itoa))
}

func (c calendar) date() string {
	days, weekdays := "", ""
	if c.days != nil {
		days = "on " + english.PluralWord(len(c.days), "day", "") + " " + series(c.days, strconv.Itoa) + " of the month"
	}
	if c.weekdays != nil {
		weekdays = "on " + series(c.weekdays, func(d int) string { return time.Weekday(d).String() })
		if len(c.weekdays) > 2 && run(c.weekdays) {
			weekdays = strings.TrimPrefix(weekdays, "on ")
		}
	}
	switch {
	case days != "" && weekdays != "" && !c.both:
		return ", " + days + " and also " + weekdays
	case days != "" && weekdays != "":
		return ", " + days + ", if that is " + strings.TrimPrefix(weekdays, "on ")
	case days != "" || weekdays != "":
		return ", " + days + weekdays
	case c.hours != nil && c.months == nil && step(c.hours, 24) == 0:
		return " every day"
	}
	return ""
}

// step returns n if the list is 0, n, 2n and so on below a number that n divides; else 0.
func step(list []int, below int) int {
	if len(list) < 2 || list[0] != 0 {
		return 0
	}
	n := list[1]
	for i, v := range list {
		if v != i*n {
			return 0
		}
	}
	if len(list)*n != below {
		return 0
	}
	return n
}

// run reports whether a list has no gaps.
func run(list []int) bool {
	return len(list) > 0 && list[len(list)-1]-list[0] == len(list)-1
}

// series writes a list: "1, 2 and 5", "1 to 4".
func series(list []int, word func(int) string) string {
	if len(list) > 2 && run(list) {
		return word(list[0]) + " to " + word(list[len(list)-1])
	}
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = word(v)
	}
	return english.WordSeries(words, "and")
}
