package failover_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
)

// store is a kind of directory store: the simulation has a model of each.
type store string

const (
	inRedis store = "Redis" // one server, which forgets nothing
	inEtcd  store = "etcd"  // three servers, of which a majority answers
)

var stores = []store{inRedis, inEtcd}

// simDirectory is the store of the directory: values, holders of names, and the servers that answer.
type simDirectory struct {
	w       *world
	servers []*keeper
	values  map[string]directory.Value
	puts    int
	m       *directory.Map               // the one among the values
	stored  []*directory.Map             // all that there were
	former  []map[string]directory.Value // the values with each of them
	holds   map[string]held
	etcd    election
}

// held is the holder of a name, and until when it holds it.
type held struct {
	by    string
	life  time.Duration
	until time.Time
}

// keeper is a server of the directory.
type keeper struct {
	host

	has *directory.Map // the last map that it was told
}

func (w *world) newDirectory(m *directory.Map) *simDirectory {
	d := &simDirectory{w: w, values: map[string]directory.Value{}, holds: map[string]held{}}
	servers := 1
	if w.store == inEtcd {
		servers = 3
	}
	for i := range servers {
		d.servers = append(d.servers, &keeper{host: w.newHost(fmt.Sprint("directory ", i+1)), has: m})
	}
	d.etcd.primary = d.servers[0]
	if err := d.change(0, m); err != nil {
		w.fail("the simulation is broken: %v", err)
	}
	return d
}

// change stores a map as a command does.
func (d *simDirectory) change(epoch int64, m *directory.Map) error {
	return directory.New(d).Change(context.Background(), epoch, m)
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
		var value, none T // of this try: a late one must not change the returned value
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

func unpack(text string) *directory.Map {
	m, err := directory.Unpack(text)
	if err != nil {
		panic(err) // an agent has stored it
	}
	return m
}

// Get implements directory.Store, as Put and Hold do, for a command that reaches the directory at once.
func (d *simDirectory) Get(_ context.Context, _ directory.Read, names ...string) ([]directory.Value, error) {
	values := make([]directory.Value, len(names))
	for i, name := range names {
		values[i] = d.values[name]
	}
	return values, nil
}

func (d *simDirectory) Put(_ context.Context, revision string, texts ...directory.Text) (bool, error) {
	return d.put("a command", revision, texts...)
}

func (d *simDirectory) put(by, revision string, texts ...directory.Text) (bool, error) {
	first := d.values[texts[0].Name]
	switch {
	case first.Revision != "" && first.Text == texts[0].Text:
		return true, nil // a repeat
	case first.Revision != revision:
		return false, nil
	}
	d.puts++
	for _, t := range texts {
		d.values[t.Name] = directory.Value{Text: t.Text, Revision: fmt.Sprint(d.puts)}
	}
	if texts[0].Name != "epoch" {
		return true, nil
	}
	next := unpack(texts[1].Text)
	if d.m != nil {
		d.w.checkChange(by, d.m, next)
	}
	d.m = next
	d.stored, d.former = append(d.stored, next), append(d.former, maps.Clone(d.values))
	d.replicate()
	for _, p := range next.Partitions {
		d.w.say("%s: map %d: partition %d epoch %d, read-only %v, %s and %v, history %s", by, next.Epoch, p.ID, p.Epoch, p.ReadOnly, p.Master.Addr, p.Replicas, p.History)
	}
	return true, nil
}

func (d *simDirectory) Hold(_ context.Context, name, holder string, life time.Duration) (string, error) {
	if d.w.leaders && !d.w.calm && name == "agent" {
		return holder, nil
	}
	if h := d.holds[name]; h.by != "" && h.by != holder && time.Now().Before(h.until) {
		return h.by, nil
	}
	if delete(d.holds, name); life == 0 {
		return "", nil
	}
	d.holds[name] = held{holder, life, time.Now().Add(life)}
	return holder, nil
}

func (d *simDirectory) Examine(context.Context, time.Duration) []directory.Remark { return nil }
func (d *simDirectory) Close()                                                    {}

// confirm returns nil if the map with that epoch is the present one.
func (d *simDirectory) confirm(present *directory.Map, epoch int64) *directory.Map {
	if present.Epoch == epoch {
		return nil
	}
	return present.Clone()
}

// answer is the reply of one of the directory's servers to a client.
func (d *simDirectory) answer(k *keeper, epoch int64) (*directory.Map, error) {
	if d.w.sabotage.local {
		return d.confirm(k.has, epoch), nil
	}
	return d.confirm(d.m, epoch), d.decides(k)
}

// restore has the directory come back with an earlier map.
func (d *simDirectory) restore(back int) {
	i := max(0, len(d.stored)-1-back)
	d.m, d.values = d.stored[i], maps.Clone(d.former[i])
	clear(d.holds)
	for _, k := range d.servers {
		k.has = d.m
	}
	d.w.say("the directory is restored: map %d of %d", d.m.Epoch, d.stored[len(d.stored)-1].Epoch)
}

// behind reports whether it has an older map than before.
func (d *simDirectory) behind() bool {
	return slices.ContainsFunc(d.stored, func(m *directory.Map) bool { return m.Epoch > d.m.Epoch })
}

// everyKeeper does something to each server of the directory.
func (d *simDirectory) everyKeeper(do func(h *host)) {
	for _, k := range d.servers {
		do(&k.host)
	}
}
