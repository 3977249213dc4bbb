package audit

import (
	"context"
	"embed"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// Max is how many entries of each action stay.
	Max = 200

	// Age is for how long an entry stays, by the server's clock.
	Age = 90 * 24 * time.Hour

	// keyPrefix begins the key of an action. All lie in one slot of a Cluster.
	keyPrefix = "mr:audit:{log}:"

	// noteTimeout limits a write of the log, which an operator waits for.
	noteTimeout = 2 * time.Second

	// maxField is the longest text of an entry in bytes. JSON may need six bytes for one.
	maxField = 100

	// maxResult is the longest result in bytes, or error.
	maxResult = 400

	// maxEntry is the largest entry as JSON in bytes. Of a larger one the result and the error
	// are shortened.
	maxEntry = 4 << 10
)

// Actions are the names of all actions. Each has entries of its own, so that many of one kind
// do not replace those of another.
func Actions() []string {
	return []string{
		"channel.delete", "channel.resize",
		"hash.delete",
		"ick.delete", "ick.drop", "ick.retry",
		"batch.cancel",
		"lease.release",
		"queue.cancel", "queue.dead", "queue.dead-after", "queue.delete", "queue.keep-dead", "queue.pause", "queue.position",
		"queue.purge", "queue.purge-matching", "queue.redrive", "queue.redrive-matching", "queue.resize", "queue.resume",
		"queue.retry", "queue.retry-failed", "queue.retry-matching",
		"queue.return", "queue.write",
		"schedule.create", "schedule.pause", "schedule.remove", "schedule.resume", "schedule.run", "schedule.set",
		"tenant.clear", "tenant.limits", "tenant.pause", "tenant.purge", "tenant.resume",
		"tracker.delete",
	}
}

// Entry is one action.
type Entry struct {
	ID     string    `json:"-"`                // of the action; the same id is entered once, and once as failed
	At     time.Time `json:"-"`                // by the server's clock
	Action string    `json:"-"`                // one of Actions
	Who    string    `json:"who,omitempty"`    // the client by its credentials; empty if there are none
	From   string    `json:"from,omitempty"`   // its address
	Way    string    `json:"way"`              // pages, api or command
	Name   string    `json:"name,omitempty"`   // of the structure
	Result string    `json:"result,omitempty"` // of an action that succeeded
	Error  string    `json:"error,omitempty"`  // why nothing was done
}

//go:embed note.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// Log is the log of actions of one Redis. It is safe for concurrent use.
type Log struct {
	client rueidis.Client
	run    script.Runner
	logger *slog.Logger
	level  slog.Level
}

// New returns the log of a Redis. It asks Redis nothing. Entries that cannot be written are logged
// with the level.
func New(client rueidis.Client, logger *slog.Logger, level slog.Level) *Log {
	return &Log{client, script.Runner{Client: client, Scripts: library}, logger, level}
}

// Note enters an action, and removes old entries. A failure is logged.
func (l *Log) Note(ctx context.Context, e Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	id := e.ID
	if e.Error != "" {
		id += "!" // a repeat may succeed
	}
	text, err := e.encode()
	if err == nil {
		args := []string{id, text, strconv.Itoa(Max), strconv.Itoa(int(Age.Seconds()))}
		_, err = l.run.Run(ctx, "note", keyPrefix+e.Action, append(args, Actions()...)...)
	}
	if err != nil {
		l.logger.Log(ctx, l.level, "an action is missing in the audit log", "action", e.Action, "err", err)
	}
}

// encode returns an entry as JSON of bounded length.
func (e Entry) encode() (string, error) {
	for _, field := range []*string{&e.Who, &e.From, &e.Way, &e.Name} {
		*field = cut(*field, maxField)
	}
	for most := maxResult; ; most /= 2 {
		e.Result, e.Error = cut(e.Result, most), cut(e.Error, most)
		if text, err := json.Marshal(e); err != nil || len(text) <= maxEntry || most == 0 {
			return string(text), err
		}
	}
}

// ListConfig selects entries of the log.
type ListConfig struct {
	Action string           // one of Actions; empty for all
	Owns   func(Entry) bool // nil for all
	First  int              // how many of the latest ones to leave out
	Most   int              // how many
}

// List returns the selected actions, the latest first. Lines that are no entry are left out.
func (l *Log) List(ctx context.Context, cfg ListConfig) ([]Entry, error) {
	actions, last := Actions(), min(cfg.First+cfg.Most, Max)
	if cfg.Action != "" {
		actions = []string{cfg.Action}
	}
	if cfg.Owns != nil {
		last = Max // any of them may be selected
	}
	var reads rueidis.Commands
	for _, action := range actions {
		reads = append(reads, l.client.B().Lrange().Key(keyPrefix+action).Start(0).Stop(int64(last-1)).Build())
	}
	var entries []Entry
	for i, reply := range l.client.DoMulti(ctx, reads...) {
		lines, err := reply.AsStrSlice()
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			e, ok := decode(line)
			if e.Action = actions[i]; ok && (cfg.Owns == nil || cfg.Owns(e)) {
				entries = append(entries, e)
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return b.At.Compare(a.At) })
	first := min(cfg.First, len(entries))
	return entries[first:min(first+cfg.Most, len(entries))], nil
}

// decode reads the stored form: "ID MICROSECONDS JSON".
func decode(line string) (e Entry, ok bool) {
	id, rest, _ := strings.Cut(line, " ")
	micros, text, _ := strings.Cut(rest, " ")
	at, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || json.Unmarshal([]byte(text), &e) != nil {
		return e, false
	}
	e.ID, e.At = id, time.UnixMicro(at)
	return e, true
}

// cut shortens a text to a number of bytes. JSON replaces invalid UTF-8.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
