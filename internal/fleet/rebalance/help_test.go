package rebalance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// Settings for tests. The quick ones only shorten the times of a move; with the calm ones
// nothing is late on a busy machine, but they are too long to wait for.
var (
	quick = directory.Settings{ViewTTL: 600 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond, PlacementTTL: 600 * time.Millisecond}
	calm  = directory.Settings{ViewTTL: 5 * time.Second, ReplyTimeout: 5 * time.Second, PlacementTTL: 5 * time.Second}
)

// testFleet is a fleet of real servers.
type testFleet struct {
	t       *testing.T
	dir     *directory.Directory
	masters []*redistest.Server
	copies  []*redistest.Server // their replicas, if there are any
	direct  []rueidis.Client    // to the servers themselves
}

// startFleet starts a fleet, each of whose servers has the options given for it.
func startFleet(t *testing.T, servers ...redistest.Options) *testFleet {
	t.Helper()
	return startFleetAt(t, quick, nil, servers...)
}

// startFleetAt lets clients reach a partition through something else.
func startFleetAt(t *testing.T, settings directory.Settings, through func(partition int, addr string) string, servers ...redistest.Options) *testFleet {
	t.Helper()
	tf := &testFleet{t: t}
	var made []grow.Partition
	for i, options := range servers {
		options.TCP = true
		server := redistest.Start(t, options)
		addr := server.Addr()
		if through != nil {
			addr = through(i, addr)
		}
		tf.masters, tf.direct = append(tf.masters, server), append(tf.direct, server.Client(t))
		made = append(made, grow.Partition{Master: directory.Member{Addr: addr}})
	}
	tf.init(settings, made)
	return tf
}

// init makes a fleet of servers.
func (tf *testFleet) init(settings directory.Settings, made []grow.Partition) {
	tf.t.Helper()
	var err error
	tf.dir, err = directory.Dial(rueidis.ClientOption{InitAddress: []string{redistest.Durable(tf.t).Addr()}})
	must(tf.t, err)
	tf.t.Cleanup(tf.dir.Close)
	_, err = grow.Init(tf.t.Context(), tf.dir, made, grow.Config{Settings: settings, Option: slowly, RestartTimeout: -1})
	must(tf.t, err)
}

// slowly has time to connect on a busy machine, and little to do for that.
var slowly = rueidis.ClientOption{
	Dialer:            net.Dialer{Timeout: 10 * time.Second},
	PipelineMultiplex: -1, RingScaleEachConn: 6, ReadBufferEachConn: 1 << 14, WriteBufferEachConn: 1 << 14,
}

var quiet = slog.New(slog.DiscardHandler)

// open opens the fleet as one process does.
func (tf *testFleet) open() *fleet.Fleet {
	tf.t.Helper()
	f, err := fleet.Open(tf.t.Context(), tf.dir, fleet.Config{Option: slowly, Logger: quiet})
	must(tf.t, err)
	tf.t.Cleanup(f.Close)
	return f
}

// mover returns a mover of its own process.
func (tf *testFleet) mover(cfg Config) *Mover {
	tf.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	m, err := New(tf.open(), cfg)
	must(tf.t, err)
	return m
}

// tagOf returns a tag that belongs to a partition.
func (tf *testFleet) tagOf(partition int, name string) string {
	tf.t.Helper()
	m, err := tf.dir.Confirm(tf.t.Context(), 0)
	must(tf.t, err)
	points, err := m.Ring()
	must(tf.t, err)
	for i := 0; ; i++ {
		if tag := fmt.Sprint(name, i); points.Owner(position(tag)) == partition {
			return tag
		}
	}
}

// keys returns the keys of a partition without the fleet's own, sorted.
func (tf *testFleet) keys(partition int) []string {
	tf.t.Helper()
	c := tf.direct[partition]
	all, err := c.Do(tf.t.Context(), c.B().Keys().Pattern("*").Build()).AsStrSlice()
	must(tf.t, err)
	all = slices.DeleteFunc(all, func(key string) bool { return strings.HasPrefix(key, "mr:fleet") })
	slices.Sort(all)
	return all
}

// records returns the records that there are of a tag, by partition; "" for none.
func (tf *testFleet) records(tag string) []string {
	tf.t.Helper()
	var all []string
	for _, c := range tf.direct {
		text, err := get(tf.t.Context(), c, members.RecordKey(tag))
		must(tf.t, err)
		all = append(all, text)
	}
	return all
}

// wantHome fails the test unless a tag is in one partition, with all that is there
// of it, and nothing is marked.
func (tf *testFleet) wantHome(f *fleet.Fleet, tag string, want int) {
	tf.t.Helper()
	l, err := f.Locate(tf.t.Context(), tag)
	must(tf.t, err)
	if l.Partition != want {
		tf.t.Errorf("%q is in partition %d, want %d", tag, l.Partition, want)
	}
	for id, text := range tf.records(tag) {
		if strings.ContainsAny(text, " ") || (text == fmt.Sprint(id)) != (id == want) {
			tf.t.Errorf("the record of %q in partition %d is %q, and it is to be in %d alone, without marks", tag, id, text, want)
		}
		for _, key := range tf.keys(id) {
			if id != want && fleet.Tag(key) == tag {
				tf.t.Errorf("%q was left in partition %d", key, id)
			}
		}
	}
	counted := tf.counted()
	if homes := tf.homes(); !slices.Equal(counted, homes) {
		tf.t.Errorf("the partitions count %v tags, and have %v", counted, homes)
	}
}

// counted returns how many tags the partitions say they have.
func (tf *testFleet) counted() []int {
	tf.t.Helper()
	var all []int
	for _, c := range tf.direct {
		n, err := c.Do(tf.t.Context(), c.B().Get().Key(members.Base+":tags").Build()).AsInt64()
		if !rueidis.IsRedisNil(err) {
			must(tf.t, err)
		}
		all = append(all, int(n))
	}
	return all
}

// homes returns of how many tags the records say that they are there.
func (tf *testFleet) homes() []int {
	tf.t.Helper()
	all := make([]int, len(tf.masters))
	for id, c := range tf.direct {
		keys, err := c.Do(tf.t.Context(), c.B().Keys().Pattern(members.Base+":{*").Build()).AsStrSlice()
		must(tf.t, err)
		if len(keys) == 0 {
			continue
		}
		texts, err := c.Do(tf.t.Context(), c.B().Mget().Key(keys...).Build()).AsStrSlice()
		must(tf.t, err)
		for _, text := range texts {
			if r, err := parseRecord(text); err == nil && r.Home == id {
				all[id]++
			}
		}
	}
	return all
}

// do runs a command, and repeats it if it may or may not have been done.
func do(ctx context.Context, c rueidis.Client, cmd func(b rueidis.Builder) rueidis.Completed) error {
	return retry.Policy{Timeout: 20 * time.Second}.Do(ctx, func(int) error { return c.Do(ctx, cmd(c.B())).Error() })
}

func set(ctx context.Context, c rueidis.Client, key, value string) error {
	return do(ctx, c, func(b rueidis.Builder) rueidis.Completed { return b.Set().Key(key).Value(value).Build() })
}

func get(ctx context.Context, c rueidis.Client, key string) (string, error) {
	value, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return value, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want %v", err, want)
	}
}
