package tracker

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

const (
	// RowsDefault is how many rows an add slice looks at.
	RowsDefault = 1000

	// MaxRows is how many it looks at at most.
	MaxRows = 10_000

	// IDsDefault is how many identifiers a verify slice asks about.
	IDsDefault = 50

	// MaxIDs is how many identifiers a slice handles at most.
	MaxIDs = 1000

	// GraceDefault is for how long an identifier is left alone after it was seen.
	GraceDefault = 10 * time.Second
)

// Tracker knows which identifiers have work queued. It is safe for concurrent
// use.
type Tracker struct {
	name   string
	cfg    Config
	run    script.Runner
	slices script.Runner // what is stolen is not repeated
	looks  pace          // rows
	asks   pace          // identifiers
	entry  registry.Entry
}

// Config is how this process uses a tracker. The zero value works for a program
// that adds and asks.
type Config struct {
	// Source is the table that the two jobs keep the tracker in step with, see
	// [SQL]. Defaults to none: then [Tracker.Fill] and the jobs fail.
	Source Source

	// AddRows is how many rows an add slice looks at at most, with work queued or not, up
	// to [MaxRows]. Slices look at fewer when the source is slow. Defaults to [RowsDefault].
	AddRows int

	// VerifyIDs is how many identifiers a verify slice asks about at most, up to
	// [MaxIDs]. Slices ask about fewer when the source is slow. Defaults to [IDsDefault].
	VerifyIDs int

	// Grace is for how long an identifier is not verified after it was added or
	// confirmed; at least a millisecond. It must be longer than it takes until the
	// source shows a row whose identifier was added: the lag of a replica, or the
	// rest of a transaction. Defaults to [GraceDefault].
	Grace time.Duration

	// Enlister is told after each answer of [Tracker.Queued] and
	// [Tracker.QueuedMany]. Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch the calls. Defaults to none.
	Hooks []millrace.Hook

	// Logger is told about rows whose identifiers cannot be tracked. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// New returns the tracker of that name. It does not ask Redis. Errors: [millrace.ErrBadName],
// [millrace.ErrBadArgument].
func New(client rueidis.Client, name string, cfg Config) (*Tracker, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	cfg.AddRows, cfg.VerifyIDs = cmp.Or(cfg.AddRows, RowsDefault), cmp.Or(cfg.VerifyIDs, IDsDefault)
	if cfg.AddRows < 0 || cfg.AddRows > MaxRows {
		return nil, millrace.ErrBadArgument.Errorf("an add slice looks at 1 to %d rows, not %d", MaxRows, cfg.AddRows)
	}
	if cfg.VerifyIDs < 0 || cfg.VerifyIDs > MaxIDs {
		return nil, millrace.ErrBadArgument.Errorf("a verify slice asks about 1 to %d identifiers, not %d", MaxIDs, cfg.VerifyIDs)
	}
	if cfg.Grace == 0 {
		cfg.Grace = GraceDefault
	}
	if cfg.Grace < time.Millisecond {
		return nil, millrace.ErrBadArgument.Errorf("the grace is a millisecond or longer, not %s", cfg.Grace)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	t := &Tracker{
		name: name,
		cfg:  cfg,
		run:  script.Runner{Client: client, Scripts: library, Hooks: cfg.Hooks},
		slices: script.Runner{
			Client: client, Scripts: library, Hooks: cfg.Hooks,
			Retry: retry.Policy{Patience: time.Nanosecond},
		},
	}
	t.entry.Enter(client, registry.Tracker, name, cfg.Logger)
	return t, nil
}

// Name returns the tracker's name.
func (t *Tracker) Name() string { return t.name }

// Add notes that identifiers have work queued, as of now. Producers call it after
// the transaction that queued the work was committed; package documentation says
// why not before. More than 1,000 identifiers take several calls to Redis; when
// one of them fails, the earlier ones stand. Errors: [ErrID], [millrace.ErrBroken],
// [millrace.ErrVersion], and millrace.ErrFull.
func (t *Tracker) Add(ctx context.Context, ids ...string) error {
	return t.each(ids, func(part []string) error {
		_, err := t.run.Run(ctx, "add", baseKey(t.name), part...)
		if err == nil {
			t.entry.Touch()
		}
		return err
	})
}

// Delete removes the tracker whole. Until the next first pass is over, the answer
// is [Unknown]. It returns how many keys there were.
func (t *Tracker) Delete(ctx context.Context) (int, error) {
	reply, err := t.run.Run(ctx, "delete", baseKey(t.name))
	if err != nil {
		return 0, err
	}
	t.entry.Leave(ctx)
	return int(reply.Int()), reply.Err()
}

// each checks identifiers and hands them to call in parts.
func (t *Tracker) each(ids []string, call func(part []string) error) error {
	for _, id := range ids {
		if err := CheckID(id); err != nil {
			return err
		}
	}
	for part := range script.Chunks(ids, MaxIDs, func(id string) int { return len(id) }) {
		if err := call(part); err != nil {
			return err
		}
	}
	return nil
}

// texts runs a script that answers with at least n values.
func (t *Tracker) texts(ctx context.Context, run *script.Runner, n int, name string, args ...string) ([]string, error) {
	reply, err := run.Run(ctx, name, baseKey(t.name), args...)
	if err != nil {
		return nil, err
	}
	list := make([]string, 0, reply.Len())
	for reply.More() || len(list) < n && reply.Err() == nil {
		list = append(list, reply.Text())
	}
	return list, reply.Err()
}

// number reads a number that Redis keeps as a text; absent is 0.
func number(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(text, 64) // a score may be written as 1.7e+12
	if err != nil {
		return 0, millrace.ErrBroken.Wrap(err)
	}
	return int64(f), nil
}
