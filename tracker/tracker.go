package tracker

import (
	"cmp"
	"context"
	"embed"
	"iter"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// MaxIDs is the largest number of identifiers in one call to a [Source].
const MaxIDs = 1000

const (
	defaultRows  = 1000
	maxRows      = 10_000
	defaultIDs   = 50
	defaultGrace = 10 * time.Second

	maxBytes = 512 // of a name and of an identifier
)

// Tracker answers which identifiers have work queued. It is safe for concurrent use.
type Tracker struct {
	name    string
	cfg     Config
	run     script.Runner
	slices  script.Runner // without retries
	rowPace pace
	idPace  pace
	entry   registry.Entry
}

// Config has the settings of a [Tracker]. The zero value works for a program that adds and
// asks.
type Config struct {
	// Source is the table that the jobs follow, see [SQL]. Defaults to none: then
	// [Tracker.Fill] and the jobs fail.
	Source Source

	// AddRows is the largest number of rows that an add slice reads, with work queued or not,
	// up to 10,000. Slices read fewer when the source is slow. Defaults to 1,000.
	AddRows int

	// VerifyIDs is the largest number of identifiers that a verify slice asks about, up to
	// [MaxIDs]. Slices ask about fewer when the source is slow. Defaults to 50.
	VerifyIDs int

	// Grace is how long an identifier is not verified after it was added or confirmed, at
	// least a millisecond. It must be longer than the time until the source shows a row whose
	// identifier was added: the lag of a replica, or the rest of a transaction. Defaults to
	// 10 seconds.
	Grace time.Duration

	// Enlister is notified after each call of [Tracker.Queued] that is answered. Defaults to
	// none.
	Enlister millrace.Enlister

	// Hooks observe the calls. Defaults to none.
	Hooks []millrace.Hook

	// Logger gets a warning about rows whose identifiers cannot be tracked, and when the jobs
	// do not advance because the source is too slow. Defaults to slog.Default().
	Logger *slog.Logger
}

// New returns the tracker of that name. It does not call Redis. Errors: [millrace.ErrBadName],
// [millrace.ErrBadArgument].
func New(client rueidis.Client, name string, cfg Config) (*Tracker, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	cfg.AddRows, cfg.VerifyIDs = cmp.Or(cfg.AddRows, defaultRows), cmp.Or(cfg.VerifyIDs, defaultIDs)
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	switch {
	case cfg.AddRows < 0 || cfg.AddRows > maxRows:
		return nil, millrace.ErrBadArgument.Errorf("AddRows is 1 to %d, not %d", maxRows, cfg.AddRows)
	case cfg.VerifyIDs < 0 || cfg.VerifyIDs > MaxIDs:
		return nil, millrace.ErrBadArgument.Errorf("VerifyIDs is 1 to %d, not %d", MaxIDs, cfg.VerifyIDs)
	case cfg.Grace < time.Millisecond:
		return nil, millrace.ErrBadArgument.Errorf("Grace is a millisecond or longer, not %s", cfg.Grace)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	t := &Tracker{
		name: name, cfg: cfg,
		run:    script.Runner{Client: client, Scripts: library, Hooks: cfg.Hooks},
		slices: script.Runner{Client: client, Scripts: library, Hooks: cfg.Hooks, Retry: retry.Policy{Timeout: time.Nanosecond}},
	}
	t.entry.Enter(client, registry.Tracker, name, cfg.Logger)
	return t, nil
}

// Name returns the tracker's name.
func (t *Tracker) Name() string { return t.name }

// Add records that identifiers of 1 to 512 bytes have work queued, as of now. Producers call
// it after they committed the transaction that queued the work; doc.go says why not before.
// More than 1,000 identifiers take several calls to Redis; when one fails, the earlier ones
// stand. Errors: [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion],
// [millrace.ErrFull].
func (t *Tracker) Add(ctx context.Context, ids ...string) error {
	return t.each(ids, func(chunk []string) error {
		_, err := t.run.Run(ctx, "add", baseKey(t.name), chunk...)
		if err == nil {
			t.entry.Touch()
		}
		return err
	})
}

// State is the tracker's answer about an identifier.
type State string

// The states of an identifier.
const (
	Unknown   State = "unknown"    // no pass is complete yet; ask the database
	Queued    State = "queued"     // work is queued
	NotQueued State = "not queued" // no work is queued
)

// Answer is the tracker's knowledge about one identifier.
type Answer struct {
	State State

	// Age is the age of the knowledge by the server's clock. If [Queued]: since the
	// identifier was last seen with work. If [NotQueued]: since the last complete pass began,
	// which would have seen work queued before. If [Unknown]: 0.
	Age time.Duration
}

// Queued returns from memory whether identifiers have work queued: an answer for each, in their
// order. A tracked identifier is [Queued], any other [NotQueued], or [Unknown] until the first pass
// over the source is complete. Each 1,000 of them are answered as of one moment. Errors:
// [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion].
func (t *Tracker) Queued(ctx context.Context, ids ...string) ([]Answer, error) {
	answers := make([]Answer, 0, len(ids))
	err := t.each(ids, func(chunk []string) error {
		values, err := t.texts(ctx, &t.run, 3+len(chunk), "queued", chunk...)
		if err != nil {
			return err
		}
		now, err := number(values[0])
		for _, stamp := range values[3:] {
			a := Answer{State: Queued}
			switch {
			case stamp != "":
			case values[1] == "0":
				answers = append(answers, Answer{State: Unknown})
				continue
			default:
				a.State, stamp = NotQueued, values[2]
			}
			since, bad := number(stamp)
			if err = cmp.Or(err, bad); err != nil {
				return err
			}
			a.Age = age(now, since)
			answers = append(answers, a)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if t.cfg.Enlister != nil && ctx.Err() == nil {
		t.cfg.Enlister.Enlist(ctx)
	}
	return answers, nil
}

// Delete removes the whole tracker. Until the next first pass is complete, answers are
// [Unknown]. It returns the number of deleted keys.
func (t *Tracker) Delete(ctx context.Context) (int, error) {
	reply, err := t.run.Run(ctx, "delete", baseKey(t.name))
	if err != nil {
		return 0, err
	}
	t.entry.Leave(ctx)
	return int(reply.Int()), reply.Err()
}

// Stats describes a tracker at one moment.
type Stats struct {
	Name    string
	At      time.Time // the server's time
	Tracked int       // identifiers

	// OldestCheck is the longest time since an identifier was last seen with work. Finished
	// work is shown that long at most, plus the time until the verify slice reaches it. 0 when
	// nothing is tracked.
	OldestCheck time.Duration

	Passes    int64         // complete passes over the source; before the first, answers are Unknown
	PassAge   time.Duration // since the last complete pass began; 0 before the first
	PassTime  time.Duration // duration of that pass; 0 before the first
	CursorAge time.Duration // since an add slice last moved the cursor; 0 before the first

	Counters Counters
}

// Counters count identifiers since the tracker's record began, over all processes.
type Counters struct {
	Added     int64 `json:"added" doc:"New identifiers, from producers and from passes."`
	Confirmed int64 `json:"confirmed" doc:"Identifiers that were verified and have work."`
	Removed   int64 `json:"removed" doc:"Identifiers that were verified and have no work."`
}

// Stats returns statistics and changes nothing. A tracker that was never written to tracks
// nothing and has no pass. Errors: [millrace.ErrBroken], [millrace.ErrVersion].
func (t *Tracker) Stats(ctx context.Context) (Stats, error) {
	values, err := t.texts(ctx, &t.run, 10, "stats")
	if err != nil {
		return Stats{}, err
	}
	var n [10]int64
	for i := range n {
		if n[i], err = number(values[i]); err != nil {
			return Stats{}, err
		}
	}
	now := n[0]
	since := func(ms int64) time.Duration {
		if ms == 0 {
			return 0
		}
		return age(now, ms)
	}
	return Stats{
		Name: t.name, At: time.UnixMilli(now), Passes: n[1], Tracked: int(n[2]),
		OldestCheck: since(n[3]), PassAge: since(n[4]), PassTime: age(n[5], n[4]), CursorAge: since(n[6]),
		Counters: Counters{Added: n[7], Confirmed: n[8], Removed: n[9]},
	}, nil
}

// List yields the names of the registered trackers, in no order. Programs that add to a tracker
// register it. The cost grows with the number of structures only.
//
// When servers do not answer, List yields the names on the others and then
// [millrace.ErrPartial].
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return registry.List(ctx, client, registry.Tracker, checkName)
}

// baseKey is a hash, the tracker's record: version, life, passes, cursor, pass_started_ms,
// full_started_ms, full_ended_ms, moved_ms, added, confirmed, removed. The braces keep all
// keys of a tracker in one slot of a Redis Cluster.
func baseKey(name string) string { return "mr:tracker:{" + name + "}" }

// idsKey is a sorted set: the identifiers, with the time when each was last seen with work, in
// Unix milliseconds, and the empty identifier as a mark, at infinity.
func idsKey(base string) string { return base + ":ids" }

func checkName(name string) error {
	return names.Check(millrace.ErrBadName, "name of a tracker", name, maxBytes)
}

var errID = millrace.ErrBadArgument.WithHint("Use 1 to 512 bytes; track a hash of a longer identifier.")

func checkID(id string) error {
	if id == "" || len(id) > maxBytes {
		return errID.Errorf("an identifier is 1 to %d bytes long, not %d", maxBytes, len(id))
	}
	return nil
}

// each checks identifiers and calls call with chunks of them.
func (t *Tracker) each(ids []string, call func(chunk []string) error) error {
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return err
		}
	}
	for chunk := range script.Chunks(ids, MaxIDs, func(id string) int { return len(id) }) {
		if err := call(chunk); err != nil {
			return err
		}
	}
	return nil
}

// texts runs a script that replies with at least n values.
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

// number parses a number that Redis stores as text; absent is 0.
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

// age is the time from since to now, both in Unix milliseconds; 0 if the clock was set back.
func age(now, since int64) time.Duration {
	return time.Duration(max(0, now-since)) * time.Millisecond
}
