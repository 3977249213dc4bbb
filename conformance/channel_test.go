package conformance

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
)

var channelBehaviours = []behaviour{
	{"marks fold in the icks that the hash picks", channelAdd},
	{"consumers share the icks and hand them over", channelShares},
	{"a worker makes rounds beside a consumer", channelRounds},
	{"a resize strands no mark", channelResize},
	{"jobs go round all masters", channelJobs},
	{"delete leaves no key behind", channelDelete},
	{"a storm forgets no mark", channelStorm},
}

// channelSize makes it likely that each server has some of a channel's Icks.
const channelSize = 12

func openChannel(t *testing.T, client rueidis.Client, name string) *ick.Channel {
	t.Helper()
	c, err := ick.NewChannel(client, name, ick.ChannelConfig{Size: channelSize})
	must(t, "ick.NewChannel", err)
	return c
}

func newChannel(t *testing.T, on running) *ick.Channel {
	t.Helper()
	return openChannel(t, on.client(t), redistest.Name(t))
}

// members returns n of them.
func members(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("member", i)
	}
	return list
}

// atRest waits until so many consumers serve so many Icks, each one of them by
// one, and nothing waits.
func atRest(t *testing.T, c *ick.Channel, icks, consumers int) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprintf("%d consumers serve %d Icks", consumers, icks), func() bool {
		s, err := c.Stats(t.Context())
		if err != nil || len(s.Icks) != icks || s.Consumers != consumers || s.Total > 0 {
			return false
		}
		has := map[string]int{}
		for _, one := range s.Icks {
			has[one.Owner]++
		}
		for owner, n := range has {
			if owner == "" || n < icks/consumers || n > (icks+consumers-1)/consumers {
				return false
			}
		}
		return true
	})
}

// collector is a handler that remembers the members it was given.
type collector struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (c *collector) handle(_ context.Context, batch []ick.Entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	for _, e := range batch {
		c.seen[e.Member] = true
	}
	return nil
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

func channelAdd(t *testing.T, on running) {
	c := newChannel(t, on)
	list := members(500)
	added, err := c.AddNow(t.Context(), list...)
	want(t, "AddNow", added, ick.Added{New: len(list)}, err)
	added, err = openChannel(t, on.client(t), c.Name()).AddNow(t.Context(), list...)
	want(t, "AddNow again", added, ick.Added{}, err)
	var picked, marked [channelSize]int
	for _, m := range list {
		picked[crc32.ChecksumIEEE([]byte(m))%channelSize]++
	}
	s, err := c.Stats(t.Context())
	must(t, "Stats", err)
	for index, one := range s.Icks {
		marked[index] = one.Waiting.Size
	}
	want(t, "marks of each Ick", marked, picked, nil)
}

func channelShares(t *testing.T, on running) {
	c := newChannel(t, on)
	var all collector
	consume(t, openChannel(t, on.client(t), c.Name()), ick.ConsumeConfig{}, all.handle)
	atRest(t, c, channelSize, 1)
	second, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		left <- openChannel(t, on.client(t), c.Name()).Consume(second, ick.ConsumeConfig{}, all.handle)
	}()
	atRest(t, c, channelSize, 2)
	_, err := c.AddNow(t.Context(), members(100)...)
	must(t, "AddNow", err)
	atRest(t, c, channelSize, 2)
	want(t, "members handed out", all.count(), 100, nil)
	leave()
	<-left
	atRest(t, c, channelSize, 1)
}

// channelRounds is what a worker behind HTTP does.
func channelRounds(t *testing.T, on running) {
	c := newChannel(t, on)
	var all collector
	consume(t, openChannel(t, on.client(t), c.Name()), ick.ConsumeConfig{}, all.handle)
	_, err := c.AddNow(t.Context(), members(100)...)
	must(t, "AddNow", err)
	worker := openChannel(t, on.client(t), c.Name())
	round := ick.Round{Worker: "worker", Max: 10, Block: 200 * time.Millisecond, Lease: time.Minute}
	own := 0
	redistest.Eventually(t, "the worker has its share of the Icks", func() bool {
		batches, _, err := worker.Exchange(t.Context(), round)
		must(t, "Exchange", err)
		round.Done = map[string][]string{}
		for _, b := range batches {
			own += len(b.Entries)
			round.Done[b.Token] = b.Members()
			must(t, "handle", all.handle(t.Context(), b.Entries))
		}
		if _, err := c.AddNow(t.Context(), members(200)...); err != nil {
			must(t, "AddNow", err)
		}
		return own > 0 && all.count() == 200
	})
	round.Leave = true
	_, _, err = worker.Exchange(t.Context(), round)
	must(t, "Exchange", err)
	atRest(t, c, channelSize, 1)
}

