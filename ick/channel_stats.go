package ick

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
)

// ChannelStats is what a channel holds. Its Icks were looked at one after the
// other, so the sums are of no single moment.
type ChannelStats struct {
	Name      string
	Size      int           // Icks that producers use
	Icks      []Stats       // all that are served, by index; a name and an Owner only if it was not used since it began
	Consumers int           // that are alive
	Waiting   int           // marks that wait, of all Icks
	Reserved  int           // marks that are reserved, of all Icks
	Total     int           // of all Icks, as in Stats
	Distinct  int           // of all Icks; a member in two counts twice
	Parked    int           // of all Icks
	OldestAge time.Duration // of all Icks
	Counters  Counters      // of all Icks that are served; those of retired ones are gone

	peak int // Icks that there ever were
}

// Stats looks at the channel and at each of its Icks and changes nothing.
// Errors: [millrace.ErrNotFound], [millrace.ErrBroken], [millrace.ErrVersion].
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
	for _, one := range s.Icks {
		s.Waiting += one.Waiting.Size
		s.Reserved += one.Reserved.Size
		s.Total += one.Total
		s.Distinct += one.Distinct
		s.Parked += one.Parked
		s.OldestAge = max(s.OldestAge, one.OldestAge)
		s.Counters.add(one.Counters)
	}
	return s, errors.Join(errs...)
}

// served asks who serves what.
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

// ListChannels goes through the names of the channels that are registered, in no order,
// as [List] does.
func ListChannels(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range registry.List(ctx, client, registry.Channel) {
			if (err != nil || checkChannelName(name) == nil) && !yield(name, err) {
				return
			}
		}
	}
}
