package ick

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
)

// ChannelStats describes a channel. Its Icks are read one by one, so the sums are not of one
// moment.
type ChannelStats struct {
	Name      string
	Size      int           // Icks that producers use
	Icks      []Stats       // all that are served, by index; an unused one has only a Name and an Owner
	Consumers int           // live ones
	Waiting   int           // waiting marks of all Icks
	Reserved  int           // reserved marks of all Icks
	Total     int           // of all Icks, as in Stats
	Distinct  int           // of all Icks; a member in two counts twice
	Parked    int           // of all Icks
	OldestAge time.Duration // of all Icks
	Counters  Counters      // of the Icks that are served; those of retired ones are lost

	peak int // the largest number of Icks so far
}

// Stats returns statistics of the channel and each of its Icks, and changes nothing. Errors:
// [millrace.ErrNotFound], [millrace.ErrBroken], [millrace.ErrVersion].
func (c *Channel) Stats(ctx context.Context) (ChannelStats, error) {
	s, err := c.served(ctx)
	if err != nil {
		return s, err
	}
	errs := make([]error, len(s.Icks))
	var calls sync.WaitGroup
	for index := range s.Icks {
		calls.Go(func() {
			k, err := c.ick(index)
			if err == nil {
				owner := s.Icks[index].Owner
				s.Icks[index], err = k.Stats(ctx)
				s.Icks[index].Name, s.Icks[index].Owner = k.Name(), owner
			}
			if !errors.Is(err, millrace.ErrNotFound) && !errors.Is(err, errRetired) {
				errs[index] = err
			}
		})
	}
	calls.Wait()
	for _, k := range s.Icks {
		s.Waiting += k.Waiting.Size
		s.Reserved += k.Reserved.Size
		s.Total += k.Total
		s.Distinct += k.Distinct
		s.Parked += k.Parked
		s.OldestAge = max(s.OldestAge, k.OldestAge)
		s.Counters.add(k.Counters)
	}
	return s, errors.Join(errs...)
}

// served returns the layout and the consumer of each Ick.
func (c *Channel) served(ctx context.Context) (ChannelStats, error) {
	s := ChannelStats{Name: c.name}
	r, err := c.call(ctx, "channel", layout{}.args()...)
	if err != nil {
		return s, err
	}
	seen := readLayout(r)
	s.peak = int(r.Int())
	s.Size, s.Icks = seen.size, make([]Stats, seen.span)
	s.Consumers = len(r.Texts()) / 2
	owners := r.List()
	for owners.More() {
		index, owner := owners.Int(), owners.Text()
		if index >= 0 && index < int64(seen.span) {
			s.Icks[index].Owner = owner
		}
	}
	if owners.Err() == nil && seen.size == 0 {
		return s, errNotFound.Errorf("there is no channel %q", c.name)
	}
	return s, owners.Err()
}

func (c *Counters) add(o Counters) {
	c.New += o.New
	c.Folded += o.Folded
	c.Reserved += o.Reserved
	c.Committed += o.Committed
	c.Kept += o.Kept
	c.Parked += o.Parked
	c.Retried += o.Retried
	c.Dropped += o.Dropped
}

// ListChannels yields the names of the registered channels, in no order, as [List] does.
func ListChannels(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return registry.List(ctx, client, registry.Channel, checkChannelName)
}
