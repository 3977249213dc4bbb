package rebalance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// users are some processes that count and read while a tag is moved.
type users struct {
	acked   atomic.Int64 // increments that were successes
	back    atomic.Int64 // reads that saw less than was acked before they began
	members sync.Map     // that were added to a set

	stop context.CancelFunc
	all  sync.WaitGroup
}

func startUsers(t *testing.T, tag string, processes ...*fleet.Fleet) *users {
	ctx, stop := context.WithCancel(t.Context())
	u := &users{stop: stop}
	t.Cleanup(u.end)
	for i, f := range processes {
		c := f.Client()
		write := func(writer int) {
			for n := 0; ctx.Err() == nil; n++ {
				member := fmt.Sprint(i, "-", writer, "-", n)
				add := c.B().Sadd().Key("{" + tag + "}:set").Member(member).Build()
				if n%2 == 0 {
					add = c.B().Incr().Key("{" + tag + "}:counter").Build()
				}
				err := c.Do(ctx, add).Error()
				switch {
				case err == nil && n%2 == 0:
					u.acked.Add(1)
				case err == nil:
					u.members.Store(member, true)
				case ctx.Err() != nil || errors.Is(err, millrace.ErrUncertain) || errors.Is(err, fleet.ErrUnavailable) || errors.Is(err, fleet.ErrReadOnly):
				default:
					t.Errorf("a write while the tag is moved = %v", err)
				}
			}
		}
		read := func() {
			for ctx.Err() == nil {
				least := u.acked.Load()
				got, err := c.Do(ctx, c.B().Get().Key("{"+tag+"}:counter").Build()).AsInt64()
				if (err == nil || rueidis.IsRedisNil(err)) && got < least {
					u.back.Add(1)
				}
			}
		}
		for writer := range 4 {
			u.all.Go(func() { write(writer) })
			u.all.Go(read)
		}
	}
	return u
}

func (u *users) end() {
	u.stop()
	u.all.Wait()
}

// lost returns how many writes that were acknowledged are not there.
func (u *users) lost(t *testing.T, f *fleet.Fleet, tag string) (n int64) {
	t.Helper()
	var acked []string
	u.members.Range(func(member, _ any) bool {
		acked = append(acked, member.(string))
		return true
	})
	least := u.acked.Load()
	c, ctx := f.Client(), t.Context()
	counted, err := c.Do(ctx, c.B().Get().Key("{"+tag+"}:counter").Build()).AsInt64()
	if !rueidis.IsRedisNil(err) {
		must(t, err)
	}
	there, err := c.Do(ctx, c.B().Smismember().Key("{"+tag+"}:set").Member(acked...).Build()).AsIntSlice()
	must(t, err)
	for _, is := range there {
		n += 1 - is
	}
	return n + max(0, least-counted)
}

// TestUsersOfAMovingTag: readers and writers of a tag that is moved to and fro see
// every write. The network is slow for them and quick for the mover, so that they do much
// by a place that they found before. The cases without a wait show that it is needed.
func TestUsersOfAMovingTag(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, leaveOut string
	}{
		{"with all waits", ""},
		{"not until places are forgotten", "until forgotten"},
		{"not for writes under way", "until written"},
		{"not for reads under way", "until read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			direct := map[string]string{}
			settings := directory.Settings{ViewTTL: 800 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond, PlacementTTL: 800 * time.Millisecond}
			var slow []*redistest.Proxy
			tf := startFleetAt(t, settings, func(_ int, addr string) string {
				proxy := redistest.NewTCPProxy(t, addr)
				direct[proxy.Addr()] = addr
				slow = append(slow, proxy)
				return proxy.Addr()
			}, redistest.Options{}, redistest.Options{})
			option := slowly
			option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return d.DialContext(ctx, "tcp", direct[addr])
			}
			mine, err := fleet.Open(t.Context(), tf.dir, fleet.Config{Option: option, Logger: quiet})
			must(t, err)
			t.Cleanup(mine.Close)
			m, err := New(mine, Config{Logger: quiet})
			must(t, err)
			m.step = func(step, _ string, do func() error) error {
				if step == tc.leaveOut {
					return nil
				}
				return do()
			}
			processes := []*fleet.Fleet{tf.open(), tf.open(), tf.open()}
			for _, proxy := range slow {
				proxy.Delay(100 * time.Millisecond)
			}
			tag := tf.tagOf(0, "t")
			u := startUsers(t, tag, processes...)
			redistest.Eventually(t, "users are at work", func() bool { return u.acked.Load() > 10 && size(&u.members) > 10 })
			harm := func() int64 { return u.lost(t, mine, tag) + u.back.Load() }
			for i := range 2 + 20*len(tc.leaveOut) {
				if tc.leaveOut != "" && harm() > 0 {
					break
				}
				before := u.acked.Load()
				report, err := m.Move(t.Context(), 1-i%2, tag)
				must(t, err)
				if report.LongestPause > report.Took || tc.leaveOut == "" && report.LongestPause < m.times().inFlight {
					t.Errorf("the pause was %v of %v", report.LongestPause, report.Took)
				}
				redistest.Eventually(t, "writes go on", func() bool { return u.acked.Load() > before+10 })
			}
			u.end()
			if got, want := harm() > 0, tc.leaveOut != ""; got != want {
				t.Errorf("of %d increments and %d members some were lost, and %d reads went back: %v, want %v", u.acked.Load(), size(&u.members), u.back.Load(), got, want)
			}
			if tc.leaveOut == "" {
				tf.wantHome(mine, tag, 0)
			}
		})
	}
}

