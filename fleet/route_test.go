package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/members"
)

func TestTag(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"user:7": "user:7", "{user:7}:name": "user:7", "mr:ick:{a}:b": "a", "{}x": "{}x", "{x": "{x", "x}": "x}", "{a{b}c}": "a{b", "": "",
	} {
		if got := Tag(key); got != want {
			t.Errorf("Tag(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestTagOfACommand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		words []string
		tag   string
		err   error
	}{
		{[]string{"GET", "{a}1"}, "a", nil},
		{[]string{"EVALSHA", "sha", "1", "{a}1", "{b}"}, "a", nil},
		{[]string{"EVALSHA", "sha", "2", "{a}1", "{a}2"}, "a", nil},
		{[]string{"EVALSHA", "sha", "2", "{a}1", "{b}2"}, "", ErrMixedTags},
		{[]string{"EVALSHA", "sha", "0", "x"}, "", ErrNoTag},
		{[]string{"EVAL", "return 1", "1"}, "", ErrNoTag},
		{[]string{"MGET", "{a}1", "{a}2"}, "a", nil},
		{[]string{"MSET", "{a}1", "v", "{b}2", "v"}, "", ErrMixedTags},
		{[]string{"XREAD", "STREAMS", "{a}", "{a}:2", "0", "0"}, "a", nil},
		{[]string{"PING"}, "", ErrNoTag},
		{[]string{"FLUSHALL"}, "", ErrNoTag},
		{[]string{"NEW.COMMAND", "{a}"}, "", ErrNoTag},
		{[]string{"XACKDEL", "{a}s", "g", "IDS", "1", "1-0"}, "a", nil},
		{[]string{"MSETEX", "2", "{a}1", "x", "{a}2", "y", "EX", "10"}, "a", nil},
		{[]string{"MSETEX", "2", "{a}1", "x", "{b}2", "y", "EX", "10"}, "", ErrMixedTags},
	} {
		tag, err := tagOf(tc.words)
		if tag != tc.tag || !errors.Is(err, tc.err) {
			t.Errorf("tagOf(%q) = %q, %v, want %q, %v", tc.words, tag, err, tc.tag, tc.err)
		}
	}
}

// TestPipelines sends commands for many tags at once: each has its own answer, and
// those of one tag come in order.
func TestPipelines(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, 0, calm).open(Config{})
	c := f.Client()
	var cmds []rueidis.Completed
	for i := range 60 {
		key := fmt.Sprintf("{%d}", i)
		cmds = append(cmds, c.B().Incrby().Key(key).Increment(int64(i)).Build(), c.B().Incr().Key(key).Build(), c.B().Get().Key(key).Build())
	}
	for i, result := range c.DoMulti(t.Context(), cmds...) {
		want := int64(i/3 + min(i%3, 1))
		if got, err := result.AsInt64(); err != nil || got != want {
			t.Errorf("answer %d = %d, %v, want %d", i, got, err, want)
		}
	}
	if got := c.DoMulti(t.Context()); len(got) != 0 {
		t.Errorf("DoMulti of nothing = %v", got)
	}
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, 0, calm).open(Config{})
	c, ctx := f.Client(), t.Context()
	b := func(words ...string) rueidis.Completed { return c.B().Arbitrary(words...).Build() }

	results := c.DoMulti(ctx, b("INCR", "{z}"), b("MULTI"), b("INCR", "{a}1"), b("INCR", "{a}2"), b("EXEC"), b("INCR", "{y}"), b("WAIT", "0", "1"))
	if got, err := results[4].AsIntSlice(); err != nil || len(got) != 2 || got[0] != 1 || got[1] != 1 {
		t.Errorf("EXEC = %v, %v, want 1 and 1", got, err)
	}
	for i, result := range results {
		if err := result.Error(); err != nil {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	for _, tc := range []struct {
		name string
		cmds []rueidis.Completed
		want error
	}{
		{"of two tags", []rueidis.Completed{b("INCR", "{q}"), b("MULTI"), b("INCR", "{a}1"), b("INCR", "{b}1"), b("EXEC")}, ErrMixedTags},
		{"without a key", []rueidis.Completed{b("INCR", "{q}"), b("MULTI"), b("EXEC")}, ErrNoTag},
		{"without an end or a key", []rueidis.Completed{b("INCR", "{q}"), b("MULTI")}, ErrNoTag},
		{"without a beginning", []rueidis.Completed{b("INCR", "{q}"), b("EXEC")}, ErrNoTag},
		{"with a PING beside it", []rueidis.Completed{b("INCR", "{q}"), b("PING")}, ErrNoTag},
	} {
		for i, result := range c.DoMulti(ctx, tc.cmds...) {
			if err := result.Error(); !errors.Is(err, tc.want) {
				t.Errorf("a transaction %s: answer %d = %v, want %v", tc.name, i, err, tc.want)
			}
		}
	}
	if got, err := get(ctx, c, "{q}"); got != "" || err != nil {
		t.Errorf("what was refused was sent: {q} = %q, %v", got, err)
	}
}

func TestPartitionClients(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 3, 0, calm)
	f, ctx := tf.open(Config{}), t.Context()
	for i, c := range f.Partitions() {
		must(t, c.Do(ctx, c.B().Ping().Build()).Error())
		must(t, put(ctx, c, "anything", fmt.Sprint(i)))
		if got, err := get(ctx, tf.masters[i].Client(t), "anything"); got != fmt.Sprint(i) || err != nil {
			t.Errorf("on partition %d: %q, %v", i, got, err)
		}
		if nodes := c.Nodes(); len(nodes) != 1 || nodes[tf.masters[i].Addr()] == nil {
			t.Errorf("Nodes of partition %d = %v", i, nodes)
		}
		c.Close() // which does nothing
	}
	wantError(t, f.Client().Do(ctx, f.Client().B().Ping().Build()).Error(), ErrNoTag)
	if nodes := f.Client().Nodes(); len(nodes) != 3 {
		t.Errorf("Nodes = %v, want 3", nodes)
	}
}

