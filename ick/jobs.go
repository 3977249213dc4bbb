package ick

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// perSlice is how many keys, of any kind, one slice of a job looks at.
const perSlice = 200

// RetryJob returns the job that takes up parked members whose rest is over, up
// to 100 of an Ick at once, and wakes who waits for them. A reserve does that for
// its own Ick; the job does it where nobody reserves at the moment.
//
// There is no index of all Icks. A slice looks at about 200 keys, of any kind, and
// the next one goes on where it ended.
func RetryJob(client rueidis.Client) millrace.Job {
	const suffix = "}/" + keyParked
	rounds := &script.Rounds{Client: client, Match: "*/ick/{*" + suffix, Count: perSlice}
	rounds.Visit = func(ctx context.Context, key string) (bool, error) {
		name, ok := nameOf(key)
		if !ok || !strings.HasSuffix(key, suffix) {
			return false, nil
		}
		k, err := New(client, name, Config{})
		if err != nil {
			return false, err
		}
		n, err := k.unparkChunk(ctx, "due", nil)
		return n > 0, err
	}
	return millrace.Job{Name: "ick.retry", Slice: rounds.Slice}
}

// TidyJob returns the job that forgets consumers of channels which died without
// a word, and that they owned any Icks. A consumer that lives does that for its
// own channel; the job does it where none does at the moment. Its slices are like
// those of [RetryJob].
func TidyJob(client rueidis.Client) millrace.Job {
	rounds := &script.Rounds{Client: client, Match: channelPrefix + "*", Count: perSlice}
	rounds.Visit = func(ctx context.Context, key string) (bool, error) {
		name, ok := strings.CutPrefix(key, channelPrefix)
		name, base := strings.CutSuffix(name, "}")
		if !ok || !base {
			return false, nil // one of a channel's other keys
		}
		c, err := NewChannel(client, name, ChannelConfig{})
		if err != nil {
			return false, err
		}
		n, err := c.tidy(ctx, "")
		return n > 0, err
	}
	return millrace.Job{Name: "ick.tidy", Slice: rounds.Slice}
}

// tidy removes a consumer from the channel, and those that are gone.
func (c *Channel) tidy(ctx context.Context, token string) (int64, error) {
	reply, err := c.call(ctx, "leave", token)
	if err != nil {
		return 0, err
	}
	return reply.Int(), reply.Err()
}
