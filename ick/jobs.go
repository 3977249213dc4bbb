package ick

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
)

// Jobs returns the upkeep of all registered Icks and channels; see [List]:
//
//   - ick.retry moves up to 100 parked members of an Ick back whose RetryDelay is over, and
//     wakes its consumer. A reserve does that for its own Ick. It also removes the stored
//     results of old calls.
//   - ick.tidy removes dead consumers from channels. Live consumers do that for their own
//     channel.
//
// A slice visits up to 50 structures at the same time, and the next one continues there. One
// that does not answer does not delay the others.
func Jobs(client rueidis.Client) []millrace.Job {
	retry := registry.NewVisitor(client, registry.Ick, func(ctx context.Context, name string) (bool, error) {
		k, err := New(client, name, Config{})
		if err != nil {
			return false, err
		}
		n, err := k.unparkChunk(ctx, "due", nil)
		return n > 0, err
	})
	tidy := registry.NewVisitor(client, registry.Channel, func(ctx context.Context, name string) (bool, error) {
		c, err := NewChannel(client, name, ChannelConfig{})
		if err != nil {
			return false, err
		}
		n, err := c.tidy(ctx, "")
		return n > 0, err
	})
	return []millrace.Job{{Name: "ick.retry", Slice: retry.Slice}, {Name: "ick.tidy", Slice: tidy.Slice}}
}

// tidy removes a consumer, "" for none, and dead ones from the channel.
func (c *Channel) tidy(ctx context.Context, token string) (int64, error) {
	reply, err := c.call(ctx, "leave", token)
	if err != nil {
		return 0, err
	}
	return reply.Int(), reply.Err()
}
