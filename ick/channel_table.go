package ick

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

// handover is an Ick that a consumer no longer serves.
type handover struct {
	index int
	epoch int64 // under which it was retired; 0 if another consumer is to serve it
}

// attend sends a consumer's heartbeat, which is good for ttl, with the Icks that it no longer serves.
// It returns the indices of the Icks that it serves from now on, and those of them that it is to hand
// over when it has nothing of them in hand.
func (c *Channel) attend(ctx context.Context, consumer string, ttl time.Duration, over []handover) (mine, surplus []int, err error) {
	known := c.known()
	var released, retired []string
	for _, h := range over {
		if h.epoch == known.epoch {
			retired = append(retired, strconv.Itoa(h.index))
		} else {
			released = append(released, strconv.Itoa(h.index))
		}
	}
	args := append([]string{consumer, strconv.FormatInt(ttl.Milliseconds(), 10)}, known.args()...)
	args = append(args, strconv.Itoa(len(released)))
	r, err := c.call(ctx, "attend", append(append(args, released...), retired...)...)
	if err != nil {
		return nil, nil, err
	}
	c.entry.Touch()
	seen := readLayout(r)
	mine, surplus = indices(r), indices(r)
	if r.Err() != nil {
		return nil, nil, r.Err()
	}
	c.learn(seen)
	return mine, surplus, nil
}

// retire retires an Ick that has nothing to do, if producers no longer use it. It returns the epoch
// under which it is retired, or 0.
func (c *Channel) retire(ctx context.Context, index int, k *Ick) (epoch int64, err error) {
	known := c.known()
	if index < known.size {
		return 0, nil
	}
	if err := c.moveParked(ctx, k); err != nil {
		return 0, err
	}
	if empty, err := k.retire(ctx, known.epoch); err != nil || !empty {
		return 0, err
	}
	return known.epoch, nil
}

// moveParked moves the parked members of an Ick that is no longer used to their current Icks,
// where they are tried again.
func (c *Channel) moveParked(ctx context.Context, k *Ick) error {
	for {
		page, _, err := k.parkedPage(ctx, 0)
		if errors.Is(err, millrace.ErrNotFound) || errors.Is(err, errRetired) {
			return nil
		}
		if err != nil || len(page) == 0 {
			return err
		}
		marks, members := make([]mark, len(page)), make([]string, len(page))
		for i, p := range page {
			marks[i], members[i] = mark{p.Member, formatScore(p.Score)}, p.Member
		}
		if _, err := c.add(ctx, marks); err != nil {
			return err
		}
		if _, err := k.Drop(ctx, members...); err != nil {
			return err
		}
	}
}

// retire closes the Ick if it is empty, and reports whether it is closed.
func (k *Ick) retire(ctx context.Context, epoch int64) (bool, error) {
	reply, err := k.call(ctx, "retire", strconv.FormatInt(epoch, 10))
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}

// reopen opens the Ick again if it was retired before epoch.
func (k *Ick) reopen(ctx context.Context, epoch int64) error {
	_, err := k.call(ctx, "reopen", strconv.FormatInt(epoch, 10))
	return err
}

// indices reads a list of Ick indices.
func indices(r *script.Reply) []int {
	list := r.List()
	found := make([]int, 0, list.Len())
	for list.More() {
		if index := list.Int(); index >= 0 && index < maxSize {
			found = append(found, int(index))
		}
	}
	r.Join(list)
	return found
}
