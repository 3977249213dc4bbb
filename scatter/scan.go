package scatter

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// pageSize is how many keys, or fields, a server looks at in one step of a scan.
const pageSize = 1000

// pages returns the pages of a scan on one server.
func (s *Scatter) pages(ctx context.Context, one *server, command func(rueidis.Builder, uint64) rueidis.Completed) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for cursor := uint64(0); ; {
			page, err := s.page(ctx, one, func(b rueidis.Builder) rueidis.Completed { return command(b, cursor) })
			if !yield(page.Elements, err) || err != nil {
				return
			}
			if cursor = page.Cursor; cursor == 0 {
				return
			}
		}
	}
}

// page asks one server for the next page of a scan.
func (s *Scatter) page(ctx context.Context, one *server, command func(rueidis.Builder) rueidis.Completed) (page rueidis.ScanEntry, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, errSilent)
	defer cancel()
	runner, err := one.runner(ctx, s.cfg)
	if err == nil {
		err = runner.Retry.Do(ctx, func(int) error {
			page, err = script.Prompt(ctx, func(ctx context.Context) (rueidis.ScanEntry, error) {
				return runner.Client.Do(ctx, command(runner.Client.B())).AsScanEntry()
			})
			return err
		})
	}
	if err != nil {
		err = fmt.Errorf("server %s: %w", one.Name, err)
	}
	return page, err
}

// globOf returns the pattern that matches a text alone.
func globOf(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(text)
}
