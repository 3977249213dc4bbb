package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// fleetSetting is a setting by its name on the command line.
type fleetSetting struct {
	name  string
	fixed bool                                      // whether it does not change after fleet init
	field func(s *directory.Settings) (pointer any) // to a duration, a number or a name
}

var fleetSettings = []fleetSetting{
	{"view-life", true, func(s *directory.Settings) any { return &s.ViewTTL }},
	{"reply-limit", true, func(s *directory.Settings) any { return &s.ReplyTimeout }},
	{"placement-life", true, func(s *directory.Settings) any { return &s.PlacementTTL }},
	{"max-tags", false, func(s *directory.Settings) any { return &s.MaxTags }},
	{"max-fill", false, func(s *directory.Settings) any { return &s.MaxFill }},
	{"confirmed", true, func(s *directory.Settings) any { return &s.Confirmed }},
	{"max-age", true, func(s *directory.Settings) any { return &s.MaxAge }},
	{"restored-ick", false, func(s *directory.Settings) any { return &s.RestoredIck }},
}

// noName stands for a name that is not set.
const noName = "none"

// text returns the value as it is written on the command line.
func (f fleetSetting) text(s directory.Settings) string {
	return cmp.Or(fmt.Sprint(reflect.ValueOf(f.field(&s)).Elem().Interface()), noName)
}

// edit sets the setting, which is not fixed, to a value on the command line.
func (f fleetSetting) edit(s *directory.Settings, value string) error {
	if value == "default" {
		value = f.text(directory.Settings{})
	}
	field := reflect.ValueOf(f.field(s)).Elem()
	switch {
	case field.Kind() != reflect.String:
		n, err := strconv.ParseInt(value, 10, field.Type().Bits())
		if err != nil {
			return errUsage.Errorf("%s cannot be %q", f.name, value).WithHint("Write a whole number.")
		}
		field.SetInt(n)
	case value == noName:
		field.SetString("")
	default:
		field.SetString(value)
	}
	return s.Check()
}

type fleetSet struct {
	Setting string `arg:"" optional:"" help:"max-tags, max-fill or restored-ick. Defaults to listing all settings."`
	Value   string `arg:"" optional:"" help:"Its new value, or default."`
	Yes     bool   `help:"Do not ask."`
}

func (*fleetSet) Help() string {
	return `Without arguments it lists the settings. With a name and a value it shows what changes, asks, and changes it while the fleet is in use, at once. view-life, reply-limit, placement-life, confirmed and max-age are what clients, agents and operators rely on of each other: they are set by fleet init and do not change.

Examples:

    millrace fleet set
    millrace fleet set restored-ick rebuild
    millrace fleet set max-tags default --yes`
}

// settingsDoc has all settings.
type settingsDoc struct {
	Settings []settingDoc `json:"settings"`
}

type settingDoc struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	Default string `json:"default"`
}

func (doc settingsDoc) table(w io.Writer) {
	fmt.Fprintln(w, "SETTING\tVALUE\tDEFAULT")
	for _, s := range doc.Settings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Setting, s.Value, s.Default)
	}
}

func newSettingsDoc(m *directory.Map, defaults directory.Settings) settingsDoc {
	var doc settingsDoc
	for _, f := range fleetSettings {
		doc.Settings = append(doc.Settings, settingDoc{f.name, f.text(m.Settings.Effective()), f.text(defaults.Effective())})
	}
	return doc
}

// setDoc is what was changed.
type setDoc struct {
	Setting string `json:"setting"`
	Before  string `json:"before"`
	After   string `json:"after"`
}

func (c *fleetSet) Run(ctx context.Context, a *app) error {
	if c.Setting == "" {
		return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
			doc := newSettingsDoc(f.m, a.defaultSettings())
			return doc, doc.table, nil
		})
	}
	at := slices.IndexFunc(fleetSettings, func(f fleetSetting) bool { return f.name == c.Setting })
	switch {
	case at < 0:
		return errUsage.Errorf("there is no setting %q", c.Setting).WithHint("Look at millrace fleet set for those that there are.")
	case fleetSettings[at].fixed:
		return errUsage.Errorf("%s is set by fleet init and does not change", c.Setting).WithHint("max-tags, max-fill and restored-ick change.")
	case c.Value == "":
		return errUsage.Errorf("%s needs a value", c.Setting)
	}
	setting := fleetSettings[at]
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		wanted := f.m.Settings
		if err := setting.edit(&wanted, c.Value); err != nil {
			return nil, nil, err
		}
		doc := setDoc{Setting: setting.name, Before: setting.text(f.m.Settings.Effective()), After: setting.text(wanted.Effective())}
		if doc.Before == doc.After {
			return doc, says("%s is %s already", doc.Setting, doc.After), nil
		}
		if err := a.ask(ctx, c.Yes, fmt.Sprintf("Change %s from %s to %s?", doc.Setting, doc.Before, doc.After)); err != nil {
			return nil, nil, err
		}
		_, err := directory.Edit(ctx, f.dir, func(next *directory.Map) (bool, error) {
			return true, setting.edit(&next.Settings, c.Value)
		})
		if err != nil {
			return nil, nil, err
		}
		return doc, says("%s: %s, before %s", doc.Setting, doc.After, doc.Before), nil
	})
}
