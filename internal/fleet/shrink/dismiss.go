package shrink

import (
	"context"
	"embed"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/replicas"
	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the script that clears a server.
var library = script.Load(folder, "K:")

// dismissTimeout is how long a server has to answer. The removal does not depend on it.
const dismissTimeout = 5 * time.Second

// dismiss removes the fleet's own keys from the servers of a partition, and fences them, so
// that they can be used again. A server that does not answer keeps them.
func (c *Config) dismiss(ctx context.Context, fleet string, p directory.Partition) {
	c.report("clearing the servers of partition %d", p.ID)
	pool := members.New(c.Option, dismissTimeout)
	defer pool.Close()
	ctx, cancel := context.WithTimeout(ctx, dismissTimeout)
	defer cancel()
	identity := members.Identity(fleet, p.ID)
	failed := func(addr string, err error) {
		if err != nil {
			c.report("%s was not cleared, do so before it is used again: %v", addr, err)
		}
	}
	// Replicas take no writes, and receive this from the master.
	cleared, err := members.Ask(ctx, pool, p.Master.Addr, func(ctx context.Context, c rueidis.Client) (int64, error) {
		clearing := c.B().Eval().Script(library.Script("dismiss").Source()).Numkeys(1).Key(members.Base).Arg(identity).Build()
		results, _, _ := replicas.Confirm(ctx, c, members.Base, len(p.Replicas), time.Second, clearing)
		return results[0].AsInt64()
	})
	if failed(p.Master.Addr, err); err == nil && cleared == 0 {
		return // it is in use elsewhere
	}
	errs := make([]error, len(p.Members()))
	var fencing sync.WaitGroup
	for i, m := range p.Members() {
		fencing.Go(func() {
			_, errs[i] = members.Ask(ctx, pool, m.Addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
				return struct{}{}, members.Fence(ctx, c)
			})
		})
	}
	fencing.Wait()
	for i, m := range p.Members() {
		failed(m.Addr, errs[i])
	}
}
