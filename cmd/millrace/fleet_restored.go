package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
)

// marker returns a function that adds tags of a restored partition to an Ick. Tags that are
// too long for an Ick go to the log.
func marker(f *fleet.Fleet, log *slog.Logger) func(ctx context.Context, name string, tags []string) error {
	return func(ctx context.Context, name string, tags []string) error {
		marks, err := ick.New(f.Client(), name, ick.Config{Logger: log})
		if err != nil {
			return err
		}
		_, err = marks.AddNow(ctx, tags...)
		if !errors.Is(err, millrace.ErrTooLarge) {
			return err
		}
		for _, tag := range tags {
			if _, err := marks.AddNow(ctx, tag); errors.Is(err, millrace.ErrTooLarge) {
				log.WarnContext(ctx, "a tag of a restored partition is too long to be marked", "begins", tag[:100], "bytes", len(tag))
			} else if err != nil {
				return err
			}
		}
		return nil
	}
}