func TestDedicated(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, 0, calm).open(Config{})
	c, ctx := f.Client(), t.Context()
	must(t, put(ctx, c, "{a}n", "1"))
	err := c.Dedicated(func(d rueidis.DedicatedClient) error {
		wantError(t, d.Do(ctx, d.B().Multi().Build()).Error(), ErrNoTag)
		must(t, d.Do(ctx, d.B().Watch().Key("{a}n").Build()).Error())
		must(t, put(ctx, c, "{a}n", "2")) // another client
		wantError(t, d.Do(ctx, d.B().Get().Key("{b}n").Build()).Error(), ErrMixedTags)
		results := d.DoMulti(ctx, d.B().Multi().Build(), d.B().Incr().Key("{a}n").Build(), d.B().Exec().Build())
		if err := results[2].Error(); !rueidis.IsRedisNil(err) {
			t.Errorf("EXEC of a transaction that was overtaken = %v, want nil", err)
		}
		if told := <-d.SetPubSubHooks(rueidis.PubSubHooks{}); !errors.Is(told, ErrUnsupported) {
			t.Errorf("SetPubSubHooks = %v, want ErrUnsupported", told)
		}
		return nil
	})
	must(t, err)
	d, cancel := c.Dedicate()
	cancel()
	wantError(t, d.Do(ctx, d.B().Get().Key("{a}n").Build()).Error(), rueidis.ErrDedicatedClientRecycled)
	wantError(t, c.Receive(ctx, c.B().Subscribe().Channel("x").Build(), func(rueidis.PubSubMessage) {}), ErrUnsupported)
}

func TestStreamsAndCache(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, 0, calm).open(Config{})
	c, ctx := f.Client(), t.Context()
	must(t, put(ctx, c, "{a}", "text"))
	if got, err := c.DoCache(ctx, c.B().Get().Key("{a}").Cache(), 1e9).ToString(); got != "text" || err != nil {
		t.Errorf("DoCache = %q, %v", got, err)
	}
	if got, err := c.DoMultiCache(ctx, rueidis.CT(c.B().Get().Key("{a}").Cache(), 1e9))[0].ToString(); got != "text" || err != nil {
		t.Errorf("DoMultiCache = %q, %v", got, err)
	}
	stream := c.DoStream(ctx, c.B().Get().Key("{a}").Build())
	var text writer
	if _, err := stream.WriteTo(&text); err != nil || string(text) != "text" {
		t.Errorf("DoStream = %q, %v", text, err)
	}
	refused := c.DoStream(ctx, c.B().Set().Key("{a}").Value("x").Build())
	wantError(t, refused.Error(), ErrUnsupported)
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

// TestDedicatedToAFencedMaster: a master was restarted, and agents have not examined it
// yet. Commands fail, and the process goes on.
func TestDedicatedToAFencedMaster(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, calm)
	f := tf.open(Config{})
	must(t, put(t.Context(), f.Client(), "{a}", "1"))
	server := tf.masters[0].Client(t)
	for _, fence := range []rueidis.Completed{
		server.B().ConfigSet().ParameterValue().ParameterValue("replica-serve-stale-data", "no").Build(),
		server.B().Arbitrary("REPLICAOF", members.FenceHost, members.FencePort).Build(),
	} {
		must(t, server.Do(t.Context(), fence).Error())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, cmd := range []rueidis.Completed{f.Client().B().Get().Key("{a}").Build(), f.Client().B().Set().Key("{a}").Value("2").Build()} {
		err := f.Client().Dedicated(func(d rueidis.DedicatedClient) error { return d.Do(ctx, cmd).Error() })
		if err == nil {
			t.Error("a fenced master answers")
		}
	}
}
