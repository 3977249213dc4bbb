package grow

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestInitRefuses servers that cannot become a fleet, gives the reason, and changes nothing.
func TestInitRefuses(t *testing.T) {
	t.Parallel()
	dirs := redistest.Durable(t)
	tf := &testFleet{t: t, dirs: dirs}
	tf.dir = tf.dial(dirs.Addr())
	ctx := t.Context()
	start := func(opts redistest.Options) directory.Member {
		opts.TCP = true
		return directory.Member{Addr: redistest.Start(t, opts).Addr()}
	}
	empty, other := start(redistest.Options{}), start(redistest.Options{})
	used := redistest.Start(t, redistest.Options{TCP: true})
	must(t, put(ctx, used.Client(t), "something", "x"))
	evicting := start(redistest.Options{MaxMemory: "100mb", Policy: "allkeys-lru"})
	taken := redistest.Start(t, redistest.Options{TCP: true})
	must(t, set(ctx, taken.Client(t), "mr:fleet:id", "other/0"))
	member := directory.Member{Addr: taken.Addr()}
	clustered := start(redistest.Options{Args: []string{"--cluster-enabled", "yes"}})
	one := func(m directory.Member) []Partition { return []Partition{{Master: m}} }
	for _, tc := range []struct {
		name       string
		partitions []Partition
		settings   directory.Settings
		want       error
		says       string
	}{
		{"nothing", nil, directory.Settings{}, millrace.ErrBadArgument, "no partition"},
		{"no address", one(directory.Member{}), directory.Settings{}, millrace.ErrBadArgument, "no HOST:PORT"},
		{"a socket", one(directory.Member{Addr: "/tmp/s"}), directory.Settings{}, millrace.ErrBadArgument, "no HOST:PORT"},
		{"a server twice", []Partition{{Master: empty}, {Master: empty}}, directory.Settings{}, millrace.ErrBadArgument, "twice"},
		{"a replica of itself", []Partition{{Master: empty, Replicas: []directory.Member{empty}}}, directory.Settings{}, millrace.ErrBadArgument, "twice"},
		{"two members on a node", []Partition{{
			Master: directory.Member{Addr: empty.Addr, Node: "n"}, Replicas: []directory.Member{{Addr: other.Addr, Node: "n"}},
		}}, directory.Settings{}, millrace.ErrBadArgument, "two members on node n"},
		{"a weight", []Partition{{Master: empty, Weight: -1}}, directory.Settings{}, millrace.ErrBadArgument, "weight"},
		{"settings", one(empty), directory.Settings{ViewTTL: time.Millisecond}, millrace.ErrBadArgument, "view-life"},
		{"a fill", one(empty), directory.Settings{MaxFill: 101}, millrace.ErrBadArgument, "max-fill"},
		{"nobody there", one(directory.Member{Addr: "127.0.0.1:1"}), directory.Settings{}, members.ErrUnavailable, "127.0.0.1:1"},
		{"data", one(directory.Member{Addr: used.Addr()}), directory.Settings{}, ErrUnfit, "has 1 key"},
		{"a policy", one(evicting), directory.Settings{}, ErrUnfit, "allkeys-lru"},
		{"a cluster", one(clustered), directory.Settings{}, ErrUnfit, "Cluster"},
		{"one server by two names", []Partition{{Master: empty}, {Master: directory.Member{Addr: strings.Replace(empty.Addr, "127.0.0.1", "localhost", 1)}}}, directory.Settings{}, ErrUnfit, "the same as"},
		{"a member of another fleet", one(member), directory.Settings{}, ErrUnfit, "of a fleet already"},
		{"a good one and a bad one", []Partition{{Master: empty}, {Master: evicting}}, directory.Settings{}, ErrUnfit, "allkeys-lru"},
	} {
		_, err := Init(ctx, tf.dir, tc.partitions, Config{Settings: tc.settings, RestartTimeout: -1})
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("Init of %s = %v, want %v that says %q", tc.name, err, tc.want, tc.says)
		}
	}
	if _, err := fleet.Open(ctx, tf.dir, fleet.Config{}); !errors.Is(err, directory.ErrNoFleet) || millrace.Hint(err) == "" {
		t.Errorf("Open = %v, want ErrNoFleet with a hint", err)
	}
	if _, err := Add(ctx, tf.dir, one(empty), onTrust); !errors.Is(err, directory.ErrNoFleet) {
		t.Errorf("Add without a fleet = %v, want ErrNoFleet", err)
	}
	var steps []string
	_, err := Init(ctx, tf.dir, one(empty), Config{RestartTimeout: -1, Progress: func(step string) { steps = append(steps, step) }})
	must(t, err)
	if len(steps) < 3 {
		t.Errorf("the steps that were told are %q", steps)
	}
	_, err = Init(ctx, tf.dir, one(other), onTrust)
	wantError(t, err, ErrExists)
	_, err = Add(ctx, tf.dir, one(empty), onTrust)
	wantError(t, err, millrace.ErrBadArgument)
}

