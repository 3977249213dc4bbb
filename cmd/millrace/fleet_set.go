package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// fleetSetting is a setting by its name on the command line.
type fleetSetting struct {
	name  string
	text  func(s directory.Settings) string
	parse func(s *directory.Settings, text string) error // nil if it does not change after fleet init
}

var fleetSettings = []fleetSetting{
	{name: "view-life", text: func(s directory.Settings) string { return s.ViewTTL.String() }},
	{name: "reply-limit", text: func(s directory.Settings) string { return s.ReplyTimeout.String() }},
	{name: "placement-life", text: func(s directory.Settings) string { return s.PlacementTTL.String() }},
	numberSetting("max-tags", func(s *directory.Settings) *int64 { return &s.MaxTags }),
	numberSetting("max-fill", func(s *directory.Settings) *int { return &s.MaxFill }),
	{name: "confirmed", text: func(s directory.Settings) string { return strconv.Itoa(s.Confirmed) }},
	{name: "max-age", text: func(s directory.Settings) string { return s.MaxAge.String() }},
	nameSetting("restored-ick", func(s *directory.Settings) *string { return &s.RestoredIck }),
}

func numberSetting[N int | int64](name string, field func(s *directory.Settings) *N) fleetSetting {
	return fleetSetting{
		name: name,
		text: func(s directory.Settings) string { return strconv.FormatInt(int64(*field(&s)), 10) },
		parse: func(s *directory.Settings, text string) error {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return errUsage.Errorf("%s cannot be %q", name, text).WithHint("Write a whole number.")
			}
			*field(s) = N(n)
			return nil
		},
	}
}

// nameSetting is a name, or none.
func nameSetting(name string, field func(s *directory.Settings) *string) fleetSetting {
	const none = "none"
	return fleetSetting{
		name: name,
		text: func(s directory.Settings) string { return cmp.Or(*field(&s), none) },
		parse: func(s *directory.Settings, text string) error {
			if *field(s) = text; text == none {
				*field(s) = ""
			}
			return nil
		},
	}
}

// edit sets the setting to a value on the command line.
func (f fleetSetting) edit(s *directory.Settings, value string) error {
	if value == "default" {
		value = f.text(directory.Settings{})
	}
	return cmp.Or(f.parse(s, value), s.Check())
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
		return a.withMap(ctx, func(_ *directory.Directory, _ rueidis.ClientOption, m *directory.Map) (any, table, error) {
			doc := newSettingsDoc(m, a.defaultSettings())
			return doc, doc.table, nil
		})
	}
	at := slices.IndexFunc(fleetSettings, func(f fleetSetting) bool { return f.name == c.Setting })
	switch {
	case at < 0:
		return errUsage.Errorf("there is no setting %q", c.Setting).WithHint("Look at millrace fleet set for those that there are.")
	case fleetSettings[at].parse == nil:
		return errUsage.Errorf("%s is set by fleet init and does not change", c.Setting).WithHint("max-tags, max-fill and restored-ick change.")
	case c.Value == "":
		return errUsage.Errorf("%s needs a value", c.Setting)
	}
	setting := fleetSettings[at]
	return a.withMap(ctx, func(dir *directory.Directory, _ rueidis.ClientOption, m *directory.Map) (any, table, error) {
		wanted := m.Settings
		if err := setting.edit(&wanted, c.Value); err != nil {
			return nil, nil, err
		}
		doc := setDoc{Setting: setting.name, Before: setting.text(m.Settings.Effective()), After: setting.text(wanted.Effective())}
		if doc.Before == doc.After {
			return doc, says("%s is %s already", doc.Setting, doc.After), nil
		}
		if err := a.ask(ctx, c.Yes, fmt.Sprintf("Change %s from %s to %s?", doc.Setting, doc.Before, doc.After)); err != nil {
			return nil, nil, err
		}
		_, err := directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
			return true, setting.edit(&next.Settings, c.Value)
		})
		if err != nil {
			return nil, nil, err
		}
		return doc, says("%s: %s, before %s", doc.Setting, doc.After, doc.Before), nil
	})
}
