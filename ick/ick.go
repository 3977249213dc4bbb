package ick

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/batch"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/script"
)

// Ick is a dirty list. All of it lies in Redis; an Ick is safe for concurrent
// use, and several on one name are one list.
type Ick struct {
	name   string
	cfg    Config
	run    script.Runner
	shared script.Runner // for calls that several callers share
	adds   *batch.Batcher[[]mark, string]
	folds  foldCount
	entry  registry.Entry
}

// Config is how an Ick is used by this process. The zero value works.
type Config struct {
	// Settle is how long a mark rests after the first time it was made before
	// it may be reserved, so that a burst of changes costs one run. No mark
	// waits longer than Settle and a batch. Needs scores in Unix seconds. In
	// microseconds at the finest. Defaults to 0, no rest.
	Settle time.Duration

	// Backwash lets older marks displace reserved ones at each reserve, so that
	// a batch is always the oldest of all, at the price of work done again.
	// Defaults to off.
	Backwash bool

	// Enlister is told when a reserve finds nothing. Defaults to none.
	Enlister millrace.Enlister

	// Logger reports failing batches and trouble with the server. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Hooks watch the Ick's calls and handlers. Defaults to none.
	Hooks []millrace.Hook
}

// Entry is a member with its score.
type Entry struct {
	Member string
	Score  float64 // Unix seconds unless the Ick is opaque; the time of the first mark
}

// New returns the Ick of that name. It does not ask Redis: an Ick begins with
// its first add.
//
// The name is the Ick's version key as in the gem, and may hold a {tag} that
// chooses its cluster slot. Errors are derived from [millrace.ErrBadName] and [millrace.ErrBadArgument].
func New(client rueidis.Client, name string, cfg Config) (*Ick, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if cfg.Settle < 0 {
		return nil, millrace.ErrBadArgument.Errorf("Settle is negative: %s", cfg.Settle)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	k := &Ick{
		name: name,
		cfg:  cfg,
		run:  script.Runner{Client: client, Scripts: library, Hooks: cfg.Hooks, Errors: named},
	}
	k.shareAdds()
	k.entry.Enter(client, registry.Ick, name, cfg.Logger)
	return k, nil
}

// Name returns the Ick's name.
func (k *Ick) Name() string { return k.name }

// named are the errors that only scripts of Icks answer with.
var named = map[string]*millrace.Error{"ICKCHANNEL": errName}

// call runs a script on the Ick.
func (k *Ick) call(ctx context.Context, name string, args ...string) (*script.Reply, error) {
	reply, err := k.run.Run(ctx, name, k.name, args...)
	return reply, k.explain(err)
}

// explain tells what an error of a script is about.
func (k *Ick) explain(err error) error {
	switch {
	case errors.Is(err, millrace.ErrVersion) && strings.Contains(err.Error(), retired):
		return errRetired.Wrap(err)
	case errors.Is(err, millrace.ErrBadName):
		channel := errName.Errorf("%q is a channel, and nobody would read an Ick of that name", k.name)
		channel.Hint = fmt.Sprintf("Mark through the channel (ick.NewChannel); its Icks are %s/0, %[1]s/1 and so on.", k.name)
		return channel.Wrap(err)
	}
	return err
}

// formatScore writes a score so that the server reads the same number back.
func formatScore(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return strconv.FormatFloat(score, 'g', -1, 64)
}
