package audit

import (
	"context"
	"embed"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

const (
	// Key is the list of actions.
	Key = "mr:audit"

	// Max is how many actions stay.
	Max = 1000

	// noteTimeout limits a write of the log, which an operator waits for.
	noteTimeout = 2 * time.Second

	// maxField is the longest text of an entry in bytes. An entry has six, and JSON may
	// need six bytes for one.
	maxField = 100

	// maxResult is the longest result in bytes.
	maxResult = 400
)

// Entry is one action.
type Entry struct {
	At     time.Time `json:"-"`                // by the server's clock
	Who    string    `json:"who,omitempty"`    // the client by its credentials; empty if there are none
	From   string    `json:"from,omitempty"`   // its address
	Way    string    `json:"way"`              // pages or api
	Action string    `json:"action"`           // such as queue.pause
	Name   string    `json:"name,omitempty"`   // of the structure
	Result string    `json:"result,omitempty"` // what was done
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
	for _, field := range []*string{&e.Who, &e.From, &e.Way, &e.Action, &e.Name} {
		*field = cut(*field, maxField)
	}
	e.Result, e.Error = cut(e.Result, maxResult), cut(e.Error, maxResult)
	text, err := json.Marshal(e)
	if err == nil {
		_, err = l.run.Run(ctx, "note", Key, string(text), strconv.Itoa(Max))
	}
	if err != nil {
		l.logger.WarnContext(ctx, "an action is missing in the audit log", "action", e.Action, "err", err)
	}
}

// List returns up to most actions, the latest first, without the first ones. What is no entry
// is left out.
func (l *Log) List(ctx context.Context, first, most int) ([]Entry, error) {
	lines, err := l.client.Do(ctx, l.client.B().Lrange().Key(Key).Start(int64(first)).Stop(int64(first+most-1)).Build()).AsStrSlice()
	var entries []Entry
	for _, line := range lines {
		ms, text, _ := strings.Cut(line, " ")
		at, wrong := strconv.ParseInt(ms, 10, 64)
		var e Entry
		if wrong != nil || json.Unmarshal([]byte(text), &e) != nil {
			continue
		}
		e.At = time.UnixMilli(at)
		entries = append(entries, e)
	}
	return entries, err
}

// cut shortens a text to a number of bytes. JSON replaces what is no UTF-8.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
