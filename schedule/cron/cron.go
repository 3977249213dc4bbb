// Package cron reads cron expressions as Specs of package schedule.
//
// An expression has five fields: minute, hour, day of the month, month and weekday. A field is *,
// a number, a range, a list, or one of these with a step. Months and weekdays have English names
// of three letters. @hourly, @daily, @weekly, @monthly and @yearly stand for expressions, and
// '@every 15m' for [schedule.Every].
//
//	0 3 * * *          at 03:00 each day
//	*/15 8-17 * * 1-5  each quarter of an hour, on working days from 08:00
//	0 9 1 * MON        at 09:00 on the first of the month, and on each Monday
//
// As in crontab, a day and a weekday that are both restricted mean either.
//
// The package is of its own because it imports a parser: a program that does not read
// expressions does not compile it.
package cron

import (
	"strings"
	"time"

	parser "github.com/netresearch/go-cron"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/schedule"
)

// wildcard is the bit by which the parser marks a field that is *.
const wildcard = 1 << 63

const hint = "Write five fields: minute 0-59, hour 0-23, day 1-31, month 1-12, weekday 0-6 or MON. For example: 0 3 * * 1-5"

// Parse reads an expression. The zone is a name of the IANA database; "" is UTC. Errors:
// [millrace.ErrBadArgument], also for an expression that never matches, such as '0 0 30 2 *'.
func Parse(expression, zone string) (schedule.Spec, error) {
	bad := millrace.ErrBadArgument
	text := strings.TrimSpace(expression)
	if interval, ok := strings.CutPrefix(text, "@every "); ok {
		if zone != "" && zone != "UTC" {
			return schedule.Spec{}, bad.Errorf("%q has no time zone: it is counted from the Unix epoch", text)
		}
		d, err := time.ParseDuration(strings.TrimSpace(interval))
		if err != nil {
			return schedule.Spec{}, bad.Errorf("invalid interval in %q", text).WithHint("Write for example: @every 15m")
		}
		return schedule.Every(d)
	}
	if strings.Contains(text, "TZ=") {
		return schedule.Spec{}, bad.Errorf("a time zone within the expression %q", text).WithHint("Give the zone apart from the expression.")
	}
	options := parser.Minute | parser.Hour | parser.Dom | parser.Month | parser.Dow | parser.Descriptor | parser.DowOrDom
	p := parser.MustNewParser(options)
	parsed, err := p.Parse(text)
	if err != nil {
		return schedule.Spec{}, bad.Errorf("invalid %s in the cron expression %q: %s", wrongField(p, text), text, err).WithHint(hint)
	}
	fields, ok := parsed.(*parser.SpecSchedule)
	if !ok || len(fields.DomConstraints)+len(fields.DowConstraints)+len(fields.Year) > 0 {
		return schedule.Spec{}, bad.Errorf("invalid cron expression %q", text).WithHint(hint)
	}
	weekdays := fields.Dow &^ wildcard
	weekdays = weekdays&0x7f | weekdays>>7&1 // 7 is Sunday, too
	return schedule.NewCalendar(schedule.Calendar{
		Minutes:  fields.Minute &^ wildcard,
		Hours:    fields.Hour &^ wildcard,
		Days:     fields.Dom &^ wildcard,
		Months:   fields.Month &^ wildcard,
		Weekdays: weekdays,
		Zone:     zone,
	})
}

// wrongField names the first field of an expression that the parser refuses, or "syntax" if each
// is valid alone.
func wrongField(p parser.Parser, text string) string {
	fields := strings.Fields(text)
	names := [...]string{"minute", "hour", "day of the month", "month", "weekday"}
	if len(fields) != len(names) {
		return "syntax"
	}
	for i, name := range names {
		alone := [...]string{"*", "*", "*", "*", "*"}
		alone[i] = fields[i]
		if _, err := p.Parse(strings.Join(alone[:], " ")); err != nil {
			return name
		}
	}
	return "syntax"
}
