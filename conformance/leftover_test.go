package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/tracker"
)

const (
	// longestLeftover is for how long anything may stay that leaves by a Redis TTL, apart
	// from values whose time the program chose.
	longestLeftover = 2 * time.Minute

	// longestLanes is for how long lanes do, where there is no upkeep: two periods.
	longestLanes = 20 * time.Minute

	// smallKey is how many bytes a key that stays takes at most. A hash that was large keeps
	// a table of over 1,000 bytes for a while, depending on the server's random hash seed.
	smallKey = 2500
)

// TestNothingStays uses each structure once, lets all its data end, and checks the keys
// that remain when their time is over: none, or a few of constant size.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		use  func(t *testing.T, client rueidis.Client) []millrace.Job
		left int // keys, at most, beside the registry
	}{
		{"ick", useIck, 4},
		{"channel", useChannel, 7},
		{"lease", useLease, 0},
		{"abandoned lease", abandonLease, 0},
		{"queue", useQueue, 23},
		{"tracker", useTracker, 2},
		{"hashes", useHashes, 5},
		{"keys", useKeys, 6},
		{"scatter", useScatter, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Start(t, redistest.Options{}).Client(t)
			jobs := tt.use(t, client)
			redistest.Eventually(t, "what is entered in the background is there", func() bool {
				return len(all(t, client)) > 0 || tt.left == 0
			})
			var left []string
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("left are %q", left)
				}
			})
			// On a busy machine the background may enter a lease after it was released.
			redistest.Eventually(t, fmt.Sprintf("%d keys stay at most", tt.left), func() bool {
				pass(t, client)
				for _, job := range jobs {
					for range 20 { // a round of all shards
						if _, err := job.Slice(t.Context()); err != nil {
							t.Fatalf("%s: %v", job.Name, err)
						}
					}
				}
				left = slices.DeleteFunc(all(t, client), func(key string) bool { return strings.HasPrefix(key, "mr:registry:") })
				return len(left) <= tt.left
			})
			for _, key := range all(t, client) {
				size, err := client.Do(t.Context(), client.B().MemoryUsage().Key(key).Samples(0).Build()).AsInt64()
				must(t, "MEMORY USAGE", err)
				if size > smallKey {
					t.Errorf("%s takes %d bytes, want %d at most", key, size, smallKey)
				}
			}
		})
	}
}

// all returns the keys of a server.
func all(t *testing.T, client rueidis.Client) []string {
	t.Helper()
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice()
	must(t, "KEYS", err)
	return keys
}

// pass lets the times pass after which bookkeeping expires: Redis TTLs, the periods of
// lanes, the index of leases and the deadlines of leases.
func pass(t *testing.T, client rueidis.Client) {
	t.Helper()
	do := func(words ...string) int64 {
		n, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).AsInt64()
		must(t, words[0], err)
		return n
	}
	for _, key := range all(t, client) {
		longest := longestLeftover
		if strings.Contains(key, "lanes:") {
			longest = longestLanes
		}
		if ttl := time.Duration(do("PTTL", key)) * time.Millisecond; ttl > longest {
			t.Errorf("%s stays for %v, want %v at most", key, ttl, longest)
		} else if ttl >= 0 {
			do("DEL", key)
			continue
		}
		switch {
		case strings.Contains(key, "lanes:") && do("HEXISTS", key, "") == 1:
			do("HINCRBY", key, "", "-3")
		case strings.HasPrefix(key, "mr:leases:"):
			names, err := client.Do(t.Context(), client.B().Zrange().Key(key).Min("0").Max("-1").Build()).AsStrSlice()
			must(t, "ZRANGE", err)
			for _, name := range names {
				do("ZADD", key, "1", name)
			}
		case strings.HasPrefix(key, "mr:lease:"):
			n, err := client.Do(t.Context(), client.B().Eval().Script(setLeaseBack).Numkeys(1).Key(key).Build()).AsInt64()
			must(t, "EVAL", err)
			if n != 1 {
				t.Errorf("%s is no lease", key)
			}
		}
	}
}

// crowdSize is how many calls are under way at once, each on a lane of its own.
const crowdSize = 40

