package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/fairqueue"
)

// couriers is one courier after the other, as a program that is deployed again and
// again: the next one starts, and the one before drains.
type couriers struct {
	queue     *fairqueue.Queue
	endpoints map[string]endpoint
	hands     int
	ledger    *ledger
	fail      func(error) // told when a courier ends by itself

	end  context.CancelFunc // ends the one that works
	all  sync.WaitGroup
	cuts atomic.Int64
}

// start starts a courier. It outlives ctx by the time that it may drain.
func (c *couriers) start(ctx context.Context) {
	working, end := context.WithCancel(ctx)
	c.end = end
	one := &courier{endpoints: c.endpoints, client: newClient(c.hands), hands: c.hands, failed: c.ledger.failed}
	c.all.Go(func() {
		defer one.client.CloseIdleConnections()
		err := one.run(working, c.queue)
		c.cuts.Add(one.cut.Load())
		if working.Err() == nil {
			c.fail(err)
		}
	})
}

// replace starts a courier, and then tells the one before to end.
func (c *couriers) replace(ctx context.Context) {
	before := c.end
	c.start(ctx)
	before()
}

// stop tells the last courier to end, and waits for all.
func (c *couriers) stop() {
	c.end()
	c.all.Wait()
}

// cut returns how many deliveries were cut off because their courier was told to
// end. Call it after stop.
func (c *couriers) cut() int { return int(c.cuts.Load()) }
