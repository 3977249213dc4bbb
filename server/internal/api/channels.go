package api

import (
	"context"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/ops"
)

func (a *API) routeChannels() {
	register(a, ops.ListChannels, func(ctx context.Context, _ *ops.Nothing) (ops.Channels, error) {
		names, missing, err := a.namesOf(ctx, ick.ListChannels)
		return ops.Channels{Channels: names, Incomplete: missing}, err
	})
	ask(a, a.openChannel, ops.DeleteChannel)
	ask(a, a.openChannel, ops.GetChannelStats)
	tell(a, a.openChannel, ops.AddToChannel)
	tell(a, a.openChannel, ops.ResizeChannel)
	on(a, ops.WorkChannel.Row, a.openChannel, func(ctx context.Context, c *ick.Channel, in *channelRound) (ops.ChannelTaken, error) {
		return take(ctx, a, c, ops.WorkChannel, in.Body, in.lease(), len(in.Body.Done)+len(in.Body.Failed) > 0)
	})
}

// channelRound is a request of a worker of a channel.
type channelRound struct {
	Named

	Body ops.ChannelRound
}

func (r *channelRound) wait() (field string, d time.Duration) { return "block", r.Body.Block.Duration }

func (r channelRound) body() any { return r.Body }

// lease is for how long the batches of the answer are the worker's.
func (r *channelRound) lease() time.Duration {
	if r.Body.Lease.Duration == 0 {
		return ick.DefaultLease
	}
	return r.Body.Lease.Duration
}

// openChannel returns the channel that a request is about.
func (a *API) openChannel(_ context.Context, in hasName) (*ick.Channel, error) {
	cfg, use := a.ickConfig(in)
	return a.channels.get(use, func() (*ick.Channel, error) {
		return ick.NewChannel(a.cfg.Client, use.name, ick.ChannelConfig{Ick: cfg})
	})
}
