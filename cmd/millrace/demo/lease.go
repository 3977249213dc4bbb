package demo

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/lease"
)

const (
	// holdings is how many locks and leases the first holder takes, for holdFor.
	holdings = 200
	holdFor  = 5 * time.Minute

	// leaseMemory is all that the scene's server may use. A fresh server uses one MB. The
	// cache writes cacheValues values of cacheBytes: six times as much.
	leaseMemory = 8 << 20
	cacheBytes  = 2 << 10
	cacheValues = 6 * leaseMemory / cacheBytes

	// leasesExpire is a sabotage in tests: leases get a TTL, so that a server evicts them that
	// evicts keys with a TTL.
	leasesExpire = "leases have a TTL"
)

func leaseScene() chaos.Scene {
	return chaos.Scene{
		Name:  "lease",
		Shows: "memory is full: ordinary locks vanish and get a second holder, leases do not",
		Load: "A server of its own with 8 MB and maxmemory-policy volatile-lru. A first holder takes 200 locks with SET NX PX, " +
			"and 200 leases. Then a cache fills the memory.",
		Accident:    "The server evicts keys, and another process tries to take all locks and leases.",
		Duration:    2 * time.Second,
		NeedsServer: "fills the memory of a server",
		Play:        playLease,
		Work:        takeEverything,
	}
}

func lockKey(i int) string   { return "lock:" + strconv.Itoa(i) }
func leaseName(i int) string { return "lease:" + strconv.Itoa(i) }

func playLease(ctx context.Context, p *chaos.Play) {
	srv := p.OwnServer(ctx, redisproc.Config{MaxMemory: strconv.Itoa(leaseMemory), Policy: "volatile-lru"})
	client := srv.Client
	p.URL = srv.URL
	locker := must.Get(lease.New(client, lease.Config{}))
	takeLocks(ctx, client)
	var held []*lease.Lease
	for i := range holdings {
		held = append(held, must.Get(locker.Acquire(ctx, leaseName(i), holdFor, lease.AcquireConfig{Metadata: "first"})))
	}
	if p.Sabotage == leasesExpire {
		for _, key := range must.Get(client.Do(ctx, client.B().Keys().Pattern("mr:*").Build()).AsStrSlice()) {
			must.Do(client.Do(ctx, client.B().Pexpire().Key(key).Milliseconds(holdFor.Milliseconds()).Build()).Error())
		}
	}

	evicted := fillMemory(ctx, p, client)
	var locksLeft, leasesLeft int64
	for i, mine := range held {
		// EXISTS, unlike GET, does not make a key a recently used one.
		locksLeft += must.Get(client.Do(ctx, client.B().Exists().Key(lockKey(i)).Build()).AsInt64())
		if info := must.Get(locker.Show(ctx, mine.Name)); info.Held && info.Token == mine.Token {
			leasesLeft++
		}
	}
	p.Note("the server evicted %v keys; another process tries to take everything", evicted)
	rivals := make(chan rivalReport, 1)
	chaos.Hear(p, func(r rivalReport) { rivals <- r })
	p.Start(1)
	var rival rivalReport
	select {
	case rival = <-rivals:
	case <-ctx.Done():
		must.Do(context.Cause(ctx))
	}
	p.Dismiss(ctx)

	// Now nothing may be evicted, and there is twice the data that there may be.
	configure(ctx, client, "maxmemory-policy", "noeviction")
	configure(ctx, client, "maxmemory", strconv.FormatInt(infoNumber(ctx, client, "memory", "used_memory")/2, 10))
	_, full := locker.Acquire(ctx, leaseName(holdings), holdFor, lease.AcquireConfig{})
	created := must.Get(locker.Show(ctx, leaseName(holdings)))
	refreshed, released := 0, 0
	for _, mine := range held {
		if mine.Refresh(ctx, 2*holdFor) == nil {
			refreshed++
		}
		if mine.Release(ctx) == nil {
			released++
		}
	}
	// A locker remembers the policy for a while, so this takes a new one.
	configure(ctx, client, "maxmemory-policy", "allkeys-lru")
	locker = must.Get(lease.New(client, lease.Config{}))
	_, evictable := locker.Acquire(ctx, leaseName(holdings), holdFor, lease.AcquireConfig{})

	lost := holdings - locksLeft
	p.Check("pressure", evicted > 0 && lost > 0, "memory was so full that %v keys were evicted, and %v of %v locks with them", evicted, lost, holdings)
	p.Check("leases_stay", leasesLeft == holdings, "no lease was evicted: the first holder has %v of %v", leasesLeft, holdings)
	p.Check("one_holder", rival.Tried == holdings && rival.Leases == 0,
		"no lease got a second holder: %v of %v; of the locks %v did", rival.Leases, holdings, rival.Locks)
	p.Check("works_when_full", refreshed == holdings && released == holdings,
		"on a full server leases are refreshed and released: %v and %v of %v", refreshed, released, holdings)
	p.Check("full_is_told", errors.Is(full, millrace.ErrFull) && !created.Held && created.Fence == 0,
		"a full server refuses a new lease with the code %q, and nothing is written", millrace.Code(full))
	p.Check("evictable_is_told", errors.Is(evictable, millrace.ErrEvictable),
		"a lease is refused with the code %q on a server that may evict any key", millrace.Code(evictable))

	p.Figure("values cached", chaos.Text("%v bytes each; memory for %v MB", cacheBytes, leaseMemory>>20), chaos.N("cached", cacheValues))
	p.Figure("keys evicted", "by volatile-lru", chaos.N("evicted", evicted))
	p.Table("locks", "leases")
	p.Figure("taken for 5 minutes", "", chaos.N("locks", holdings), chaos.N("leases", holdings))
	p.Figure("still there", "", chaos.N("locks_left", locksLeft), chaos.N("leases_left", leasesLeft))
	p.Figure("with two holders", "", chaos.N("locks_taken_twice", rival.Locks), chaos.N("leases_taken_twice", rival.Leases))
	p.Figure("refreshed on the full server", "", chaos.Cell{Text: "-"}, chaos.N("refreshed", refreshed))
	p.Figure("released on the full server", "", chaos.Cell{Text: "-"}, chaos.N("released", released))
}

