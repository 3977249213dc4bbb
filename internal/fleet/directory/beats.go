package directory

import (
	"context"
	"encoding/json"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/script"
)

// Beats has the newest known beat of each partition. It is a value of its own, beside the map,
// since it changes every few seconds.
type Beats map[int]members.Beat

// beatsKey is a string: the JSON of Beats.
const beatsKey = baseKey + ":beats"

// Beats implements Directory.
func (d *Redis) Beats(ctx context.Context) (Beats, error) {
	text, _, err := Ask(ctx, d.servers, int(d.master.Load()), func(ctx context.Context, s *script.Runner) (string, error) {
		text, err := s.Client.Do(ctx, s.Client.B().Get().Key(beatsKey).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			return "", nil
		}
		return text, err
	})
	if err != nil {
		return nil, err
	}
	return ParseBeats(text)
}

// KeepBeats implements Directory.
func (d *Redis) KeepBeats(ctx context.Context, beats Beats) error {
	text, err := json.Marshal(beats)
	if err != nil {
		return err
	}
	_, _, err = d.write(ctx, "beats", string(text))
	return err
}

// ParseBeats reads the stored form of Beats, "" for none.
func ParseBeats(text string) (Beats, error) {
	beats := Beats{}
	if text == "" {
		return beats, nil
	}
	err := json.Unmarshal([]byte(text), &beats)
	return beats, err
}
