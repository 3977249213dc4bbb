package rebalance

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/ring"
)

func position(tag string) uint64 { return ring.Position(tag) }

// TestMove moves tags away and back.
func TestMove(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, redistest.Options{}, redistest.Options{}, redistest.Options{})
	m, user, ctx := tf.mover(Config{Batch: 3}), tf.open(), t.Context()
	c := user.Client()
	var tags []string
	for i := range 5 {
		tag := tf.tagOf(0, fmt.Sprint("t", i, "-"))
		tags = append(tags, tag)
		for j := range 3 {
			must(t, set(ctx, c, fmt.Sprintf("{%s}:%d", tag, j), fmt.Sprint("value ", j)))
		}
	}
	bystander := tf.tagOf(0, "bystander")
	must(t, set(ctx, c, bystander, "stays"))
	for _, to := range []int{1, 0} {
		var told Progress
		m.cfg.Progress = func(p Progress) { told = p }
		report, err := m.Move(ctx, to, append(tags, tags[0])...)
		must(t, err)
		if report.Tags != 5 || report.Keys != 15 || report.Bytes == 0 || report.MedianPause < m.times().inFlight ||
			report.LongestPause < report.MedianPause || report.Took < report.LongestPause || report.Rate() == 0 {
			t.Errorf("Move to %d = %+v", to, report)
		}
		if want := (Progress{Tags: 5, Of: 5, Keys: 15, Bytes: report.Bytes, LongestPause: report.LongestPause}); told != want {
			t.Errorf("the last progress is %+v, want %+v", told, want)
		}
		for _, tag := range tags {
			tf.wantHome(user, tag, to)
			if got, err := get(ctx, c, "{"+tag+"}:1"); got != "value 1" || err != nil {
				t.Errorf("after the move %s has %q, %v", tag, got, err)
			}
		}
	}
	tf.wantHome(user, bystander, 0)

	report, err := m.Move(ctx, 0, append(tags, "never seen")...)
	wantError(t, err, ErrNotMoved)
	wantError(t, err, ErrUnknown)
	if report.Tags != 0 || len(report.Kept) != 1 || report.Kept[0].Tag != "never seen" {
		t.Errorf("Move of what is there = %+v, want only the unknown tag to be told", report)
	}
}

// TestMoveForwarded moves tags whose records are elsewhere, as those of tags that a full
// partition has sent on.
func TestMoveForwarded(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, redistest.Options{}, redistest.Options{}, redistest.Options{})
	user, ctx := tf.open(), t.Context()
	var tags []string
	for i := range 4 {
		tag := tf.place(0, 2, fmt.Sprint("t", i, "-"))
		tags = append(tags, tag)
		l, err := user.Locate(ctx, tag)
		must(t, err)
		if l.How != fleet.Forwarded {
			t.Fatalf("%q is %s", tag, l.How)
		}
	}
	m := tf.mover(Config{})
	for _, to := range []int{2, 1, 0} {
		_, err := m.Move(ctx, to, tags...)
		must(t, err)
		for _, tag := range tags {
			tf.wantHome(user, tag, to)
			if records := tf.records(tag); records[0] != fmt.Sprint(to) {
				t.Errorf("after the move to %d the records are %q, want the first to say so itself", to, records)
			}
			must(t, set(ctx, user.Client(), "{"+tag+"}", tag))
			tf.wantHome(user, tag, to)
		}
	}
}

