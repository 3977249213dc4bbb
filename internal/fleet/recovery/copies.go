package recovery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/retry"
)

// copyInterval is how often copies are made at most: a change of the map is small, and a
// copy is all of it.
const copyInterval = time.Second

// copyTimeout is how long a master may take.
const copyTimeout = time.Second

// Copies keeps copies of the map on all members: it stores them on the masters, and they
// replicate. An agent that leads offers it the map.
type Copies struct {
	pool     *members.Pool
	logger   *slog.Logger
	interval time.Duration
	offered  chan *directory.Map
	kept     map[int]kept // by partition
}

// kept is the result of the last attempt in one partition.
type kept struct {
	epoch int64  // of the copy that is there
	addr  string // of the master
	why   string // why there is none, as last logged
}

// NewCopies returns a keeper of copies. Option has the user, the password and the TLS
// settings for members. Run it.
func NewCopies(option rueidis.ClientOption, logger *slog.Logger) *Copies {
	return &Copies{
		pool: members.New(option, copyTimeout), logger: logger, interval: copyInterval,
		offered: make(chan *directory.Map, 1), kept: map[int]kept{},
	}
}

// Offer hands over the present map, in place of one that was not looked at yet. It
// returns at once. Only one goroutine may call it.
func (c *Copies) Offer(m *directory.Map) {
	select {
	case <-c.offered:
	default:
	}
	c.offered <- m
}

// Run stores the maps that are offered until ctx ends, and returns the cause. It tries a
// master that does not take a copy again with the next offer.
func (c *Copies) Run(ctx context.Context) error {
	defer c.pool.Close()
	for {
		select {
		case m := <-c.offered:
			c.keep(ctx, m)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !retry.Sleep(ctx, c.interval) {
			return context.Cause(ctx)
		}
	}
}

// keep stores a map on all masters that have an older one.
func (c *Copies) keep(ctx context.Context, m *directory.Map) {
	var due []directory.Partition
	for _, p := range m.Partitions {
		if k := c.kept[p.ID]; !p.ReadOnly && (k.epoch < m.Epoch || k.addr != p.Master.Addr) {
			due = append(due, p)
		}
	}
	if len(due) == 0 {
		return
	}
	text, err := m.Pack()
	if err != nil {
		c.logger.ErrorContext(ctx, "the map cannot be copied", "error", err)
		return
	}
	results := make([]kept, len(due))
	var storing sync.WaitGroup
	for i, p := range due {
		storing.Go(func() { results[i] = c.store(ctx, m, p, members.Copy{Epoch: m.Epoch, Text: text}) })
	}
	storing.Wait()
	for i, p := range due {
		if why := results[i].why; why != "" && why != c.kept[p.ID].why && ctx.Err() == nil {
			c.logger.WarnContext(ctx, "a master takes no copy of the map: without copies a lost directory cannot be recovered",
				"partition", p.ID, "addr", p.Master.Addr, "error", why)
		}
		c.kept[p.ID] = results[i]
	}
}

// store stores a copy on one master.
func (c *Copies) store(ctx context.Context, m *directory.Map, p directory.Partition, held members.Copy) kept {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	epoch, err := members.Ask(ctx, c.pool, p.Master.Addr, func(ctx context.Context, client rueidis.Client) (int64, error) {
		return held.Keep(ctx, client, m.Fleet, p.ID)
	})
	if err != nil {
		return kept{why: err.Error()}
	}
	return kept{epoch: epoch, addr: p.Master.Addr}
}
