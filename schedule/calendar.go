package schedule

import (
	"math/bits"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// Calendar is a Spec in minutes, hours, days, months and weekdays: it ticks at each minute in
// which all fields match. Each field is a bit set: bit n is the number n. A field of 0 matches
// everything.
type Calendar struct {
	Minutes  uint64 // bits 0 to 59
	Hours    uint64 // bits 0 to 23
	Days     uint64 // days of the month, bits 1 to 31
	Months   uint64 // bits 1 to 12
	Weekdays uint64 // bits 0 for Sunday to 6

	// DayAndWeekday requires that both the day and the weekday match if both are
	// restricted. Defaults to false: as in crontab, one of them is enough.
	DayAndWeekday bool

	// Zone is the name of the time zone in the IANA database. Defaults to UTC. The zone of the
	// machine, "Local", is refused: processes would not agree on it.
	Zone string
}

// fields returns the fields in the order of a crontab.
func (c *Calendar) fields() []field {
	return []field{
		{"minute", 0, 59, &c.Minutes}, {"hour", 0, 23, &c.Hours}, {"day", 1, 31, &c.Days},
		{"month", 1, 12, &c.Months}, {"weekday", 0, 6, &c.Weekdays},
	}
}

// NewCalendar returns the Spec of a calendar. Errors: [millrace.ErrBadArgument] for numbers out
// of range, for an unknown time zone, and for a calendar that never ticks, such as February 30.
func NewCalendar(c Calendar) (Spec, error) {
	for _, f := range c.fields() {
		if *f.set == 0 {
			*f.set = f.all()
		}
		if *f.set&^f.all() != 0 {
			return Spec{}, millrace.ErrBadArgument.Errorf("invalid %s: numbers are %d to %d", f.name, f.low, f.high)
		}
	}
	zone, err := loadZone(c.Zone)
	if err != nil {
		return Spec{}, err
	}
	days, weekdays := c.Days == c.fields()[2].all(), c.Weekdays == c.fields()[4].all()
	c.DayAndWeekday = c.DayAndWeekday && !days && !weekdays
	s := Spec{calendar: &calendar{c, zone, !days && !weekdays && !c.DayAndWeekday}}
	if s.Next(time.Unix(0, 0)).IsZero() {
		return Spec{}, millrace.ErrBadArgument.Errorf("%q never ticks", s).
			WithHint("No month has such a day.")
	}
	return s, nil
}

// calendar is a Calendar that was checked.
type calendar struct {
	Calendar

	zone   *time.Location
	either bool // the day or the weekday is enough
}

func (c *calendar) String() string {
	text := []string{"at"}
	for _, f := range c.fields() {
		text = append(text, setText(f))
	}
	if c.DayAndWeekday {
		text[5] = "&" + text[5]
	}
	return strings.Join(append(text, c.zone.String()), " ")
}

// horizon is how many days next looks ahead: 40 years. The rarest date, a February 29 on one
// weekday, comes every 28 years, or once after 40 around a year like 2100.
const horizon = 40*366 + 1

// next returns the first tick after the instant, or the zero time. Days are walked in the zone's
// calendar.
func (c *calendar) next(after time.Time) time.Time {
	local := after.In(c.zone)
	year, month, day := local.Date()
	for i := -1; i < horizon; i++ { // the day before may end later than its date says
		date := time.Date(year, month, day+i, 0, 0, 0, 0, time.UTC)
		if !c.matches(date) {
			continue
		}
		if tick := c.nextOn(date, after); !tick.IsZero() {
			return tick.UTC()
		}
	}
	return time.Time{}
}

// matches reports whether a date matches.
func (c *calendar) matches(date time.Time) bool {
	day := c.Days>>date.Day()&1 == 1
	weekday := c.Weekdays>>date.Weekday()&1 == 1
	return c.Months>>date.Month()&1 == 1 && (day && weekday || c.either && (day || weekday))
}

// nextOn returns the first tick of a date after the instant, or the zero time.
func (c *calendar) nextOn(date, after time.Time) time.Time {
	if c.Hours == 1<<24-1 {
		return c.nextMinute(date, after)
	}
	for hours := c.Hours; hours != 0; hours &= hours - 1 {
		hour := date.Add(time.Duration(bits.TrailingZeros64(hours)) * time.Hour)
		if instant(hour.Add(time.Hour), c.zone).Before(after) {
			continue
		}
		for minutes := c.Minutes; minutes != 0; minutes &= minutes - 1 {
			tick := instant(hour.Add(time.Duration(bits.TrailingZeros64(minutes))*time.Minute), c.zone)
			if tick.After(after) {
				return tick
			}
		}
	}
	return time.Time{}
}

// nextMinute is nextOn for a calendar that ticks in every hour. It follows the time that passes:
// an hour that is skipped has no ticks, and one that comes twice has them twice.
func (c *calendar) nextMinute(date, after time.Time) time.Time {
	tick, end := instant(date, c.zone), instant(date.AddDate(0, 0, 1), c.zone)
	if tick.Before(after) {
		tick = after
	}
	for tick = tick.Add(-time.Second).Truncate(time.Minute).Add(time.Minute); tick.Before(end); tick = tick.Add(time.Minute) {
		if tick.After(after) && c.Minutes>>tick.In(c.zone).Minute()&1 == 1 {
			return tick
		}
	}
	return time.Time{}
}

// instant returns when clocks of a zone show what wall shows in UTC: the first time, if they
// show it twice, and the end of the gap if they skip it.
func instant(wall time.Time, zone *time.Location) time.Time {
	at := func(near time.Time) time.Time {
		_, offset := near.In(zone).Zone()
		return wall.Add(-time.Duration(offset) * time.Second)
	}
	early, late := at(wall.Add(-24*time.Hour)), at(wall.Add(24*time.Hour))
	if late.Before(early) {
		early, late = late, early
	}
	for _, t := range []time.Time{early, late} {
		if at(t).Equal(t) {
			return t
		}
	}
	// The gap lies between the two. Its end is the first instant with the later offset.
	_, offset := late.In(zone).Zone()
	for late.Sub(early) > time.Second {
		middle := early.Add(late.Sub(early) / 2).Truncate(time.Second)
		if _, o := middle.In(zone).Zone(); o == offset {
			late = middle
		} else {
			early = middle
		}
	}
	return late
}