// TestInitAgain finishes a call that was cut off before the directory had the map.
func TestInitAgain(t *testing.T) {
	t.Parallel()
	dirs := redistest.Durable(t)
	tf := &testFleet{t: t, dirs: dirs}
	tf.dir = tf.dial(dirs.Addr())
	partitions := tf.servers(1, 1)
	cfg := onTrust
	m := &directory.Map{Fleet: nameOf(partitions), Floor: 1, Partitions: describe(partitions, 0, 0, directory.Open)} // an earlier attempt
	must(t, cfg.prepare(t.Context(), m, 0))
	for range 2 { // the second one has nothing to do
		_, err := Init(t.Context(), tf.dir, partitions, Config{Settings: quick, RestartTimeout: -1})
		must(t, err)
	}
	must(t, put(t.Context(), tf.open(fleet.Config{}).Client(), "{a}", "x"))
}

// TestAddBesideOtherChanges: another process changes the map while partitions are opened.
// The floor is then raised again, to the epoch that they are opened with.
func TestAddBesideOtherChanges(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	ctx := t.Context()
	store := &meddler{Store: tf.dir.Store, changes: 2}
	dir := directory.New(store)
	m, err := Add(ctx, dir, tf.servers(1, 0), tf.growing(dir))
	must(t, err)
	if store.changes != 0 || m.Floor > m.Epoch || m.Partitions[1].Phase != directory.Open {
		t.Errorf("the map is %+v, want the partition open, and a floor that is not above it; %d changes are left", m, store.changes)
	}
	for _, server := range tf.masters {
		c := server.Client(t)
		if floor, err := c.Do(ctx, c.B().Get().Key("mr:fleet:floor").Build()).AsInt64(); err != nil || floor != m.Floor {
			t.Errorf("a master's floor is %d, %v, want %d", floor, err, m.Floor)
		}
	}
}

// TestAddRefusesWhatJoins: a server that is about to be a member, or leaves, or is a spare.
func TestAddRefusesWhatJoins(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	servers := tf.servers(3, 0)
	joins, leaves, spare := servers[0].Master, servers[1].Master, servers[2].Master
	before := tf.change(func(m *directory.Map) {
		m.Partitions[0].Task, m.Partitions[0].Leaving = &directory.Task{Plan: "add-x", Add: &joins}, &leaves
		m.Spares = []directory.Member{spare}
	})
	for _, n := range servers {
		_, err := Add(t.Context(), tf.dir, []Partition{n}, onTrust)
		wantError(t, err, millrace.ErrBadArgument)
	}
	if now, err := tf.dir.Confirm(t.Context(), 0); err != nil || now.Epoch != before.Epoch {
		t.Errorf("the map has epoch %d, %v, and had %d", now.Epoch, err, before.Epoch)
	}
}

// meddler changes the map just before another process opens partitions.
type meddler struct {
	directory.Store

	mu      sync.Mutex
	changes int
}

func (s *meddler) Put(ctx context.Context, revision string, texts ...directory.Text) (bool, error) {
	if texts[0].Name != "epoch" {
		return s.Store.Put(ctx, revision, texts...)
	}
	next, err := directory.Unpack(texts[1].Text)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	meddles := s.changes > 0 && !next.Adding()
	if meddles {
		s.changes--
	}
	s.mu.Unlock()
	if meddles {
		dir := directory.New(s.Store)
		m, err := dir.Confirm(ctx, 0)
		if err != nil {
			return false, err
		}
		other := m.Clone()
		other.Epoch++
		other.Partitions[0].Epoch++
		if err := dir.Change(ctx, m.Epoch, other); err != nil {
			return false, err
		}
	}
	return s.Store.Put(ctx, revision, texts...)
}

