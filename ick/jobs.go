package ick

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
)

// RetryJob returns the job that takes up parked members whose rest is over, up
// to 100 of an Ick at once, and wakes who waits for them. A reserve does that for
// its own Ick; the job does it where nobody reserves at the moment. It also forgets the
// answers that were kept for calls which are long over.
//
// A slice visits up to 50 of the Icks that [List] knows, all at the same time, and the
// next one goes on where it ended. One that does not answer keeps no others waiting.
func RetryJob(client rueidis.Client) millrace.Job {
	visitor := registry.NewVisitor(client, registry.Ick, func(ctx context.Context, name string) (bool, error) {
		k, err := New(client, name, Config{})
		if err != nil {
			return false, err
		}
		n, err := k.unparkChunk(ctx, "due", nil)
		return n > 0, err
	})
	return millrace.Job{Name: "ick.retry", Slice: visitor.Slice}
}

// TidyJob returns the job that forgets consumers of channels which died without
// a word, and that they owned any Icks. A consumer that lives does that for its
// own channel; the job does it where none does at the moment. Its slices are like
// those of [RetryJob].
func TidyJob(client rueidis.Client) millrace.Job {
	visitor := registry.NewVisitor(client, registry.Channel, func(ctx context.Context, name string) (bool, error) {
		c, err := NewChannel(client, name, ChannelConfig{})
		if err != nil {
			return false, err
		}
		n, err := c.tidy(ctx, "")
		return n > 0, err
	})
	return millrace.Job{Name: "ick.tidy", Slice: visitor.Slice}
}

// tidy removes a consumer from the channel, and those that are gone.
func (c *Channel) tidy(ctx context.Context, token string) (int64, error) {
	reply, err := c.call(ctx, "leave", token)
	if err != nil {
		return 0, err
	}
	return reply.Int(), reply.Err()
}
