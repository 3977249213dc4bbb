package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// builder returns a builder of commands for single servers. Only a client has one, so
// it makes a client that is not connected.
func builder() rueidis.Builder {
	c, _ := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{"none"},
		ForceSingleClient: true,
		DisableCache:      true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, errors.New("this client is never used")
		},
	})
	defer c.Close()
	return c.B()
}

// DoCache is Do: a fleet has no client-side caching.
func (c *client) DoCache(ctx context.Context, cmd rueidis.Cacheable, _ time.Duration) rueidis.RedisResult {
	return c.Do(ctx, rueidis.Completed(cmd))
}

// DoMultiCache is DoMulti.
func (c *client) DoMultiCache(ctx context.Context, multi ...rueidis.CacheableTTL) []rueidis.RedisResult {
	cmds := make([]rueidis.Completed, len(multi))
	for i := range multi {
		cmds[i] = rueidis.Completed(multi[i].Cmd)
	}
	return c.DoMulti(ctx, cmds...)
}

// DoStream reads from the member that Do would ask first. Writes are refused: whether
// a write is in time is known only when its reply has arrived.
func (c *client) DoStream(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResultStream {
	return c.DoMultiStream(ctx, cmd)
}

// DoMultiStream does the same for commands of one partition.
func (c *client) DoMultiStream(ctx context.Context, multi ...rueidis.Completed) rueidis.MultiRedisResultStream {
	tags, err := c.tags(multi)
	if err != nil {
		return rueidis.NewErrorResultStream(err)
	}
	for _, cmd := range multi {
		if mayWrite(cmd) {
			return rueidis.NewErrorResultStream(ErrUnsupported.Errorf("%s may write, and cannot be streamed", cmd.Commands()[0]))
		}
	}
	targets, err := c.locate(ctx, tags, make([]bool, len(tags)))
	switch {
	case err != nil:
		return rueidis.NewErrorResultStream(err)
	case len(targets) == 0:
		return rueidis.NewErrorResultStream(ErrNoTag.Errorf("there is no command"))
	case slices.ContainsFunc(targets, func(t target) bool { return t.p.ID != targets[0].p.ID }):
		return rueidis.NewErrorResultStream(ErrMixedTags.Errorf("commands for several partitions cannot be streamed together"))
	}
	return targets[0].reader(ctx).waiting().DoMultiStream(ctx, multi...)
}

// Receive subscribes at one partition, for its client. A fleet has no channels: they
// have no tag.
func (c *client) Receive(ctx context.Context, subscribe rueidis.Completed, fn func(rueidis.PubSubMessage)) error {
	if c.partition == anyPartition {
		return ErrUnsupported.Errorf("a fleet has no channels")
	}
	t, err := c.locateOne(ctx, "", false)
	if err != nil {
		return err
	}
	inner, err := t.p.master().open(ctx)
	if err != nil {
		return err
	}
	return inner.Receive(ctx, subscribe, fn)
}

// Nodes returns the clients of the partitions by the addresses of their masters.
func (c *client) Nodes() map[string]rueidis.Client {
	nodes := map[string]rueidis.Client{}
	for _, p := range c.f.view.Load().partitions {
		if c.partition == anyPartition || c.partition == p.ID {
			nodes[p.master().addr] = c.f.partition(p.ID)
		}
	}
	return nodes
}

// Mode returns the mode of a cluster, which is most similar to a fleet.
func (c *client) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

// KeepsTogether marks the client for package script: the keys of a tag are always on one
// server, so only the first needs to be declared.
func (c *client) KeepsTogether() {}

// Map returns the map that the client uses, for [directory.MapOf].
func (c *client) Map() *directory.Map { return c.f.view.Load().m }

// Directory returns the fleet's directory, for [directory.Of].
func (c *client) Directory() *directory.Directory { return c.f.dir }

// Option returns how the client connects to members, for [directory.OptionOf].
func (c *client) Option() rueidis.ClientOption { return c.f.cfg.Option }

// Close closes the fleet, for its own client.
func (c *client) Close() {
	if c == c.f.whole {
		c.f.Close()
	}
}
