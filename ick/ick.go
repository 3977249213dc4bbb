package ick

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/batch"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// chunk is how many members one script call takes or moves at most.
	chunk = 1000

	// maxMember is the longest member in bytes. Longer ones of producers in other languages
	// are processed like all others.
	maxMember = 4096
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K/ick/{K}/")

// Ick is a dirty list. It is safe for concurrent use. All state is in Redis: several Icks of one
// name are the same list.
type Ick struct {
	name   string
	cfg    Config
	run    script.Runner
	shared script.Runner // for calls that several callers share
	adds   *batch.Batcher[[]mark, string]
	folds  foldCount
	entry  registry.Entry
}

// Config configures an [Ick]. The zero value works.
type Config struct {
	// Settle is how long a mark rests after its first add before it can be reserved, so that
	// a burst of changes is processed once. It needs scores in Unix seconds, and is rounded
	// down to microseconds. Defaults to 0, no rest.
	Settle time.Duration

	// Backwash lets older marks replace reserved ones at each reserve, so that a batch always
	// has the oldest of all marks. Work may be done twice. Defaults to false.
	Backwash bool

	// Enlister is notified when a reserve finds nothing. Defaults to none.
	Enlister millrace.Enlister

	// Logger reports failing batches and servers. Defaults to slog.Default().
	Logger *slog.Logger

	// Hooks observe calls and handlers. Defaults to none.
	Hooks []millrace.Hook
}

// Entry is a member with its score.
type Entry struct {
	Member string
	Score  float64 // the time of the first mark in Unix seconds, unless producers use another order
}

// New returns the Ick of that name. It does no I/O: the first add creates the Ick.
//
// The name is the Ick's version key, as in the gem, and may contain a {tag} that selects its
// cluster slot. If another value has that key, such as a counter of package scatter, calls return
// [millrace.ErrBroken]. Errors: [millrace.ErrBadName], [millrace.ErrBadArgument].
func New(client rueidis.Client, name string, cfg Config) (*Ick, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if cfg.Settle < 0 {
		return nil, millrace.ErrBadArgument.Errorf("Settle is negative: %s", cfg.Settle)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	codes := map[string]*millrace.Error{"ICKCHANNEL": errName}
	k := &Ick{
		name:   name,
		cfg:    cfg,
		run:    script.Runner{Client: client, Scripts: library, Hooks: cfg.Hooks, Errors: codes},
		shared: script.Runner{Client: client, Scripts: library, Hooks: repeatHooks(cfg.Hooks), Errors: codes},
	}
	k.adds = batch.New(batch.Config[[]mark, string]{Call: k.addTogether, Size: sizeOf, Changes: func([]mark) bool { return true }})
	k.entry.Enter(client, registry.Ick, name, cfg.Logger)
	return k, nil
}

// Name returns the Ick's name.
func (k *Ick) Name() string { return k.name }

func (k *Ick) call(ctx context.Context, name string, args ...string) (*script.Reply, error) {
	reply, err := k.run.Run(ctx, name, k.name, args...)
	return reply, k.explain(err)
}

// explain adds the meaning for an Ick to an error of a script.
func (k *Ick) explain(err error) error {
	switch {
	case errors.Is(err, millrace.ErrVersion) && strings.Contains(err.Error(), retired):
		return errRetired.Wrap(err)
	case errors.Is(err, millrace.ErrBadName):
		return errName.Errorf("%q is a channel, and cannot be used as an Ick", k.name).
			WithHint(fmt.Sprintf("Add through the channel (ick.NewChannel); its Icks are %s/0, %[1]s/1 and so on.", k.name)).Wrap(err)
	}
	return err
}

func checkMember(member string) error {
	if len(member) > maxMember {
		return millrace.ErrTooLarge.Errorf("a member has %d bytes, more than %d", len(member), maxMember)
	}
	return nil
}

// formatScore formats a score so that the server reads the same number.
func formatScore(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return strconv.FormatFloat(score, 'g', -1, 64)
}

// readScore reads a score: 0 for an empty text.
func readScore(r *script.Reply) float64 {
	text := r.Text()
	if text == "" {
		return 0
	}
	score, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return score
}
