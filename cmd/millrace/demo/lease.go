package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/screen"
	"github.com/millrace/millrace/lease"
)

const (
	// holdings is how many locks of each kind the first holder takes, and
	// holdFor is for how long: for longer than anything here lasts.
	holdings = 200
	holdFor  = 5 * time.Minute

	// memoryLimit is all that the scene's own server may use. A fresh server
	// uses one MB.
	memoryLimit = 8 << 20

	// cacheLimits is how many times the limit is written to the cache, in
	// values of cacheValue bytes that expire after cacheTTL.
	cacheLimits = 6
	cacheValue  = 2 << 10
	cacheTTL    = time.Hour

	// cacheAtOnce is how many values are written together, 1 MB: who was late because the
	// machine is busy has more to write, and more at once than a connection's time is for.
	cacheAtOnce = 512

	// cacheEvery is the pause between two writes of a batch.
	cacheEvery = 25 * time.Millisecond
)

// leaseScene shows what memory pressure does to locks. A first holder takes
// locks in the usual way, keys with a TTL, and leases. Then a cache fills the
// memory, and a second holder, another process, tries to take them all.
func leaseScene() scene {
	return scene{
		name:    "lease",
		shows:   "memory is full: ordinary locks vanish and get a second holder, leases do not",
		load:    2 * time.Second,
		private: true,
		play:    playLease,
		child:   rival,
	}
}

func lockKey(name string, i int) string   { return "{" + name + "}:lock:" + strconv.Itoa(i) }
func cacheKey(name string, i int) string  { return "{" + name + "}:cache:" + strconv.Itoa(i) }
func leaseName(name string, i int) string { return name + ":" + strconv.Itoa(i) }

// leasePlay is one performance of the scene.
type leasePlay struct {
	*stage
	server rueidis.Client // the scene's own
	url    string         // its address
	locker *lease.Locker
	leases []*lease.Lease // of the first holder

	// While the policy was volatile-lru.
	cached     int   // values written
	evicted    int64 // keys, as the server says
	locksLeft  int64
	leasesLeft int64
	rival      rivalNews

	// On a server that is full, and evicts nothing or anything.
	refreshed int
	released  int
	full      error // what acquiring says when nothing may be evicted
	created   bool  // whether there is something of the lease all the same
	evictable error // what it says when anything may be
}

