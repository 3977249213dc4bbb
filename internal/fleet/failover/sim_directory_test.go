package failover_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
)

// store is what keeps the directory: the simulation has a model of each.
type store string

const (
	inRedis store = "Redis" // one server at a time; another one may take over without the newest maps
	inEtcd  store = "etcd"  // three servers, of which a majority answers
)

var stores = []store{inRedis, inEtcd}

// simDirectory is the directory: one map, who leads, and the servers that answer.
type simDirectory struct {
	w       *world
	servers []*keeper
	m       *directory.Map
	stored  []*directory.Map // all that there were
	leader  string
	until   time.Time
	life    time.Duration
	since   time.Time // when the server that decides took over; zero if there was no other
	etcd    election

	former *directory.Map // what the one before confirms
	loyal  *client        // to whom
	ends   time.Time      // and until when
	events []directory.Event
	beats  directory.Beats
	turns  map[string]nodeTurn
}

// keeper is a server of the directory.
type keeper struct {
	host

	has *directory.Map // the last map that it was told
}

func (w *world) newDirectory(m *directory.Map) *simDirectory {
	d := &simDirectory{w: w, m: m, stored: []*directory.Map{m}}
	servers := 1
	if w.store == inEtcd {
		servers = 3
	}
	for i := range servers {
		d.servers = append(d.servers, &keeper{host: w.newHost(fmt.Sprint("directory ", i+1)), has: m})
	}
	d.etcd.primary = d.servers[0]
	return d
}

// carrier brings a call to a host, and its error back.
type carrier func(ctx context.Context, to *host, do func() error) error

// reach asks the directory and returns its answer. With etcd another server is asked if
// one does not answer in time, or does not reach a majority.
func reach[T any](ctx context.Context, d *simDirectory, from *host, carry carrier, answer func(k *keeper) (T, error)) (T, error) {
	tries, timeout := 1, silence
	if d.w.store == inEtcd {
		tries, timeout = 5, silence/5
	}
	for try := 1; ; try++ {
		var value, none T // of this try: a late one must not change what is returned
		k := d.servers[(from.id+try)%len(d.servers)]
		bounded, cancel := context.WithTimeoutCause(ctx, timeout, errSilent)
		err := carry(bounded, &k.host, func() (err error) { value, err = answer(k); return err })
		cancel()
		switch {
		case err == nil:
			return value, nil
		case try == tries || !inTrouble(err) || !retry.Sleep(ctx, 50*time.Millisecond):
			return none, err
		}
	}
}

// inTrouble reports whether the network or the store is why a call was not answered.
func inTrouble(err error) bool {
	return errors.Is(err, errRefused) || errors.Is(err, errSilent) || errors.Is(err, errReset) || errors.Is(err, errNoLeader)
}

func (d *simDirectory) lead(agent string, life time.Duration) bool {
	if d.w.leaders && !d.w.calm {
		return true
	}
	if d.leader != "" && d.leader != agent && time.Now().Before(d.until) {
		return false
	}
	d.leader, d.life, d.until = agent, life, time.Now().Add(life)
	return true
}

// settled is for how long the same server has decided.
func (d *simDirectory) settled() time.Duration {
	if d.since.IsZero() || d.w.sabotage.unsettled {
		return time.Hour
	}
	return time.Since(d.since)
}

// failOver has another server decide, and the one before go on for a client that does
// not know it.
func (d *simDirectory) failOver(loyal *client) {
	d.since = time.Now()
	d.former, d.loyal, d.ends = d.m, loyal, time.Now().Add(directory.SettleTime)
	d.w.say("the directory fails over; %s asks its old master", loyal.name)
}

// turn gives the turn of a node. Nobody but agents takes one here.
func (d *simDirectory) turn(node, holder string, life time.Duration) bool {
	if t := d.turns[node]; t.holder != "" && t.holder != holder && time.Now().Before(t.until) {
		return false
	}
	if d.turns == nil {
		d.turns = map[string]nodeTurn{}
	}
	d.turns[node] = nodeTurn{holder, time.Now().Add(life)}
	return true
}

// nodeTurn is who has one, and for how long.
type nodeTurn struct {
	holder string
	until  time.Time
}

// confirm returns nil if the map with that epoch is the present one.
func (d *simDirectory) confirm(present *directory.Map, epoch int64) *directory.Map {
	if present.Epoch == epoch {
		return nil
	}
	return present.Clone()
}

// answer is what a server of the directory tells a client.
func (d *simDirectory) answer(k *keeper, by *client, epoch int64) (*directory.Map, error) {
	switch {
	case by == d.loyal && time.Now().Before(d.ends):
		return d.confirm(d.former, epoch), nil
	case d.w.sabotage.local:
		return d.confirm(k.has, epoch), nil
	}
	return d.confirm(d.m, epoch), d.decides(k)
}

func (d *simDirectory) change(by string, epoch int64, next *directory.Map) error {
	if next.Epoch <= epoch {
		return directory.ErrMap
	}
	if d.m == next {
		return nil // a repeat
	}
	if d.m.Epoch != epoch {
		return directory.ErrConflict
	}
	d.w.checkChange(by, d.m, next)
	d.m = next
	d.stored = append(d.stored, next)
	d.replicate()
	for _, p := range next.Partitions {
		d.w.say("%s: map %d: partition %d epoch %d, read-only %v, %s and %v, history %s", by, next.Epoch, p.ID, p.Epoch, p.ReadOnly, p.Master.Addr, p.Replicas, p.History)
	}
	return nil
}

// restore has the directory come back with an earlier map.
func (d *simDirectory) restore(back int) {
	d.m = d.stored[max(0, len(d.stored)-1-back)]
	d.leader = ""
	if d.w.store == inRedis {
		d.since = time.Now()
	}
	for _, k := range d.servers {
		k.has = d.m
	}
	d.w.say("the directory is restored: map %d of %d", d.m.Epoch, d.stored[len(d.stored)-1].Epoch)
}

// everyKeeper does something to each server of the directory.
func (d *simDirectory) everyKeeper(do func(h *host)) {
	for _, k := range d.servers {
		do(&k.host)
	}
}