// crowd makes calls at once.
func crowd(t *testing.T, call func(i int) error) {
	t.Helper()
	var calls sync.WaitGroup
	for i := range crowdSize {
		calls.Go(func() {
			if err := call(i); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

func useIck(t *testing.T, client rueidis.Client) []millrace.Job {
	t.Helper()
	k, err := ick.New(client, "x", ick.Config{})
	must(t, "New", err)
	crowd(t, func(i int) error {
		_, err := k.AddNow(t.Context(), fmt.Sprint(i))
		return err
	})
	r, err := k.Reserve(t.Context(), 2*crowdSize)
	must(t, "Reserve", err)
	crowd(t, func(i int) error {
		_, err := k.Commit(t.Context(), r.Token, fmt.Sprint(i))
		return err
	})
	return ick.Jobs(client)
}

func useChannel(t *testing.T, client rueidis.Client) []millrace.Job {
	t.Helper()
	c, err := ick.NewChannel(client, "x", ick.ChannelConfig{})
	must(t, "NewChannel", err)
	_, err = c.AddNow(t.Context(), "a")
	must(t, "AddNow", err)
	ctx, stop := context.WithCancel(t.Context())
	_ = c.Consume(ctx, ick.ConsumeConfig{}, func(context.Context, []ick.Entry) error {
		stop()
		return nil
	})
	return ick.Jobs(client)
}

func useLease(t *testing.T, client rueidis.Client) []millrace.Job {
	t.Helper()
	l, err := lease.New(client, lease.Config{})
	must(t, "New", err)
	held, err := l.Acquire(t.Context(), "x", time.Minute, lease.AcquireConfig{})
	must(t, "Acquire", err)
	must(t, "Release", held.Release(t.Context()))
	return lease.Jobs(client)
}

func abandonLease(t *testing.T, client rueidis.Client) []millrace.Job {
	t.Helper()
	l, err := lease.New(client, lease.Config{})
	must(t, "New", err)
	_, err = l.Acquire(t.Context(), "x", time.Minute, lease.AcquireConfig{})
	must(t, "Acquire", err)
	redistest.Eventually(t, "it is in the index", func() bool { return len(all(t, client)) == 2 })
	return lease.Jobs(client)
}

func useQueue(t *testing.T, client rueidis.Client) []millrace.Job {
	t.Helper()
	q, err := fairqueue.New(client, "x", fairqueue.Config{})
	must(t, "New", err)
	crowd(t, func(int) error {
		_, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "a", Body: []byte("b")})
		return err
	})
	messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Max: crowdSize})
	must(t, "Read", err)
	crowd(t, func(i int) error {
		if i >= len(messages) {
			return nil
		}
		_, err := q.Ack(t.Context(), messages[i].Receipt)
		return err
	})
	for _, m := range messages[min(crowdSize, len(messages)):] {
		_, err := q.Ack(t.Context(), m.Receipt)
		must(t, "Ack", err)
	}
	return fairqueue.Jobs(client)
}

// done is a table in which no work is queued.
type done struct{}

func (done) Rows(context.Context, string, int) (tracker.Page, error) {
	return tracker.Page{}, nil
}
func (done) Pending(context.Context, []string) ([]string, error) { return nil, nil }

func useTracker(t *testing.T, client rueidis.Client) []millrace.Job {
	t.Helper()
	tr, err := tracker.New(client, "x", tracker.Config{Source: done{}, Grace: time.Millisecond})
	must(t, "New", err)
	ids := make([]string, 500)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	must(t, "Add", tr.Add(t.Context(), ids...))
	redistest.Eventually(t, "all are verified", func() bool {
		_, err := tr.Jobs()[1].Slice(t.Context())
		must(t, "Jobs", err)
		s, err := tr.Stats(t.Context())
		must(t, "Stats", err)
		return s.Tracked == 0
	})
	return nil
}

func useHashes(t *testing.T, client rueidis.Client) []millrace.Job {
	t.Helper()
	h, err := expiry.Open(t.Context(), client, "x", expiry.Config{Shards: 1})
	must(t, "Open", err)
	crowd(t, func(i int) error {
		_, err := h.Set(t.Context(), "a", fmt.Sprint(i), []byte("v"), expiry.SetConfig{TTL: time.Millisecond})
		return err
	})
	redistest.Eventually(t, "it ends", func() bool {
		n, err := h.Len(t.Context(), "a")
		must(t, "Len", err)
		return n == 0
	})
	return []millrace.Job{h.Jobs()[0]}
}

func useKeys(t *testing.T, client rueidis.Client) []millrace.Job {
	t.Helper()
	k, err := pinned.Open(t.Context(), client, "x", pinned.Config{Shards: 1})
	must(t, "Open", err)
	crowd(t, func(i int) error {
		_, err := k.Set(t.Context(), fmt.Sprint(i), []byte("v"), time.Millisecond, pinned.SetConfig{})
		return err
	})
	redistest.Eventually(t, "all end", func() bool {
		for i := range crowdSize {
			if _, _, err := k.Get(t.Context(), fmt.Sprint(i)); err == nil {
				return false
			}
		}
		return true
	})
	return []millrace.Job{k.Jobs()[0]}
}

func useScatter(t *testing.T, client rueidis.Client) []millrace.Job {
	t.Helper()
	s, err := scatter.New([]scatter.Server{{Name: "one", Client: client}}, scatter.Config{})
	must(t, "New", err)
	crowd(t, func(int) error {
		session := s.Session("")
		session.In(scatter.Bucket{Every: time.Second, Keep: time.Second}).Add("visits", 1)
		return session.Flush(t.Context())
	})
	return nil
}
