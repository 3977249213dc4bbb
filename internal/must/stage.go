package must

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/redis/redisproc"
)

// Stage is what a measurement or a demo's scene has started and not ended yet. The zero value has
// nothing. It is for one goroutine.
type Stage struct{ ends []func(context.Context) error }

// Defer has end called when the stage ends; the last one first.
func (s *Stage) Defer(end func(context.Context) error) { s.ends = append(s.ends, end) }

// Close closes something when the stage ends.
func (s *Stage) Close(c interface{ Close() }) {
	s.Defer(func(context.Context) error { c.Close(); return nil })
}

// Server starts a redis-server, which is stopped when the stage ends.
func (s *Stage) Server(ctx context.Context, cfg redisproc.Config) (*redisproc.Proc, error) {
	proc, err := redisproc.Start(ctx, cfg)
	if err == nil {
		s.Defer(func(context.Context) error { return proc.Stop() })
	}
	return proc, err
}

// Dial connects to a server until the stage ends.
func (s *Stage) Dial(ctx context.Context, url string) (rueidis.Client, error) {
	client, err := dial.Redis(ctx, url)
	if err == nil {
		s.Close(client)
	}
	return client, err
}

// End ends all that the stage has.
func (s *Stage) End(ctx context.Context) (err error) {
	for _, end := range slices.Backward(s.ends) {
		err = errors.Join(err, end(ctx))
	}
	s.ends = nil
	return err
}

// Quantile returns the value below which the share q of the values lie, 0 for none.
func Quantile[T int | int64 | float64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1))]
}
