package recovery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// copyTimeout is how long a master may take.
const copyTimeout = time.Second

// Copies keeps copies of the map on all members: it stores them on the masters, and they
// replicate. Close it.
type Copies struct {
	pool   *members.Pool
	logger *slog.Logger
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	storing sync.Mutex   // held while a map is stored
	kept    map[int]kept // by partition
}

// kept is the result of the last attempt in one partition.
type kept struct {
	epoch int64  // of the copy that is there
	addr  string // of the master
	why   string // why there is none, as last logged
}

// NewCopies returns a keeper of copies. Option has the user, the password and the TLS
// settings for members.
func NewCopies(option rueidis.ClientOption, logger *slog.Logger) *Copies {
	ctx, stop := context.WithCancel(context.Background())
	return &Copies{pool: members.New(option, copyTimeout), logger: logger, ctx: ctx, stop: stop, kept: map[int]kept{}}
}

// Offer has the present map stored on all masters that have an older one, and returns at once.
// It ignores a map that comes while another one is stored: an agent that leads offers the map
// at each of its intervals, so a later offer stores it, and tries again what failed.
func (c *Copies) Offer(m *directory.Map) {
	if !c.storing.TryLock() {
		return
	}
	c.work.Go(func() {
		defer c.storing.Unlock()
		c.keep(m)
	})
}

// Close ends what is being stored. No map may be offered any more.
func (c *Copies) Close() {
	c.stop()
	c.work.Wait()
	c.pool.Close()
}

// keep stores a map on all masters that have an older one.
func (c *Copies) keep(m *directory.Map) {
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
		c.logger.ErrorContext(c.ctx, "the map cannot be copied", "error", err)
		return
	}
	results := make([]kept, len(due))
	var storing sync.WaitGroup
	for i, p := range due {
		storing.Go(func() { results[i] = c.store(m.Fleet, p, members.Copy{Epoch: m.Epoch, Text: text}) })
	}
	storing.Wait()
	for i, p := range due {
		if why := results[i].why; why != "" && why != c.kept[p.ID].why && c.ctx.Err() == nil {
			c.logger.WarnContext(c.ctx, "a master takes no copy of the map: without copies a lost directory cannot be recovered",
				"partition", p.ID, "addr", p.Master.Addr, "error", why)
		}
		c.kept[p.ID] = results[i]
	}
}

// store stores a copy on one master.
func (c *Copies) store(fleet string, p directory.Partition, held members.Copy) kept {
	ctx, cancel := context.WithTimeout(c.ctx, copyTimeout)
	defer cancel()
	epoch, err := members.Ask(ctx, c.pool, p.Master.Addr, func(ctx context.Context, client rueidis.Client) (int64, error) {
		return held.Keep(ctx, client, fleet, p.ID)
	})
	if err != nil {
		return kept{why: err.Error()}
	}
	return kept{epoch: epoch, addr: p.Master.Addr}
}
