package shrink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/retry"
)

// quick are settings by which everything is what it is, only faster.
var quick = directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond, PlacementTTL: 400 * time.Millisecond}

// slowly has time to connect on a busy machine, and little to do for that.
var slowly = rueidis.ClientOption{
	Dialer:            net.Dialer{Timeout: 10 * time.Second},
	PipelineMultiplex: -1, RingScaleEachConn: 6, ReadBufferEachConn: 1 << 14, WriteBufferEachConn: 1 << 14,
}

var (
	quiet   = slog.New(slog.DiscardHandler)
	onTrust = grow.Config{Option: slowly, RestartTimeout: -1}
)

// testFleet is a fleet of real servers, one for each partition.
type testFleet struct {
	t       *testing.T
	dir     *directory.Redis
	masters []*redistest.Server // by partition
	direct  []rueidis.Client    // to them
}

func startFleet(t *testing.T, partitions int) *testFleet {
	t.Helper()
	tf := &testFleet{t: t}
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{redistest.Start(t, redistest.Options{TCP: true}).Addr()}})
	must(t, err)
	t.Cleanup(dir.Close)
	tf.dir = dir
	cfg := onTrust
	cfg.Settings = quick
	_, err = grow.Init(t.Context(), dir, tf.servers(partitions), cfg)
	must(t, err)
	return tf
}

// servers starts servers for more partitions.
func (tf *testFleet) servers(n int) (made []grow.Partition) {
	tf.t.Helper()
	for range n {
		server := redistest.Start(tf.t, redistest.Options{TCP: true})
		tf.masters, tf.direct = append(tf.masters, server), append(tf.direct, server.Client(tf.t))
		made = append(made, grow.Partition{Master: directory.Member{Addr: server.Addr()}})
	}
	return made
}

// add adds partitions of two points: the next owner of a tag may be of the same generation.
func (tf *testFleet) add(n int) {
	tf.t.Helper()
	made := tf.servers(n)
	for i := range made {
		made[i].Weight = 2
	}
	_, err := grow.Add(tf.t.Context(), tf.dir, made, onTrust)
	must(tf.t, err)
}

// retire closes a partition, and moves its tags away.
func (tf *testFleet) retire(mover *rebalance.Mover, partition int) {
	tf.t.Helper()
	must(tf.t, rebalance.Close(tf.t.Context(), tf.dir, partition))
	redistest.Eventually(tf.t, "the partition is empty", func() bool {
		_, err := mover.Drain(tf.t.Context(), partition, rebalance.DrainConfig{})
		return err == nil && tf.counted(partition) == 0
	})
}

// counted returns how many tags a partition says it has.
func (tf *testFleet) counted(partition int) int64 {
	tf.t.Helper()
	c := tf.direct[partition]
	n, err := c.Do(tf.t.Context(), c.B().Get().Key(members.TagsKey).Build()).AsInt64()
	if !rueidis.IsRedisNil(err) {
		must(tf.t, err)
	}
	return n
}

func (tf *testFleet) present() *directory.Map {
	tf.t.Helper()
	m, err := tf.dir.Confirm(tf.t.Context(), 0)
	must(tf.t, err)
	return m
}

// enter puts the last partition into a phase.
func (tf *testFleet) enter(phase directory.Phase) {
	tf.t.Helper()
	_, err := directory.Edit(tf.t.Context(), tf.dir, func(next *directory.Map) (bool, error) {
		enter(next, phase)
		return true, nil
	})
	must(tf.t, err)
}

// open opens the fleet as one process does.
func (tf *testFleet) open(dir directory.Directory) *fleet.Fleet {
	tf.t.Helper()
	f, err := fleet.Open(tf.t.Context(), dir, fleet.Config{Option: slowly, Logger: quiet})
	must(tf.t, err)
	tf.t.Cleanup(f.Close)
	return f
}

func (tf *testFleet) mover(f *fleet.Fleet) *rebalance.Mover {
	tf.t.Helper()
	m, err := rebalance.New(f, rebalance.Config{Moves: tf.dir, Logger: quiet})
	must(tf.t, err)
	return m
}

// knows waits until a client uses the map of that epoch, or a later one.
func (tf *testFleet) knows(f *fleet.Fleet, epoch int64) {
	tf.t.Helper()
	redistest.Eventually(tf.t, "the client has the map", func() bool { return directory.MapOf(f.Client()).Epoch >= epoch })
}

// homes returns the partitions whose records say that a tag is there.
func (tf *testFleet) homes(tag string) (homes []int) {
	tf.t.Helper()
	for id, c := range tf.direct {
		text, err := c.Do(tf.t.Context(), c.B().Get().Key(members.RecordKey(tag)).Build()).ToString()
		if !rueidis.IsRedisNil(err) {
			must(tf.t, err)
		}
		if r, err := members.ParseRecord(text); err == nil && r.Home == id {
			homes = append(homes, id)
		}
	}
	return homes
}

// pinned is the directory of a client that has not heard of the newest maps.
type pinned struct {
	directory.Directory

	m atomic.Pointer[directory.Map]
}

func (p *pinned) Confirm(_ context.Context, epoch int64) (*directory.Map, error) {
	if m := p.m.Load(); m.Epoch != epoch {
		return m.Clone(), nil
	}
	return nil, nil //nolint:nilnil // the map is confirmed
}

func (p *pinned) Load(context.Context) (*directory.Map, error) { return p.m.Load().Clone(), nil }

// ledger is what was written, by tag.
type ledger map[string][]string

// write adds a member to the set of a tag, and repeats that for as long as the outcome is
// not known.
func (l ledger) write(ctx context.Context, f *fleet.Fleet, tag string) error {
	member := fmt.Sprint(len(l[tag]))
	c := f.Client()
	err := retry.Policy{}.Do(ctx, func(int) error {
		return c.Do(ctx, c.B().Sadd().Key("{"+tag+"}").Member(member).Build()).Error()
	})
	if err == nil {
		l[tag] = append(l[tag], member)
	}
	return err
}

// check fails the test unless a client finds all that was written, and each tag has one home.
func (l ledger) check(tf *testFleet, when string, clients map[string]*fleet.Fleet) {
	tf.t.Helper()
	ctx := tf.t.Context()
	for tag, want := range l {
		if homes := tf.homes(tag); len(homes) != min(1, len(want)) {
			tf.t.Errorf("%s: %q is at home in %v", when, tag, homes)
		}
		for name, f := range clients {
			c := f.Client()
			got, err := c.Do(ctx, c.B().Smembers().Key("{"+tag+"}").Build()).AsStrSlice()
			must(tf.t, err)
			for _, member := range want {
				if !slices.Contains(got, member) {
					l, _ := f.Locate(ctx, tag)
					tf.t.Errorf("%s: a client with %s finds %q of %q, by %+v, and not %q; its homes are %v", when, name, got, tag, l, member, tf.homes(tag))
				}
			}
		}
	}
}

// keys returns the keys of a partition that match a pattern.
func (tf *testFleet) keys(partition int, pattern string) []string {
	tf.t.Helper()
	c := tf.direct[partition]
	all, err := c.Do(tf.t.Context(), c.B().Keys().Pattern(pattern).Build()).AsStrSlice()
	must(tf.t, err)
	return all
}

func isFleets(key string) bool { return strings.HasPrefix(key, members.Base) }

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want %v", err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
