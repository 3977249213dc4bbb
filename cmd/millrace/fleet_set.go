package main

import (
	"context"
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/fleet/directory"
)

type fleetSet struct {
	Setting string `arg:"" optional:"" help:"max-tags, max-fill, replace-after or restored-ick. Defaults to listing all settings."`
	Value   string `arg:"" optional:"" help:"Its new value, or default."`
	Yes     bool   `help:"Do not ask."`
}

func (*fleetSet) Help() string {
	return `Without arguments it lists the settings. With a name and a value it shows what changes, asks, and changes it while the fleet is in use, at once. view-life, reply-limit, placement-life, confirmed and max-age are what clients, agents and operators rely on of each other: they are set by fleet init and do not change.

Examples:

    millrace fleet set
    millrace fleet set replace-after 10m --yes`
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

// setDoc is the result of a change of a setting.
type setDoc struct {
	Setting string `json:"setting"`
	Before  string `json:"before"`
	After   string `json:"after"`
}

func (c *fleetSet) Run(ctx context.Context, a *app) error {
	if c.Setting == "" {
		return a.withMap(ctx, listSettings)
	}
	setting, err := directory.Changeable(c.Setting)
	switch {
	case err != nil:
		return err
	case c.Value == "":
		return errUsage.Errorf("%s needs a value", c.Setting)
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		wanted := f.m.Settings
		if err := setting.Edit(&wanted, c.Value); err != nil {
			return nil, nil, err
		}
		doc := setDoc{Setting: c.Setting, Before: setting.Text(f.m.Settings), After: setting.Text(wanted)}
		if doc.Before == doc.After {
			return doc, says("%s is %s already", doc.Setting, doc.After), nil
		}
		if err := a.ask(ctx, c.Yes, fmt.Sprintf("Change %s from %s to %s?", doc.Setting, doc.Before, doc.After)); err != nil {
			return nil, nil, err
		}
		_, err := directory.Edit(ctx, f.dir, func(next *directory.Map) (bool, error) {
			return true, setting.Edit(&next.Settings, c.Value)
		})
		return doc, says("%s: %s, before %s", doc.Setting, doc.After, doc.Before), err
	})
}

func listSettings(f *fleetAt) (any, table, error) {
	var doc settingsDoc
	for _, s := range directory.AllSettings {
		doc.Settings = append(doc.Settings, settingDoc{s.Name, s.Text(f.m.Settings), s.Text(directory.Settings{ViewTTL: f.dir.ViewTTL})})
	}
	return doc, func(w io.Writer) {
		fmt.Fprintln(w, "SETTING\tVALUE\tDEFAULT")
		for _, s := range doc.Settings {
			fmt.Fprintf(w, "%s\t%s\t%s\n", s.Setting, s.Value, s.Default)
		}
	}, nil
}