// TestMoveAllTypes: values and their expiry are the same afterwards.
func TestMoveAllTypes(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, redistest.Options{}, redistest.Options{})
	user, m, ctx := tf.open(), tf.mover(Config{}), t.Context()
	c, tag := user.Client(), tf.tagOf(0, "t")
	key := func(name string) string { return "{" + tag + "}:" + name }
	b := c.B()
	for _, cmd := range []rueidis.Completed{
		b.Set().Key(key("string")).Value("\x00\xff binary").Build(),
		b.Set().Key(key("short")).Value("x").PxMilliseconds(1).Build(),
		b.Set().Key(key("long")).Value("x").PxMilliseconds(3_600_000).Build(),
		b.Hset().Key(key("hash")).FieldValue().FieldValue("a", "1").FieldValue("b", "2").Build(),
		b.Rpush().Key(key("list")).Element("a", "b", "c").Build(),
		b.Sadd().Key(key("set")).Member("a", "b").Build(),
		b.Zadd().Key(key("zset")).ScoreMember().ScoreMember(1.5, "a").ScoreMember(-2, "b").Build(),
		b.Pexpire().Key(key("zset")).Milliseconds(7_200_000).Build(),
		b.XgroupCreate().Key(key("stream")).Group("g").Id("0").Mkstream().Build(),
		b.Xadd().Key(key("stream")).Id("5-1").FieldValue().FieldValue("f", "v").Build(),
		b.Xadd().Key(key("stream")).Id("5-2").FieldValue().FieldValue("f", "w").Build(),
		b.Xreadgroup().Group("g", "me").Count(1).Streams().Key(key("stream")).Id(">").Build(),
	} {
		must(t, c.Do(ctx, cmd).Error())
	}
	state := func(partition int) map[string]any {
		direct := tf.masters[partition].Client(t)
		all := map[string]any{"keys": tf.keys(partition)}
		for name, cmd := range map[string]rueidis.Completed{
			"string":  b.Get().Key(key("string")).Build(),
			"hash":    b.Hgetall().Key(key("hash")).Build(),
			"list":    b.Lrange().Key(key("list")).Start(0).Stop(-1).Build(),
			"set":     b.Sort().Key(key("set")).Alpha().Build(),
			"zset":    b.Zrange().Key(key("zset")).Min("0").Max("-1").Withscores().Build(),
			"stream":  b.Xrange().Key(key("stream")).Start("-").End("+").Build(),
			"pending": b.Xpending().Key(key("stream")).Group("g").Build(),
			"next":    b.XinfoGroups().Key(key("stream")).Build(),
		} {
			value, err := direct.Do(ctx, cmd).ToAny()
			must(t, err)
			all[name] = value
		}
		return all
	}
	redistest.Eventually(t, "the short-lived key is gone", func() bool {
		got, err := get(ctx, c, key("short"))
		return got == "" && err == nil
	})
	before := state(0)
	_, err := m.Move(ctx, 1, tag)
	must(t, err)
	if diff := cmp.Diff(before, state(1)); diff != "" {
		t.Errorf("what was moved differs (-before +after):\n%s", diff)
	}
	for name, life := range map[string]int64{"string": -1, "long": 3_600_000, "zset": 7_200_000} {
		got, err := c.Do(ctx, b.Pttl().Key(key(name)).Build()).AsInt64()
		if must(t, err); life < 0 && got != life || life > 0 && (got > life || got < life-60_000) {
			t.Errorf("%s lives for %d ms more, want %d or a little less", name, got, life)
		}
	}
}

// TestChunkIsOfOneMoment: a script that comes while a tag is copied is seen whole or
// not at all.
func TestChunkIsOfOneMoment(t *testing.T) {
	t.Parallel()
	tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{})
	m, tag := tf.mover(Config{}), tf.place(0, 0, "t")
	keys := tf.keys(0)
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stop()
	writing.Go(func() {
		c := tf.direct[0]
		const all = "for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1]) end return 1"
		for n := 1; ctx.Err() == nil; n++ {
			_ = c.Do(ctx, c.B().Eval().Script(all).Numkeys(int64(len(keys))).Key(keys...).Arg(fmt.Sprint(n)).Build()).Error()
		}
	})
	seen := map[string]bool{}
	for len(seen) < 100 {
		values, err := m.dump(t.Context(), &item{tag: tag}, keys)
		must(t, err)
		seen[values[0].payload] = true
		if values[0].payload != values[1].payload || values[0].payload != values[2].payload {
			t.Fatalf("of one chunk the values are %+v", values)
		}
	}
}