// fillMemory writes the cache at an even pace, and returns how many keys were evicted.
func fillMemory(ctx context.Context, p *chaos.Play, client rueidis.Client) (evicted int64) {
	value := strings.Repeat("x", cacheBytes)
	began, written := time.Now(), 0
	p.Watch(ctx, func(ctx context.Context) bool {
		due := int(min(1, float64(time.Since(began))/float64(p.Duration)) * cacheValues)
		for written < due {
			var batch rueidis.Commands
			for ; written < due && len(batch) < 512; written++ {
				batch = append(batch, client.B().Set().Key("cache:"+strconv.Itoa(written)).Value(value).Ex(time.Hour).Build())
			}
			for _, reply := range client.DoMulti(ctx, batch...) {
				must.Do(reply.Error())
			}
		}
		evicted = infoNumber(ctx, client, "stats", "evicted_keys")
		p.Show("filling the memory", written, "values cached", evicted, "keys evicted")
		return written == cacheValues
	})
	return evicted
}

// infoNumber reads a number from INFO.
func infoNumber(ctx context.Context, client rueidis.Client, section, field string) int64 {
	fields := info.Parse(must.Get(client.Do(ctx, client.B().Info().Section(section).Build()).ToString()))
	return must.Get(strconv.ParseInt(fields[field], 10, 64))
}

// configure changes a setting of the scene's own server.
func configure(ctx context.Context, client rueidis.Client, name, value string) {
	must.Do(client.Do(ctx, client.B().ConfigSet().ParameterValue().ParameterValue(name, value).Build()).Error())
}

// takeLocks takes all locks in the usual way, and returns how many it got.
func takeLocks(ctx context.Context, client rueidis.Client) (taken int) {
	for i := range holdings {
		err := client.Do(ctx, client.B().Set().Key(lockKey(i)).Value("mine").Nx().Px(holdFor).Build()).Error()
		if !rueidis.IsRedisNil(err) {
			must.Do(err)
			taken++
		}
	}
	return taken
}

// rivalReport is the second process's report: how many it tried to take, and got.
type rivalReport struct{ Tried, Locks, Leases int }

// takeEverything is the worker: a second process that takes all locks and leases it can get.
func takeEverything(ctx context.Context, w *chaos.Worker) error {
	locker := must.Get(lease.New(w.Client, lease.Config{}))
	r := rivalReport{Tried: holdings, Locks: takeLocks(ctx, w.Client)}
	for i := range holdings {
		_, err := locker.Acquire(ctx, leaseName(i), holdFor, lease.AcquireConfig{Metadata: "second"})
		if !errors.Is(err, lease.ErrHeld) {
			must.Do(err)
			r.Leases++
		}
	}
	must.Do(w.Report(r))
	<-ctx.Done()
	return nil
}
