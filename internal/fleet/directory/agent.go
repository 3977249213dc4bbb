package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/script"
)

// Event is an entry of the log: what an agent did, or failed to do.
type Event struct {
	At        time.Time `json:"at,omitzero"` // by the directory's clock
	Agent     string    `json:"agent"`       // its name
	Partition int       `json:"partition"`   // -1 for the fleet as a whole
	Epoch     int64     `json:"epoch"`       // of the map, afterwards
	What      string    `json:"what"`        // in a few words
}

// SettleTime is how long a replaced server of the directory may still confirm maps:
// until min-replicas-to-write stops it, with a min-replicas-max-lag of 2 seconds.
const SettleTime = 4 * time.Second

// always is how long the first server has answered.
const always = 24 * time.Hour

// Lead implements Directory.
func (d *Redis) Lead(ctx context.Context, agent string, ttl time.Duration) (leads bool, settled time.Duration, err error) {
	reply, _, err := d.write(ctx, "lead", agent, strconv.FormatInt(ttl.Milliseconds(), 10))
	if err != nil {
		return false, 0, err
	}
	leads, _ = reply.Bool(), reply.Text()
	settled = always
	if ms := reply.Int(); ms >= 0 {
		settled = time.Duration(ms) * time.Millisecond
	}
	return leads, settled, reply.Err()
}

// Note implements Directory.
func (d *Redis) Note(ctx context.Context, event Event) error {
	event.At = time.Time{}
	text, err := json.Marshal(event)
	if err != nil {
		return err
	}
	_, _, err = d.write(ctx, "note", string(text))
	return err
}

// Events implements Directory.
func (d *Redis) Events(ctx context.Context) ([]Event, error) {
	texts, _, err := ask(ctx, d, int(d.master.Load()), func(ctx context.Context, s *script.Runner) ([]string, error) {
		return s.Client.Do(ctx, s.Client.B().Lrange().Key(logKey(baseKey)).Start(0).Stop(-1).Build()).AsStrSlice()
	})
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(texts))
	for i, text := range texts {
		at, rest, _ := strings.Cut(text, " ")
		ms, err := strconv.ParseInt(at, 10, 64)
		if err == nil {
			err = json.Unmarshal([]byte(rest), &events[i])
		}
		if err != nil {
			return nil, fmt.Errorf("the directory holds the event %q: %w", text, err)
		}
		events[i].At = time.UnixMilli(ms).UTC()
	}
	return events, nil
}
