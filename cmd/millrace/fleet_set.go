package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/settings"
)

// fleetSetting is a setting by its name on the command line.
type fleetSetting struct {
	name  string
	text  func(s directory.Settings) string
	parse func(s *directory.Settings, text string) error
	form  string // of values, for people
}

var fleetSettings = []fleetSetting{
	durationSetting("view-life", func(s *directory.Settings) *time.Duration { return &s.ViewTTL }),
	durationSetting("reply-limit", func(s *directory.Settings) *time.Duration { return &s.ReplyTimeout }),
	durationSetting("placement-life", func(s *directory.Settings) *time.Duration { return &s.PlacementTTL }),
	numberSetting("max-tags", func(s *directory.Settings) *int64 { return &s.MaxTags }),
	numberSetting("max-fill", func(s *directory.Settings) *int { return &s.MaxFill }),
	numberSetting("confirmed", func(s *directory.Settings) *int { return &s.Confirmed }),
	nameSetting("restored-ick", func(s *directory.Settings) *string { return &s.RestoredIck }),
}

func durationSetting(name string, field func(s *directory.Settings) *time.Duration) fleetSetting {
	return fleetSetting{
		name: name,
		text: func(s directory.Settings) string { return field(&s).String() },
		parse: func(s *directory.Settings, text string) (err error) {
			*field(s), err = time.ParseDuration(text)
			return err
		},
		form: "Write a time with its unit, such as 3s or 500ms.",
	}
}

func numberSetting[N int | int64](name string, field func(s *directory.Settings) *N) fleetSetting {
	return fleetSetting{
		name: name,
		text: func(s directory.Settings) string { return strconv.FormatInt(int64(*field(&s)), 10) },
		parse: func(s *directory.Settings, text string) error {
			n, err := strconv.ParseInt(text, 10, 64)
			*field(s) = N(n)
			return err
		},
		form: "Write a whole number.",
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

// edit returns a change of the setting to a value on the command line.
func (f fleetSetting) edit(text string, defaults directory.Settings) (func(s *directory.Settings), error) {
	if text == "default" {
		text = f.text(defaults)
	}
	var parsed directory.Settings
	if err := f.parse(&parsed, text); err != nil {
		return nil, errUsage.Errorf("%s cannot be %q", f.name, text).WithHint(f.form)
	}
	return func(s *directory.Settings) { _ = f.parse(s, text) }, nil
}

type fleetSet struct {
	Setting string `arg:"" optional:"" help:"The name of a setting, as in the list. Defaults to listing all."`
	Value   string `arg:"" optional:"" help:"Its new value, or default."`
	Yes     bool   `help:"Do not ask."`
}

func (*fleetSet) Help() string {
	return `Without arguments it lists the settings. With a name and a value it shows what changes, asks, and changes it while the fleet is in use, in a few seconds: until then the stricter of both values is in force. It waits for the fleet's placement life, too, if that becomes shorter or reply-limit longer. A higher confirmed waits until as many replicas have all that was written; clients that wait for fewer have errors from then on.

A command that was cut off is finished by the agents, or by the same command again. To take back a change that waits, set the former value.

Examples:

    millrace fleet set
    millrace fleet set view-life 3s
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
	Next    string `json:"next,omitempty"` // if it is being changed
}

func (doc settingsDoc) table(w io.Writer) {
	fmt.Fprintln(w, "SETTING\tVALUE\tDEFAULT\tNEXT")
	for _, s := range doc.Settings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Setting, s.Value, s.Default, s.Next)
	}
}

func newSettingsDoc(m *directory.Map, defaults directory.Settings) settingsDoc {
	var doc settingsDoc
	for _, f := range fleetSettings {
		s := settingDoc{Setting: f.name, Value: f.text(m.Settings.Effective()), Default: f.text(defaults.Effective())}
		if m.Next != nil {
			if next := f.text(m.Next.Settings.Effective()); next != s.Value {
				s.Next = next
			}
		}
		doc.Settings = append(doc.Settings, s)
	}
	return doc
}

// setDoc is what was changed.
type setDoc struct {
	Setting string `json:"setting"`
	Before  string `json:"before"`
	After   string `json:"after"`
	Took    int64  `json:"took_ms"`
}

func (c *fleetSet) Run(ctx context.Context, a *app) error {
	if c.Setting == "" {
		return a.withMap(ctx, func(_ directory.Directory, _ rueidis.ClientOption, m *directory.Map) (any, table, error) {
			doc := newSettingsDoc(m, a.defaultSettings())
			return doc, doc.table, nil
		})
	}
	at := slices.IndexFunc(fleetSettings, func(f fleetSetting) bool { return f.name == c.Setting })
	switch {
	case at < 0:
		return errUsage.Errorf("there is no setting %q", c.Setting).WithHint("Look at millrace fleet set for those that there are.")
	case c.Value == "":
		return errUsage.Errorf("%s needs a value", c.Setting)
	}
	setting := fleetSettings[at]
	edit, err := setting.edit(c.Value, a.defaultSettings())
	if err != nil {
		return err
	}
	return a.withMap(ctx, func(dir directory.Directory, option rueidis.ClientOption, m *directory.Map) (any, table, error) {
		wanted := m.Settings
		if edit(&wanted); m.Next == nil {
			if err := wanted.Check(); err != nil {
				return nil, nil, err
			}
		}
		doc := setDoc{Setting: setting.name, Before: setting.text(m.Settings.Effective()), After: setting.text(wanted.Effective())}
		if doc.Before == doc.After && m.Next == nil {
			return doc, says("%s is %s already", doc.Setting, doc.After), nil
		}
		if wanted.Effective().Confirmed > m.Settings.Effective().Confirmed {
			if err := checkConfirmed(wanted, m.Partitions); err != nil {
				return nil, nil, err
			}
		}
		if wanted.Effective().ViewTTL != m.Settings.Effective().ViewTTL {
			a.warnOfShort(ctx, wanted.Effective().ViewTTL)
		}
		if err := a.ask(ctx, c.Yes, fmt.Sprintf("Change %s from %s to %s?", doc.Setting, doc.Before, doc.After)); err != nil {
			return nil, nil, err
		}
		began, log := time.Now(), a.logger()
		if _, err := settings.Change(ctx, dir, edit, settings.Config{Option: option, Progress: func(step string) { log.InfoContext(ctx, step) }}); err != nil {
			return nil, nil, ofSetting(ctx, err)
		}
		doc.Took = time.Since(began).Milliseconds()
		return doc, says("%s: %s, before %s", doc.Setting, doc.After, doc.Before), nil
	})
}

// ofSetting gives the error of a command that was cut off a hint.
func ofSetting(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return errCut.WithHint("Repeat the command: it goes on. Agents finish it, too. To take it back, set the former value.")
}