func playLease(ctx context.Context, st *stage) (seen Scene, err error) {
	binary, err := st.find()
	if errors.Is(err, redisproc.ErrNotFound) {
		seen.Skipped = "it fills the memory of a redis-server of its own, and none is on PATH"
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	proc, err := redisproc.Start(ctx, redisproc.Config{
		Binary: binary, MaxMemory: strconv.Itoa(memoryLimit), Policy: "volatile-lru",
	})
	if err != nil {
		return seen, fmt.Errorf("start a server to fill: %w", err)
	}
	defer func() { err = errors.Join(err, proc.Stop()) }()
	client, err := connect.Open(proc.URL())
	if err != nil {
		return seen, err
	}
	defer client.Close()
	st.screen.Say("  (on a server of its own, with %d MB and maxmemory-policy volatile-lru)", memoryLimit>>20)

	p := &leasePlay{stage: st, server: client, url: proc.URL()}
	if err := p.perform(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return seen, err
	}
	return p.judge(), nil
}

// perform is the story from the first lock to the last lease.
func (p *leasePlay) perform(ctx context.Context) (err error) {
	if p.locker, err = lease.New(p.server, lease.Config{}); err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{p.take, p.fill, p.compete, p.work, p.evictAnything} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// take has the first holder take all locks and leases.
func (p *leasePlay) take(ctx context.Context) error {
	taken, err := takeLocks(ctx, p.server, p.name, "first")
	if err != nil {
		return err
	}
	if taken != holdings {
		return fmt.Errorf("of %d locks only %d could be taken on an empty server", holdings, taken)
	}
	for i := range holdings {
		got, err := p.locker.Acquire(ctx, leaseName(p.name, i), holdFor, lease.AcquireConfig{Metadata: "first"})
		if err != nil {
			return err
		}
		p.leases = append(p.leases, got)
	}
	return nil
}

// fill writes to the cache, which nobody ever empties, at an even pace.
func (p *leasePlay) fill(ctx context.Context) error {
	value := strings.Repeat("x", cacheValue)
	start := time.Now()
	tick := time.NewTicker(cacheEvery)
	defer tick.Stop()
	for all := cacheLimits * memoryLimit / cacheValue; ; {
		elapsed := min(time.Since(start), p.duration)
		due := int(int64(all) * int64(elapsed) / int64(p.duration))
		for p.cached < due {
			if err := p.cache(ctx, min(due, p.cached+cacheAtOnce), value); err != nil {
				return err
			}
		}
		if err := p.look(ctx, elapsed); err != nil || elapsed == p.duration {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// cache writes values until there are n.
func (p *leasePlay) cache(ctx context.Context, n int, value string) error {
	var batch rueidis.Commands
	for ; p.cached < n; p.cached++ {
		batch = append(batch, p.server.B().Set().Key(cacheKey(p.name, p.cached)).Value(value).Ex(cacheTTL).Build())
	}
	for _, reply := range p.server.DoMulti(ctx, batch...) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}

// look counts what is left and shows it.
func (p *leasePlay) look(ctx context.Context, elapsed time.Duration) (err error) {
	var locks []string
	for i := range holdings {
		locks = append(locks, lockKey(p.name, i))
	}
	// EXISTS, unlike GET, does not make a key one that was used lately.
	if p.locksLeft, err = p.server.Do(ctx, p.server.B().Exists().Key(locks...).Build()).AsInt64(); err != nil {
		return err
	}
	p.leasesLeft = 0
	for _, mine := range p.leases {
		info, err := p.locker.Show(ctx, mine.Name)
		if err != nil {
			return err
		}
		if info.Held && info.Token == mine.Token {
			p.leasesLeft++
		}
	}
	if p.evicted, err = p.info(ctx, "stats", "evicted_keys"); err != nil {
		return err
	}
	p.screen.Show(screen.Frame{
		Title: "lease",
		Done:  elapsed,
		Whole: p.duration,
		Rows: [][]string{
			{grouped(p.cached) + " values cached", grouped(p.evicted) + " keys evicted"},
			{
				fmt.Sprintf("%d of %d locks left", p.locksLeft, holdings),
				fmt.Sprintf("%d of %d leases left", p.leasesLeft, holdings),
			},
		},
	})
	return nil
}

// info reads a number that the server tells about itself.
func (p *leasePlay) info(ctx context.Context, section, field string) (int64, error) {
	text, err := p.server.Do(ctx, p.server.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return 0, err
	}
	return infoNumber(text, field)
}

// infoNumber reads a number out of what a server tells about itself.
func infoNumber(info, field string) (int64, error) {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("the server does not tell its %s", field)
}

// compete has another process try to take everything that the first holder has.
func (p *leasePlay) compete(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	told := make(chan rivalNews, 1)
	crew := p.crew(func(line []byte) {
		var news rivalNews
		if json.Unmarshal(line, &news) == nil && news.Tried > 0 {
			told <- news
		}
	}, cancel)
	crew.task.Redis = p.url
	defer crew.dismiss(ctx)
	defer cancel(nil)
	if err := crew.hire(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case p.rival = <-told:
		return nil
	}
}

// work refreshes and releases all leases on a server that has twice the data
// that it may have, and evicts nothing.
func (p *leasePlay) work(ctx context.Context) error {
	used, err := p.info(ctx, "memory", "used_memory")
	if err != nil {
		return err
	}
	if err := p.configure(ctx, "maxmemory-policy", "noeviction"); err != nil {
		return err
	}
	if err := p.configure(ctx, "maxmemory", strconv.FormatInt(used/2, 10)); err != nil {
		return err
	}

	name := leaseName(p.name, holdings)
	if _, p.full = p.locker.Acquire(ctx, name, holdFor, lease.AcquireConfig{}); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	info, err := p.locker.Show(ctx, name)
	if err != nil {
		return err
	}
	p.created = info.Held || info.Fence != 0
	for _, mine := range p.leases {
		if mine.Refresh(ctx, 2*holdFor) == nil {
			p.refreshed++
		}
	}
	for _, mine := range p.leases {
		if mine.Release(ctx) == nil {
			p.released++
		}
	}
	return nil
}

// evictAnything tries to acquire a lease on a server that may evict any key.
// The locker is a new one, because one remembers the policy for a while.
func (p *leasePlay) evictAnything(ctx context.Context) error {
	if err := p.configure(ctx, "maxmemory-policy", "allkeys-lru"); err != nil {
		return err
	}
	locker, err := lease.New(p.server, lease.Config{})
	if err != nil {
		return err
	}
	if _, p.evictable = locker.Acquire(ctx, leaseName(p.name, holdings), holdFor, lease.AcquireConfig{}); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// configure changes a setting of the scene's own server.
func (p *leasePlay) configure(ctx context.Context, name, value string) error {
	return p.server.Do(ctx, p.server.B().ConfigSet().ParameterValue().ParameterValue(name, value).Build()).Error()
}