// TestStructuresOfAMovingTag: producers and consumers of structures go on while
// these are moved, and each mark and message is handled.
func TestStructuresOfAMovingTag(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, redistest.Options{}, redistest.Options{})
	m, producer, consumer := tf.mover(Config{}), tf.open(), tf.open()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tags := []string{tf.tagOf(0, "dirty"), tf.tagOf(0, "mail")}
	dirty := func(f *fleet.Fleet) *ick.Ick {
		k, err := ick.New(f.Client(), tags[0], ick.Config{})
		must(t, err)
		return k
	}
	mail := func(f *fleet.Fleet) *fairqueue.Queue {
		q, err := fairqueue.New(f.Client(), tags[1], fairqueue.Config{})
		must(t, err)
		return q
	}
	var marked, seen, written, handled sync.Map
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	for range 2 {
		working.Go(func() {
			_ = dirty(consumer).Consume(ctx, ick.ConsumeConfig{}, func(_ context.Context, batch []ick.Entry) error {
				for _, entry := range batch {
					seen.Store(entry.Member, true)
				}
				return nil
			})
		})
		working.Go(func() {
			_ = mail(consumer).Consume(ctx, fairqueue.ConsumeConfig{Visibility: 3 * time.Second}, func(_ context.Context, message fairqueue.Message) error {
				handled.Store(string(message.Body), true)
				return nil
			})
		})
	}
	producing, enough := context.WithCancel(ctx)
	defer enough()
	var produced sync.WaitGroup
	produced.Go(func() {
		k := dirty(producer)
		for i := 0; producing.Err() == nil; i++ {
			if _, err := k.AddNow(producing, fmt.Sprint(i)); err == nil {
				marked.Store(fmt.Sprint(i), true)
			}
		}
	})
	produced.Go(func() {
		q := mail(producer)
		for i := 0; producing.Err() == nil; i++ {
			if _, err := q.Write(producing, fairqueue.Draft{Tenant: fmt.Sprint(i % 5), Body: fmt.Append(nil, i)}); err == nil {
				written.Store(fmt.Sprint(i), true)
			}
		}
	})
	for i := range 3 {
		redistest.Eventually(t, "there are some", func() bool { return size(&marked) > 50*i && size(&written) > 50*i })
		_, err := m.Move(ctx, 1-i%2, tags...)
		must(t, err)
	}
	enough()
	produced.Wait()
	for _, pair := range [][2]*sync.Map{{&marked, &seen}, {&written, &handled}} {
		redistest.Eventually(t, "all are handled", func() bool { return missing(pair[0], pair[1]) == 0 })
	}
	stop()
	working.Wait()
	for _, tag := range tags {
		tf.wantHome(producer, tag, 1)
	}
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func missing(want, got *sync.Map) (n int) {
	want.Range(func(key, _ any) bool {
		if _, ok := got.Load(key); !ok {
			n++
		}
		return true
	})
	return n
}
