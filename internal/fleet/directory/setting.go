package directory

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace"
)

// Setting is one of the [Settings], as people name and write it.
type Setting struct {
	Name  string
	Fixed bool                            // it does not change after the fleet was made
	field func(s *Settings) (pointer any) // to a duration, a number or a name
}

// AllSettings are the settings in the order of lists.
var AllSettings = []Setting{
	{"view-life", true, func(s *Settings) any { return &s.ViewTTL }},
	{"reply-limit", true, func(s *Settings) any { return &s.ReplyTimeout }},
	{"placement-life", true, func(s *Settings) any { return &s.PlacementTTL }},
	{"max-tags", false, func(s *Settings) any { return &s.MaxTags }},
	{"max-fill", false, func(s *Settings) any { return &s.MaxFill }},
	{"confirmed", true, func(s *Settings) any { return &s.Confirmed }},
	{"max-age", true, func(s *Settings) any { return &s.MaxAge }},
	{"replace-after", false, func(s *Settings) any { return &s.ReplaceAfter }},
	{"restored-ick", false, func(s *Settings) any { return &s.RestoredIck }},
}

// noName stands for a name that is not set.
const noName = "none"

// Text writes the value that is in effect.
func (f Setting) Text(s Settings) string {
	s = s.Effective()
	return cmp.Or(fmt.Sprint(reflect.ValueOf(f.field(&s)).Elem().Interface()), noName)
}

// ErrSetting means that there is no such setting, that it does not change, or that a value does not have its form.
var ErrSetting = &millrace.Error{Code: "bad_usage"}

// Changeable returns the setting of a name, or ErrSetting if there is none that changes while a fleet is in use.
func Changeable(name string) (Setting, error) {
	at := slices.IndexFunc(AllSettings, func(s Setting) bool { return s.Name == name })
	switch {
	case at < 0:
		return Setting{}, ErrSetting.Errorf("there is no setting %q", name).WithHint("Look at millrace fleet set for those that there are.")
	case AllSettings[at].Fixed:
		return Setting{}, ErrSetting.Errorf("%s is set by fleet init and does not change", name).WithHint("max-tags, max-fill, replace-after and restored-ick change.")
	}
	return AllSettings[at], nil
}

// Edit sets the setting, which is not fixed, to a written value, or to "default".
func (f Setting) Edit(s *Settings, value string) error {
	field := reflect.ValueOf(f.field(s)).Elem()
	switch {
	case value == "default", value == noName && field.Kind() == reflect.String:
		field.SetZero()
	case field.Kind() == reflect.String:
		field.SetString(value)
	case field.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(value)
		if err != nil {
			return f.refuse(value, "Write a duration, such as 10m.")
		}
		field.SetInt(int64(d))
	default:
		n, err := strconv.ParseInt(value, 10, field.Type().Bits())
		if err != nil {
			return f.refuse(value, "Write a whole number.")
		}
		field.SetInt(n)
	}
	return s.Check()
}

func (f Setting) refuse(value, hint string) error {
	return ErrSetting.Errorf("%s cannot be %q", f.Name, value).WithHint(hint)
}
