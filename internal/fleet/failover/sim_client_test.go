package failover_test

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
)

// client writes, by the rules of the fence: by a map that the directory confirmed less
// than ViewTTL ago, counted from before it asked, and counting a write as done if it was
// answered within ReplyTimeout.
type client struct {
	host

	w         *world
	m         *directory.Map
	confirmed time.Time
	wrote     map[int]time.Time // when a write to a partition last was a success
}

func (c *client) run(ctx context.Context) {
	w := c.w
	w.working.Go(func() {
		for {
			c.refresh(ctx)
			if !retry.Sleep(ctx, w.settings.ViewTTL/3) {
				return
			}
		}
	})
	w.working.Go(func() {
		for n := 0; ; n++ {
			w.mu.Lock()
			pause := 10*time.Millisecond + time.Duration(w.draw(&c.host, &c.host, int64(90*time.Millisecond)))
			w.mu.Unlock()
			if !retry.Sleep(ctx, pause) {
				return
			}
			c.write(ctx, n)
			c.read(ctx, n)
		}
	})
}

// read reads from some member of the partition whose turn it is, by a map of any age.
func (c *client) read(ctx context.Context, turn int) {
	w := c.w
	w.mu.Lock()
	if c.m == nil || w.draw(&c.host, &c.host, 4) > 0 {
		w.mu.Unlock()
		return
	}
	p := c.m.Partitions[turn%len(c.m.Partitions)]
	members := p.Members()
	m := members[w.draw(&c.host, &c.host, int64(len(members)))]
	s := w.server(m.Addr)
	w.mu.Unlock()
	_ = w.carry(ctx, &c.host, &s.host, func() error {
		// A connection belongs to one run.
		if s.readable() && (m.Run == "" || m.Run == s.run() || w.sabotage.serve) {
			w.checkRead(s)
		}
		return nil
	})
}

// refresh asks the directory whether the map at hand is the present one.
func (c *client) refresh(ctx context.Context) {
	w := c.w
	ctx, cancel := context.WithTimeout(ctx, w.settings.ViewTTL)
	defer cancel()
	w.mu.Lock()
	epoch := int64(0)
	if c.m != nil {
		epoch = c.m.Epoch
	}
	asked := time.Now()
	w.mu.Unlock()
	carry := func(ctx context.Context, to *host, do func() error) error { return w.carry(ctx, &c.host, to, do) }
	m, err := reach(ctx, w.dir, &c.host, carry, func(k *keeper) (*directory.Map, error) { return w.dir.answer(k, epoch) })
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case m == nil:
		c.confirmed = asked
	case m.Epoch > epoch:
		c.m, c.confirmed = m, asked
	default:
		// I6: an older map is refused, and if none follows this client never writes again.
	}
}

// hold is for how long the client now and then does not get the processor.
func (c *client) hold() time.Duration {
	one := int64(50) // of so many times
	if c.w.busy {
		one = 3
	}
	if c.w.calm || c.w.draw(&c.host, &c.host, one) > 0 {
		return 0
	}
	return time.Duration(c.w.draw(&c.host, &c.host, int64(5*time.Second)))
}

// write writes a unique value to the partition whose turn it is.
func (c *client) write(ctx context.Context, turn int) {
	w := c.w
	w.mu.Lock()
	began := time.Now()
	if c.m == nil || time.Since(c.confirmed) >= w.settings.ViewTTL && !w.sabotage.stale {
		w.mu.Unlock()
		return
	}
	partition := turn % len(c.m.Partitions)
	p := c.m.Partitions[partition]
	if p.ReadOnly {
		w.mu.Unlock()
		return
	}
	s := w.server(p.Master.Addr)
	id := w.ledger.begin(write{partition: partition, client: c.name, server: s, epoch: p.Epoch, sent: time.Since(w.start)})
	before, after := c.hold(), c.hold()
	w.mu.Unlock()

	if before > 0 && !retry.Sleep(ctx, before) {
		return
	}
	var offset int64
	kills := 0
	err := w.carry(ctx, &c.host, &s.host, func() error {
		err := s.write(id)
		offset, kills = s.offset, len(s.kills)
		return err
	})
	if err == nil && w.confirmed > 0 {
		err = c.wait(ctx, s, p.Replicas, offset, kills)
	}
	if after > 0 && !retry.Sleep(ctx, after) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && (time.Since(began) <= w.settings.ReplyTimeout || w.sabotage.late) {
		c.wrote[partition] = time.Now()
		w.checkSuccess(id)
	} else {
		w.ledger.writes[id-1].failed = true
	}
}

// wait is WAIT, on the same connection: until enough replicas of the client's map have the
// offset.
func (c *client) wait(ctx context.Context, s *server, known []directory.Member, offset int64, kills int) error {
	w := c.w
	for range 50 {
		w.mu.Lock()
		lost := s.paused || s.down || len(s.kills) > kills || w.isCut(&c.host, &s.host)
		have := s.confirmed(known, offset)
		w.mu.Unlock()
		switch {
		case lost:
			return errReset
		case have >= w.confirmed:
			return nil
		}
		if !retry.Sleep(ctx, w.settings.ReplyTimeout/100) {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("too few replicas have the write: %w", errSilent)
}
