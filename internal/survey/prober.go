package survey

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
)

const (
	// parallel is how many structures are read at the same time.
	parallel = 8

	// readTimeout is how long one structure or server may take to answer.
	readTimeout = 2 * time.Second

	// surveyTimeout is how long a survey may read structures.
	surveyTimeout = 8 * time.Second
)

// prober reads Redis for a Survey.
type prober interface {
	// list returns the names of all structures. With an error derived from
	// millrace.ErrPartial, some are missing.
	list(ctx context.Context) (names, error)

	// read reads the structures of those names and returns a View without LeftOut and
	// Named. Structures with Troubles in last are read last.
	read(ctx context.Context, known names, last *View) *View
}

// redisProber is the prober of a Redis or a fleet.
type redisProber struct {
	cfg     Config
	locker  *lease.Locker
	checked checked // of the fleet
}

func (r *redisProber) list(ctx context.Context) (names, error) {
	return script.Prompt(ctx, func(ctx context.Context) (names, error) { return listNames(ctx, r.cfg.Client) })
}

func (r *redisProber) read(ctx context.Context, known names, last *View) *View {
	v := &View{At: time.Now()}
	var asking sync.WaitGroup
	var ofFleet []Trouble
	asking.Go(func() { v.Fleet, ofFleet = r.fleet(ctx) })
	server, ofServers, away := askServers(ctx, r.cfg.Client)
	asking.Wait()
	if away != nil {
		return last.late(v.Fleet, append(ofFleet, Trouble{Kind: Server, Err: away})...)
	}

	var all round
	queues := ask(&all, Queue, known.of[Queue], r.queue)
	icks := ask(&all, Ick, known.of[Ick], r.ick)
	channels := ask(&all, Channel, known.of[Channel], r.channel)
	hashes := ask(&all, Hashes, known.of[Hashes], r.hashes)
	keys := ask(&all, Keys, known.of[Keys], r.keys)
	leases := ask(&all, Lease, known.of[Lease], r.lease)
	totals := ask(&all, Steal, []string{""}, r.totals)
	all.run(ctx, last)
	if len(all.troubles) > 0 { // the servers may have gone meanwhile
		if server, ofServers, away = askServers(ctx, r.cfg.Client); away != nil {
			return last.late(v.Fleet, append(ofFleet, Trouble{Kind: Server, Err: away})...)
		}
	}

	v.Server = server
	for _, q := range queues() {
		v.Queues, v.Schedules = append(v.Queues, q.Stats), append(v.Schedules, q.schedules...)
	}
	v.Icks, v.Channels = icks(), channels()
	v.Hashes, v.Keys, v.Leases = hashes(), keys(), leases()
	for _, t := range totals() {
		v.Steal = t
	}
	v.Troubles = slices.Concat(ofServers, ofFleet, all.troubles)
	return v
}

// errGone means that a structure was deleted.
var errGone = errors.New("gone")

// statsOf returns the Stats of a structure that was opened with that error.
func statsOf[T interface {
	Stats(ctx context.Context) (S, error)
}, S any](ctx context.Context, structure T, err error) (s S, _ error) {
	if err != nil {
		return s, err
	}
	return structure.Stats(ctx)
}

// queueRead is the data that a survey reads of a queue.
type queueRead struct {
	fairqueue.Stats

	schedules []Schedule
}

// maxSchedules is how many schedules of a queue a survey covers.
const maxSchedules = 200

func (r *redisProber) queue(ctx context.Context, name string) (read queueRead, err error) {
	q, err := fairqueue.New(r.cfg.Client, name, fairqueue.Config{})
	if err != nil {
		return read, err
	}
	if read.Stats, err = q.Stats(ctx); err != nil || read.Schedules == 0 {
		return read, err
	}
	for s, err := range q.Schedules().All(ctx) {
		if err != nil && s.Name == "" {
			return read, err
		}
		read.schedules = append(read.schedules, Schedule{name, read.At, s, err})
		if len(read.schedules) == maxSchedules {
			break
		}
	}
	return read, nil
}

func (r *redisProber) ick(ctx context.Context, name string) (ick.Stats, error) {
	k, err := ick.New(r.cfg.Client, name, ick.Config{})
	return statsOf(ctx, k, err)
}

func (r *redisProber) channel(ctx context.Context, name string) (ick.ChannelStats, error) {
	c, err := ick.NewChannel(r.cfg.Client, name, ick.ChannelConfig{})
	return statsOf(ctx, c, err)
}

func (r *redisProber) hashes(ctx context.Context, name string) (expiry.Stats, error) {
	h, err := expiry.Open(ctx, r.cfg.Client, name, expiry.Config{AllowEvictable: true})
	s, err := statsOf(ctx, h, err)
	if err == nil && s.Shards == 0 {
		err = errGone
	}
	return s, err
}

func (r *redisProber) keys(ctx context.Context, name string) (pinned.Stats, error) {
	k, err := pinned.Open(ctx, r.cfg.Client, name, pinned.Config{AllowEvictable: true})
	s, err := statsOf(ctx, k, err)
	if err == nil && s.Shards == 0 {
		err = errGone
	}
	return s, err
}

// lease returns the state of a lease. A reaped lease is gone.
func (r *redisProber) lease(ctx context.Context, name string) (lease.Info, error) {
	info, err := r.locker.Show(ctx, name)
	if err == nil && !info.Held && info.Fence == 0 {
		err = errGone
	}
	return info, err
}

func (r *redisProber) totals(ctx context.Context, _ string) (upkeep.Totals, error) {
	return upkeep.ReadTotals(ctx, r.cfg.Client)
}
