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

	"github.com/millrace/millrace/internal/script"
)

const (
	// Max is how many entries of each action stay.
	Max = 200

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
		"hash.delete",
		"ick.delete", "ick.drop", "ick.retry",
		"lease.release",
		"queue.cancel", "queue.dead", "queue.delete", "queue.keep-dead", "queue.pause", "queue.position",
		"queue.purge", "queue.purge-matching", "queue.redrive", "queue.redrive-matching", "queue.resize", "queue.resume",
		"queue.return", "queue.write",
		"schedule.create", "schedule.pause", "schedule.remove", "schedule.resume", "schedule.run", "schedule.set",
		"tenant.clear", "tenant.limits", "tenant.pause", "tenant.purge", "tenant.resume",
	}
}

// Entry is one action.
type Entry struct {
	ID     string    `json:"-"`                // of the action; the same id is entered once, and once as failed
	At     time.Time `json:"-"`                // by the server's clock
	Action string    `json:"-"`                // one of Actions
	Who    string    `json:"who,omitempty"`    // the client by its credentials; empty if there are none
	From   string    `json:"from,omitempty"`   // its address
	Way    string    `json:"way"`              // pages or api
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
}

// New returns the log of a Redis. It asks Redis nothing.
func New(client rueidis.Client, logger *slog.Logger) *Log {
	return &Log{client, script.Runner{Client: client, Scripts: library}, logger}
}

// Note enters an action. A failure is logged.
func (l *Log) Note(ctx context.Context, e Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	id := e.ID
	if e.Error != "" {
		id += "!" // a repeat may succeed
	}
	text, err := e.encode()
	if err == nil {
		_, err = l.run.Run(ctx, "note", keyPrefix+e.Action, id, text, strconv.Itoa(Max))
	}
	if err != nil {
		l.logger.WarnContext(ctx, "an action is missing in the audit log", "action", e.Action, "err", err)
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

// List returns up to most actions, the latest first, without the first ones. Lines that are no
// entry are left out.
func (l *Log) List(ctx context.Context, first, most int) ([]Entry, error) {
	var reads rueidis.Commands
	for _, action := range Actions() {
		reads = append(reads, l.client.B().Lrange().Key(keyPrefix+action).Start(0).Stop(int64(first+most-1)).Build())
	}
	var entries []Entry
	for i, reply := range l.client.DoMulti(ctx, reads...) {
		lines, err := reply.AsStrSlice()
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			if e, ok := decode(line); ok {
				e.Action = Actions()[i]
				entries = append(entries, e)
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return b.At.Compare(a.At) })
	first = min(first, len(entries))
	return entries[first:min(first+most, len(entries))], nil
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
