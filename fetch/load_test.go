package fetch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestOutageUnderLoad counts how often the source is asked while Redis is down and many
// call: once a key and window, however many calls there are.
func TestOutageUnderLoad(t *testing.T) {
	t.Parallel()
	run := time.Second
	if os.Getenv("MILLRACE_SOAK") != "" {
		run = 30 * time.Second
	}
	const keys, callers = 40, 50
	const away, rest = 500 * time.Millisecond, 250 * time.Millisecond
	for _, tc := range []struct {
		name   string
		fails  bool
		window time.Duration // between two loads of a key
		hurt   func(*redistest.Server)
		mend   func(*redistest.Server)
	}{
		{"killed", false, away, (*redistest.Server).Kill, func(*redistest.Server) {}},
		{"hangs", false, away, (*redistest.Server).Pause, (*redistest.Server).Resume},
		{"killed, and loads fail", true, rest, (*redistest.Server).Kill, func(*redistest.Server) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			c := openOn(t, server.Client(t), "c", Config{Away: away, Errors: rest})
			key := func(i int) string { return strconv.Itoa(i % keys) }
			for i := range keys / 2 { // half of them are known
				want(t, c, key(i), &source{value: "v"}, "v", Miss, nil)
			}
			tc.hurt(server)
			defer tc.mend(server)
			c.timeout = 50 * time.Millisecond
			var loads [keys]atomic.Int64
			var calls atomic.Int64
			began := time.Now()
			var all sync.WaitGroup
			for caller := range callers {
				all.Go(func() {
					for i := caller; time.Since(began) < run; i++ {
						calls.Add(1)
						v, _, err := Get(t.Context(), c, key(i), func(context.Context) (string, error) {
							loads[i%keys].Add(1)
							if tc.fails {
								return "", errLoad
							}
							return "v", nil
						})
						known := i%keys < keys/2
						if ok := v == "v" && err == nil; !ok && (known || !tc.fails || !errors.Is(err, errLoad)) {
							t.Errorf("Get of %s = %q, %v", key(i), v, err)
							return
						}
					}
				})
			}
			all.Wait()
			most, total := int64(time.Since(began)/tc.window)+1, int64(0)
			for i := range loads {
				n := loads[i].Load()
				if total += n; n > most {
					t.Errorf("%d loads of %s, want %d at most", n, key(i), most)
				}
			}
			t.Logf("%d loads for %d calls in %v, want %d at most", total, calls.Load(), time.Since(began), most*keys)
		})
	}
}

// crowdEnv makes the test binary a process that waits for many keys: "URL name keys".
const crowdEnv = "MILLRACE_TEST_CROWD"

// beCrowd is many callers, each of a key of its own.
func beCrowd(spec string) error {
	var url, name string
	var keys int
	if _, err := fmt.Sscan(spec, &url, &name, &keys); err != nil {
		return err
	}
	c, err := openChild(url, name)
	if err != nil {
		return err
	}
	return untilStdinEnds(func() error {
		return awaitMany(context.Background(), c.Cache, keys, func(context.Context) (string, error) {
			return "", errors.New("loaded by one who should wait")
		})
	})
}

// awaitMany fetches keys, all at once.
func awaitMany(ctx context.Context, c *Cache, keys int, load func(context.Context) (string, error)) error {
	failures := make([]error, keys)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			if v, _, err := Get(ctx, c, strconv.Itoa(i), load); v != "v" || err != nil {
				failures[i] = fmt.Errorf("Get of %d = %q, %w", i, v, err)
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// TestManyKeysAreAwaited: two processes and a second cache wait for 500 missing keys,
// with MILLRACE_SOAK=1 for 2,000. Each takes a handful of connections, and each key is loaded
// once.
func TestManyKeysAreAwaited(t *testing.T) { //nolint:paralleltest // it takes all of a small machine
	const waiters, perClient = 3, 8
	keys := 500
	if os.Getenv("MILLRACE_SOAK") != "" {
		keys = 2000
	}
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	holder := openOn(t, server.Client(t), "c", Config{Timeout: time.Minute})
	holder.hold = time.Minute // a busy machine does not renew 2,000 leases in time
	gate := make(chan struct{})
	var loads atomic.Int64
	load := func(ctx context.Context) (string, error) {
		loads.Add(1)
		select {
		case <-gate:
			return "v", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	var all sync.WaitGroup
	fetchAll := func(c *Cache) {
		all.Go(func() {
			if err := awaitMany(t.Context(), c, keys, load); err != nil {
				t.Error(err)
			}
		})
	}
	fetchAll(holder)
	redistest.Eventually(t, "all are loaded", func() bool { return loads.Load() == int64(keys) })
	fetchAll(openOn(t, server.Client(t), "c", Config{}))
	var children []*redistest.Child
	for range waiters - 1 {
		children = append(children, redistest.StartChild(t, fmt.Sprintf("%s=%s c %d", crowdEnv, server.URL(), keys)))
	}
	const marks = `local n = 0
		for i = 1, ARGV[2] do
			local v = redis.call('GET', ARGV[1] .. i - 1 .. '}')
			n = n + select(2, string.gsub(v or '', ';', ''))
		end
		return n`
	redistest.Eventually(t, "nearly all wait for all", func() bool {
		n, err := do(client, "EVAL", marks, "0", "mr:lease:{"+holder.leaseName(""), strconv.Itoa(keys)).AsInt64()
		return err == nil && n > int64(waiters*keys*9/10) // on a busy machine some come again late
	})
	connections, err := strconv.Atoi(server.Info("clients")["connected_clients"])
	if most := (waiters + 2) * perClient; err != nil || connections > most {
		t.Errorf("%d connections, %v, want %d at most", connections, err, most)
	}
	t.Logf("%d connections", connections)
	close(gate)
	all.Wait()
	for _, child := range children {
		child.Lines(1)
	}
	if n := loads.Load(); n != int64(keys) {
		t.Errorf("%d loads, want %d", n, keys)
	}
}

// TestSlowAnswers: a lease whose answer came after its time is asked for again, and no process
// computes the value a second time.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	holder := open(t, Config{Timeout: time.Minute})
	c := openOn(t, proxy.Client(t), holder.name, Config{})
	c.hold = 20 * time.Millisecond
	s, release := blocked(t, "v")
	first := start(t.Context(), holder, "k", s)
	<-s.begun
	idle := &source{value: "own"}
	waiting := start(t.Context(), c, "k", idle)
	awaitCallers(t, c, 1)
	proxy.Delay(30 * time.Millisecond) // longer than its lease
	release()
	wantFrom(t, first, "v", Miss, nil)
	wantFrom(t, waiting, "v", Waited, nil)
	wantLoads(t, idle, 0)
	want(t, c, "k", idle, "v", Hit, nil)
	late := start(t.Context(), c, "cold", idle) // no lease comes in time
	redistest.Eventually(t, "it is asked for more than once", func() bool {
		info, err := holder.leases.Show(t.Context(), holder.leaseName("cold"))
		return err == nil && info.Fence > 0
	})
	proxy.Delay(0)
	wantFrom(t, late, "own", Miss, nil)
}
