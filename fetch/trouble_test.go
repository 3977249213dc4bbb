package fetch

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/pinned"
)

var setAny = pinned.SetConfig{}

func logger(log *redistest.Log) *slog.Logger { return slog.New(slog.NewTextHandler(log, nil)) }

// TestOutage: while Redis is down each key is computed once a process at a time,
// and only so many at once; when it is back, values are kept.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]struct{ down, up func(*redistest.Server) }{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const keys, each, most = 12, 5, 4
			server := redistest.Start(t, redistest.Options{})
			var log redistest.Log
			c := openOn(t, server.Client(t), "c", Config{Concurrency: most, Logger: logger(&log)})
			want(t, c, "before", &source{value: "v"}, "v", Miss, nil)
			c.timeout = 50 * time.Millisecond
			hurt.down(server)
			s, release := blocked(t, "v")
			var answers []<-chan got
			for i := range keys * each {
				answers = append(answers, start(t.Context(), c, strconv.Itoa(i%keys), s))
			}
			awaitCallers(t, c, keys*each)
			for range most { // all slots are taken
				<-s.begun
			}
			ctx, cancel := context.WithCancel(t.Context())
			gone := start(ctx, c, "waits for its turn", s)
			awaitCallers(t, c, keys*each+1)
			cancel()
			wantFrom(t, gone, "", Failed, context.Canceled)
			release()
			for _, a := range answers {
				wantFrom(t, a, "v", Bypass, nil)
			}
			if loads, atOnce := s.counts(); loads != keys || atOnce != most {
				t.Errorf("%d loads, %d at once, want %d, %d", loads, atOnce, keys, most)
			}
			want(t, c, "fails", &source{err: errLoad}, "", Failed, errLoad)
			want(t, c, "none", &source{err: millrace.ErrNotFound}, "", Bypass, millrace.ErrNotFound)
			if got := log.Count("redis does not answer"); got != 1 {
				t.Errorf("logged %d times, want once", got)
			}
			hurt.up(server)
			c.timeout = patient
			redistest.Eventually(t, "values are kept again", func() bool {
				_, r, err := Get(t.Context(), c, "after", s.load)
				if err != nil {
					t.Fatalf("Get = %v", err)
				}
				return r.Outcome == Hit
			})
			if got := log.Count("redis answers again"); got != 1 {
				t.Errorf("the end is logged %d times, want once", got)
			}
		})
	}
}

// TestSilentServer: one server of a Cluster that is silent is no outage of the others,
// whether it should have had a value or a lease. It is logged once.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	servers.HoldFailovers()
	silent := servers.Nodes[1]
	has := func(tag string) bool { return servers.MasterOf("{"+tag+"}") == silent }
	find := func(ok func(name string) bool) string {
		t.Helper()
		name := ""
		redistest.Eventually(t, "there is a name", func() bool {
			name = redistest.Name(t)
			return ok(name)
		})
		return name
	}
	name := find(func(name string) bool { return !has(prefix + name) })
	var log redistest.Log
	c := openOn(t, servers.Client(t), name, Config{Logger: logger(&log)})
	shard := func(key string) string {
		return fmt.Sprintf("%s%s/%d", prefix, name, crc32.ChecksumIEEE([]byte(key))%shards.Default)
	}
	there := find(func(key string) bool { return has(shard(key)) })
	elsewhere := find(func(key string) bool { return !has(shard(key)) && !has(c.leaseName(key)) })
	another := find(func(key string) bool { return !has(shard(key)) && !has(c.leaseName(key)) })
	leased := find(func(key string) bool { return shard(key) == shard(elsewhere) && has(c.leaseName(key)) })
	s := &source{value: "v"}
	want(t, c, there, s, "v", Miss, nil)
	want(t, c, elsewhere, s, "v", Miss, nil)

	c.timeout = redisTimeout
	silent.Pause()
	want(t, c, there, s, "v", Remembered, nil)
	want(t, c, elsewhere, s, "v", Hit, nil)
	want(t, c, leased, s, "v", Bypass, nil)
	want(t, c, elsewhere, s, "v", Hit, nil)
	want(t, c, another, s, "v", Miss, nil)
	want(t, c, there, s, "v", Remembered, nil)
	if got := log.Count("redis does not answer"); got != 1 {
		t.Errorf("logged %d times, want once", got)
	}
	silent.Resume()
	redistest.Eventually(t, "the value there is found", func() bool {
		_, r, err := Get(t.Context(), c, there, s.load)
		return err == nil && r.Outcome == Hit
	})
	again := func() int { return log.Count("redis answers again") }
	redistest.Eventually(t, "the end is logged", func() bool { return again() > 0 }) // by whichever call saw it first
	if again() != 1 {
		t.Errorf("the end is logged %d times, want once", again())
	}
}

// TestOutageWhileWaiting: a caller that waits for another process when Redis goes away
// computes for itself.
func TestOutageWhileWaiting(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	holder := openOn(t, server.Client(t), "c", Config{})
	c := openOn(t, server.Client(t), "c", Config{})
	holder.timeout, c.timeout = time.Second/2, time.Second/2
	s, release := blocked(t, "holder's")
	held := start(t.Context(), holder, "k", s)
	<-s.begun
	answers := start(t.Context(), c, "k", &source{value: "own"})
	awaitCallers(t, c, 1)
	server.Pause()
	wantFrom(t, answers, "own", Bypass, nil)
	release()
	wantFrom(t, held, "holder's", Miss, nil) // stored or not
	server.Resume()
}

