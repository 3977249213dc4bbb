package directory

import (
	"context"
	"encoding/json"

	"github.com/millrace/millrace/internal/fleet/members"
)

// Beats has the newest known beat of each partition. It is a value of its own, beside the map,
// since it changes every few seconds.
type Beats map[int]members.Beat

// Beats returns the beats that KeepBeats last stored, empty if there are none.
func (d *Directory) Beats(ctx context.Context) (Beats, error) {
	values, err := d.Store.Get(ctx, Present, "beats")
	if err != nil {
		return nil, err
	}
	return parseBeats(values[0].Text)
}

// KeepBeats stores the newest known beat of each partition, for agents that have seen none. A newer one that is there stays.
func (d *Directory) KeepBeats(ctx context.Context, beats Beats) error {
	return d.edit(ctx, "beats", func(text string) (string, error) {
		all, err := parseBeats(text)
		if err != nil {
			return "", err
		}
		for id, beat := range beats {
			all[id] = all[id].Newer(beat)
		}
		next, err := json.Marshal(all)
		return string(next), err
	})
}

// parseBeats reads the stored form of Beats, "" for none.
func parseBeats(text string) (Beats, error) {
	beats := Beats{}
	if text == "" {
		return beats, nil
	}
	err := json.Unmarshal([]byte(text), &beats)
	return beats, err
}