func channelResize(t *testing.T, on running) {
	c := newChannel(t, on)
	stale := openChannel(t, on.client(t), c.Name())
	list := members(300)
	for i, size := range []int{channelSize, 3, 7} {
		must(t, "Resize", c.Resize(t.Context(), size))
		_, err := stale.AddNow(t.Context(), list[100*i:100*i+100]...) // as it last knew the size
		must(t, "AddNow", err)
	}
	var all collector
	consume(t, openChannel(t, on.client(t), c.Name()), ick.ConsumeConfig{}, all.handle)
	atRest(t, c, 7, 1)
	want(t, "members handed out", all.count(), len(list), nil)
	retired := 0
	for index := range channelSize {
		k := openIck(t, on.client(t), fmt.Sprintf("%s/%d", c.Name(), index))
		if _, err := k.Reserve(t.Context(), 1); err != nil {
			want(t, "code of Reserve", millrace.Code(err), "retired", nil)
			retired++
		}
	}
	want(t, "retired Icks", retired, channelSize-7, nil)
}

// channelJobs has the jobs of ick find due work on every server.
func channelJobs(t *testing.T, on running) {
	client := on.client(t)
	names := spread(t, on, 1)
	for _, name := range names {
		k := openIck(t, client, name)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := k.AddNow(ctx, "a")
		must(t, "AddNow", err)
		_ = k.Consume(ctx, ick.ConsumeConfig{RetryDelay: 1}, func(_ context.Context, batch []ick.Entry) error {
			cancel()
			return ick.Failed(nil, batch[0].Member)
		})
	}
	jobs := ick.Jobs(client)
	redistest.Eventually(t, "parked members wait again on every server", func() bool {
		_, err := jobs[0].Slice(t.Context())
		must(t, "slice", err)
		for _, name := range names {
			if s, err := openIck(t, client, name).Stats(t.Context()); err != nil || s.Waiting.Size != 1 {
				return false
			}
		}
		return true
	})
	for range 10 {
		progress, err := jobs[1].Slice(t.Context())
		must(t, "slice", err)
		want(t, "progress", progress, millrace.Idle, nil)
	}
}

func channelDelete(t *testing.T, on running) {
	client := on.client(t)
	c := openChannel(t, client, redistest.Name(t))
	_, err := c.AddNow(t.Context(), members(100)...)
	must(t, "AddNow", err)
	lost, err := c.Delete(t.Context())
	want(t, "Delete", lost, 100, err)
	if left := keysOf(t, client, c.Name()); len(left) > 0 {
		t.Errorf("Delete left %q", left)
	}
}

// channelStorm takes the home of a channel's table away while producers mark,
// consumers are in the middle of batches and the channel has just become smaller.
func channelStorm(t *testing.T, on running) {
	name := redistest.Name(t)
	c := openChannel(t, on.client(t), name)
	t.Cleanup(on.mend) // should the test end before it does so itself
	recovered := make(chan struct{})
	producing, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	t.Cleanup(working.Wait)
	t.Cleanup(stop)
	s := newStream(t, openChannel(t, on.client(t), name))
	for range 2 {
		consume(t, openChannel(t, on.client(t), name), ick.ConsumeConfig{Batch: 20}, s.consume)
	}
	working.Go(func() { s.produce(producing, recovered) })

	s.flows("before the disturbance")
	release := make(chan struct{})
	s.holdBatch(release)
	table := "mr:channel:{" + name + "}"
	on.secure(table)
	s.seal()
	must(t, "Resize", c.Resize(t.Context(), channelSize/2)) // which may be lost
	for index := range channelSize {
		on.secure(fmt.Sprint(name, "/", index))
	}
	on.disturb(table)
	close(release)
	close(recovered)
	s.flows("after the disturbance")
	on.mend()
	s.flows("after all servers are back")
	must(t, "Resize", c.Resize(t.Context(), 5))
	s.flows("after it was resized again")
	stop()
	working.Wait()
	atRest(t, c, 5, 2)
	s.check()
}