// TestNestedInAnOutage: a load that fetches in turn needs no second slot.
func TestNestedInAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	c := openOn(t, server.Client(t), "c", Config{Concurrency: 1})
	c.timeout = 50 * time.Millisecond
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	got, _, err := Get(ctx, c, "outer", func(ctx context.Context) (string, error) {
		inner, _, err := Get(ctx, c, "inner", func(context.Context) (string, error) { return "v", nil })
		return inner, err
	})
	if got != "v" || err != nil {
		t.Errorf("Get = %q, %v, want v", got, err)
	}
}

// TestFullServer: a value that does not fit is computed and not kept; stored ones are
// found.
func TestFullServer(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	var log redistest.Log
	c := openOn(t, client, "c", Config{Stale: time.Minute, Logger: logger(&log)})
	for _, key := range []string{"fresh", "old", "forgotten"} {
		want(t, c, key, &source{value: "v"}, "v", Miss, nil)
	}
	age(t, c, "old", time.Second*30)
	for range 2 {
		must(t, client, "CONFIG", "SET", "maxmemory", "1")
		want(t, c, "k", &source{value: "v"}, "v", Bypass, nil)
		want(t, c, "k", &source{}, "v", Remembered, nil)
		want(t, c, "fresh", &source{}, "v", Hit, nil)
		want(t, c, "old", &source{}, "v", Stale, nil)
		if err := c.Forget(t.Context(), "forgotten"); err != nil {
			t.Errorf("Forget = %v", err)
		}
		want(t, c, "forgotten", &source{value: "v"}, "v", Bypass, nil)
		must(t, client, "CONFIG", "SET", "maxmemory", "0")
		want(t, c, "k", &source{value: "v"}, "v", Miss, nil)
		want(t, c, "k", &source{}, "v", Hit, nil)
		if err := c.Forget(t.Context(), "k"); err != nil {
			t.Errorf("Forget = %v", err)
		}
	}
	if got := log.Count("redis is full"); got != 2 {
		t.Errorf("logged %d times, want once each time", got)
	}
}

// TestFullBeforeItIsStored: memory ran out while the value was computed.
func TestFullBeforeItIsStored(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	c := openOn(t, client, "c", Config{})
	got, _, err := Get(t.Context(), c, "k", func(context.Context) (string, error) {
		return "v", do(client, "CONFIG", "SET", "maxmemory", "1").Error()
	})
	if got != "v" || err != nil || !c.full.Load() {
		t.Errorf("Get = %q, %v, want the value though Redis is full", got, err)
	}
}

// TestMemoryPressure: values stay until their time while others evict each other.
func TestMemoryPressure(t *testing.T) {
	t.Parallel()
	const fill = "for i = 1, 500 do redis.call('SET', 'cache:' .. ARGV[1] .. ':' .. i, string.rep('x', 200), 'PX', 3600000) end"
	server := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "volatile-lru"})
	client := server.Client(t)
	c := openOn(t, client, "c", Config{})
	const values = 200
	for i := range values {
		want(t, c, strconv.Itoa(i), &source{value: "v"}, "v", Miss, nil)
	}
	for i := range 200 { // twice what fits, and more
		if err := do(client, "EVAL", fill, "0", strconv.Itoa(i)).Error(); err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
	}
	if server.Info("stats")["evicted_keys"] == "0" {
		t.Error("the memory was never full")
	}
	for i := range values {
		want(t, c, strconv.Itoa(i), &source{err: errLoad}, "v", Hit, nil)
	}
}

func TestEvictable(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "allkeys-lru"}).Client(t)
	if _, err := Open(t.Context(), client, "c", Config{}); !errors.Is(err, millrace.ErrEvictable) {
		t.Errorf("Open = %v, want ErrEvictable", err)
	}
	c := openOn(t, client, "c", Config{AllowEvictable: true})
	want(t, c, "k", &source{value: "v"}, "v", Miss, nil)
	want(t, c, "k", &source{}, "v", Hit, nil)
}

// TestLostReplies loses the reply of each call of a fetch in turn.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	c := openOn(t, proxy.Client(t), redistest.Name(t), Config{})
	want(t, c, "first", &source{value: "v"}, "v", Miss, nil)
	want(t, c, "first", &source{}, "v", Hit, nil) // now the server knows all scripts
	const calls = 6                               // look, and whether the shard is the right one; lease, claim, store, release
	for i := range calls {                        // and their shards have begun
		want(t, c, fmt.Sprint("k", i), &source{value: "v"}, "v", Miss, nil)
		if err := c.Forget(t.Context(), fmt.Sprint("k", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range calls {
		seen := 0
		fault := proxy.DropReply(func(cmd []string) bool {
			switch strings.ToUpper(cmd[0]) {
			case "EVALSHA", "HGET", "HMGET":
				seen++
				return seen == i+1
			}
			return false
		})
		s := &source{value: "v"}
		key := fmt.Sprint("k", i)
		want(t, c, key, s, "v", Miss, nil)
		if fault.Count() != 1 {
			t.Errorf("call %d: %d replies lost, want 1", i, fault.Count())
		}
		want(t, c, key, s, "v", Hit, nil)
		wantLoads(t, s, 1)
	}
}

// TestForeignKeys: a cache whose keys hold something else costs no answer.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	c := openOn(t, client, redistest.Name(t), Config{})
	must(t, client, "SET", "mr:lease:{"+c.leaseName("k")+"}", "text")
	s := &source{value: "v"}
	want(t, c, "k", s, "v", Bypass, nil)
	want(t, c, "k", s, "v", Remembered, nil)
	want(t, c, "other", s, "v", Miss, nil)
}