// TestReplicasByTheirNames: hosts have names, and the caller of Init is warned if a master
// knows a replica by another address than the map.
func TestReplicasByTheirNames(t *testing.T) {
	t.Parallel()
	tf := &testFleet{t: t, dirs: redistest.Durable(t)}
	tf.dir = tf.dial(tf.dirs.Addr())
	made := tf.servers(2, 1)
	proxy := redistest.NewTCPProxy(t, made[0].Replicas[0].Addr)
	made[0].Replicas[0].Addr = proxy.Addr()
	_, port, err := net.SplitHostPort(made[1].Replicas[0].Addr)
	must(t, err)
	made[1].Replicas[0].Addr = net.JoinHostPort("localhost", port)

	var told []string
	_, err = Init(t.Context(), tf.dir, made, Config{
		Settings: calm, Option: slowly, RestartTimeout: -1, Progress: func(s string) { told = append(told, s) },
	})
	must(t, err)
	warned := slices.DeleteFunc(told, func(s string) bool { return !strings.Contains(s, "replica-announce-ip") })
	if len(warned) != 1 || !strings.Contains(warned[0], tf.copies[0][0].Addr()) {
		t.Errorf("Init told %q, want one warning of %s", told, tf.copies[0][0].Addr())
	}
	confirmed := func(partition int) error {
		c := tf.open(fleet.Config{WaitReplicas: 1}).Partitions()[partition]
		return set(t.Context(), c, "x", "y")
	}
	wantError(t, confirmed(0), millrace.ErrUncertain)
	must(t, confirmed(1))
}

// copied sees whether all masters had a copy of a map that names the new partition, when it
// was opened.
type copied struct {
	directory.Store

	tf   *testFleet
	mu   sync.Mutex
	seen []int // partitions in the copies, by master
}

func (d *copied) Put(ctx context.Context, revision string, texts ...directory.Text) (bool, error) {
	if texts[0].Name != "epoch" {
		return d.Store.Put(ctx, revision, texts...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen != nil {
		return d.Store.Put(ctx, revision, texts...)
	}
	next, err := directory.Unpack(texts[1].Text)
	must(d.tf.t, err)
	if !next.Adding() {
		for _, master := range d.tf.masters {
			_, held, err := members.Inspect(ctx, master.Client(d.tf.t))
			must(d.tf.t, err)
			m, err := directory.Unpack(held.Text)
			must(d.tf.t, err)
			d.seen = append(d.seen, len(m.Partitions))
		}
	}
	return d.Store.Put(ctx, revision, texts...)
}

// TestNoPartitionTakesTagsUnknown: if the directory is lost, each copy of the map that is
// left names all partitions that have tags.
func TestNoPartitionTakesTagsUnknown(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 0, quick)
	store := &copied{Store: tf.dir.Store, tf: tf}
	dir := directory.New(store)
	_, err := Add(t.Context(), dir, tf.servers(1, 0), tf.growing(dir))
	must(t, err)
	if !slices.Equal(store.seen, []int{3, 3, 3}) {
		t.Errorf("the copies name %v partitions when the third one is opened, want 3 each", store.seen)
	}
}

// TestNoPartitionIsOpenedByAnOldMap: members have a newer map than the directory, without the
// new partition.
func TestNoPartitionIsOpenedByAnOldMap(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 0, quick)
	m, err := tf.dir.Confirm(t.Context(), 0)
	must(t, err)
	newer := m.Next()
	newer.Epoch += 100
	text, err := newer.Pack()
	must(t, err)
	for id, master := range tf.masters { // an agent asks until half of all members have answered
		_, err = members.Copy{Epoch: newer.Epoch, Text: text}.Keep(t.Context(), master.Client(t), m.Fleet, id)
		must(t, err)
	}
	_, err = Add(t.Context(), tf.dir, tf.servers(1, 0), tf.growing(tf.dir))
	wantError(t, err, ErrBehind)
	now, err := tf.dir.Confirm(t.Context(), 0)
	must(t, err)
	replaced := len(now.Partitions) == 2 && now.Epoch >= newer.Epoch // by an agent, with the newer map
	if !replaced && (len(now.Partitions) != 3 || now.Partitions[2].Phase != directory.LookUp) {
		t.Errorf("the map is %+v, want the third partition for look-ups only", now)
	}
}
