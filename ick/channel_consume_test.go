package ick

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// crowd is consumers of one channel in this process.
type crowd struct {
	t       *testing.T
	c       *Channel
	handler Handler
	ends    []context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	seen map[string]bool
}

func newCrowd(t *testing.T, c *Channel) *crowd {
	t.Helper()
	crowd := &crowd{t: t, c: c, seen: map[string]bool{}}
	crowd.handler = func(_ context.Context, batch []Entry) error {
		crowd.mu.Lock()
		defer crowd.mu.Unlock()
		for _, e := range batch {
			crowd.seen[e.Member] = true
		}
		return nil
	}
	t.Cleanup(func() {
		for i := range crowd.ends {
			crowd.ends[i]()
		}
		crowd.running.Wait()
	})
	return crowd
}

// join adds a consumer with a Channel of its own, like another process.
func (w *crowd) join() {
	w.t.Helper()
	c := openChannel(w.t, w.c.run.Client, w.c.name, w.c.cfg)
	ctx, cancel := context.WithCancel(context.Background())
	w.ends = append(w.ends, cancel)
	w.running.Go(func() {
		if err := c.Consume(ctx, ConsumeConfig{}, w.handler); !errors.Is(err, context.Canceled) {
			w.t.Errorf("Consume = %v, want it to go on until it is told to end", err)
		}
	})
}

func (w *crowd) leave(i int) { w.ends[i]() }

func (w *crowd) processed() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for m := range w.seen {
		all = append(all, m)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// settles waits until the channel is at rest: these many Icks are served, each by
// one consumer, evenly, and nothing waits in them.
func (w *crowd) settles(icks int) {
	w.t.Helper()
	settles(w.t, w.c, icks, 0)
}

// settles waits until a channel is at rest. With consumers at 0 any number may
// be there.
func settles(t *testing.T, c *Channel, icks, consumers int) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	redistest.Eventually(t, "the channel is at rest", func() bool {
		s, err := c.Stats(context.Background())
		last = fmt.Sprintf("%d Icks, %d consumers, error %v", len(s.Icks), s.Consumers, err)
		if err != nil || len(s.Icks) != icks || s.Total > 0 || s.Consumers == 0 || consumers > 0 && s.Consumers != consumers {
			return false
		}
		has := map[string]int{}
		for _, one := range s.Icks {
			if one.Owner == "" {
				return false
			}
			has[one.Owner]++
		}
		last = fmt.Sprintf("%d Icks, %d consumers: %v", icks, s.Consumers, has)
		for _, n := range has {
			if n < icks/s.Consumers || n > (icks+s.Consumers-1)/s.Consumers {
				return false
			}
		}
		return len(has) == min(icks, s.Consumers)
	})
}

// TestConsumersComeAndGo: the Icks are shared out evenly, each with one owner.
func TestConsumersComeAndGo(t *testing.T) {
	t.Parallel()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{Size: 5})
	w := newCrowd(t, c)
	w.join()
	settles(t, c, 5, 1)
	w.join()
	settles(t, c, 5, 2)
	w.join()
	w.join()
	settles(t, c, 5, 4)
	if err := c.Resize(t.Context(), 3); err != nil { // fewer than there are consumers
		t.Fatal(err)
	}
	settles(t, c, 3, 4)
	w.leave(0)
	w.leave(2)
	settles(t, c, 3, 2)
	if err := c.Resize(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	settles(t, c, 9, 2)
}

// TestAConsumerComesBack under its name: it has its Icks at once, and the others
// keep theirs.
func TestAConsumerComesBack(t *testing.T) {
	t.Parallel()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{Size: 4, Consumer: "indexer-1"})
	attend := func() {
		t.Helper() // as one that dies right after
		args := append(append([]string{c.cfg.Consumer, "3600000"}, c.known().args()...), "0")
		if _, err := c.call(t.Context(), "attend", args...); err != nil {
			t.Fatal(err)
		}
	}
	attend()
	w := newCrowd(t, c)
	w.join() // the dead one's time is not over for an hour
	settles(t, c, 4, 1)
	s, err := c.served(t.Context())
	if err != nil || s.Icks[0].Owner != "indexer-1" {
		t.Errorf("served = %+v, %v, want all by indexer-1", s, err)
	}
}

// TestChannelHandler: one batch at a time for each Ick, several Icks at once, and
// a failing handler in one keeps none of the others.
func TestChannelHandler(t *testing.T) {
	t.Parallel()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{Size: 3, Shard: digit})
	w := newCrowd(t, c)
	inside, all := atomic.Int64{}, make(chan struct{})
	handler := w.handler
	var once sync.Once
	w.handler = func(ctx context.Context, batch []Entry) error {
		if inside.Add(1) == 3 {
			once.Do(func() { close(all) })
		}
		<-all // goes on when all three are in their handlers at once
		if batch[0].Member == "b1" {
			return errors.New("this one fails for ever")
		}
		return handler(ctx, batch)
	}
	w.join()
	if _, err := c.AddNow(t.Context(), "a0", "b1", "c2"); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the others are processed", func() bool { return w.processed() == "a0 c2" })
	if _, err := c.AddNow(t.Context(), "d0", "e2"); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "they go on", func() bool { return w.processed() == "a0 c2 d0 e2" })
}

// TestSurplusIsLetGoAfterTheBatch: a consumer with too many Icks finishes its batch first,
// and no member is handled twice.
func TestSurplusIsLetGoAfterTheBatch(t *testing.T) {
	t.Parallel()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{Size: 2, Shard: digit})
	w := newCrowd(t, c)
	entered, release := make(chan string, 10), make(chan struct{})
	w.handler = func(ctx context.Context, batch []Entry) error {
		entered <- batch[0].Member
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	w.join()
	settles(t, c, 2, 1)
	if _, err := c.AddNow(t.Context(), "a0", "b1"); err != nil {
		t.Fatal(err)
	}
	batches := []string{<-entered, <-entered}
	w.join()
	owners := func() (owners []string) {
		s, err := c.served(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, one := range s.Icks {
			owners = append(owners, one.Owner)
		}
		return owners
	}
	// Two more beats of both: the first owner was told and still has both.
	beats := map[string]int64{}
	count := 0
	redistest.Eventually(t, "both consumers attend a few times more", func() bool {
		zs, err := do(t, c.run.Client, "ZRANGE", channelKey(c.name)+":members", "0", "-1", "WITHSCORES").AsZScores()
		if err != nil {
			t.Error(err)
		}
		for _, z := range zs {
			if until := int64(z.Score); beats[z.Member] != until {
				beats[z.Member] = until
				count++
			}
		}
		return count >= 6
	})
	if got := owners(); got[0] != got[1] || got[0] == "" {
		t.Errorf("owners while the batches are in hand = %q, want one for both", got)
	}
	close(release)
	settles(t, c, 2, 2)
	close(entered)
	for more := range entered {
		batches = append(batches, more)
	}
	slices.Sort(batches)
	want(t, "batches handed out", batches, []string{"a0", "b1"}, nil)
}

// TestResizeUnderLoad raises and lowers the number of Icks while producers, each
// with its own idea of it, and consumers run.
func TestResizeUnderLoad(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	c := openChannel(t, client, redistest.Name(t), ChannelConfig{Size: 4})
	l := newChannelLoad(c)
	w := newCrowd(t, c)
	w.handler = process(client, l.db, l.done)
	w.join()
	w.join()
	changes, stop := l.produce(t, 4, 300)
	for _, size := range []int{7, 2, 6, 1, 3} {
		after(t, changes, 200)
		if err := c.Resize(t.Context(), size); err != nil {
			t.Fatal(err)
		}
	}
	after(t, changes, 200)
	stop()
	settles(t, c, 3, 2)
	l.check(t)
	for index := range 7 { // an Ick that is no longer served is empty, too
		k, err := c.ick(index)
		if err != nil {
			t.Fatal(err)
		}
		switch s, err := k.Stats(t.Context()); {
		case errors.Is(err, errRetired) || errors.Is(err, millrace.ErrNotFound):
		case err != nil || s.Total+s.Parked > 0:
			t.Errorf("Ick %d at the end = %+v, %v", index, s, err)
		}
	}
}

// TestParkedMembersAreCarriedOver: members that rest in an Ick that is no longer used are
// tried again where they belong now.
func TestParkedMembersAreCarriedOver(t *testing.T) {
	t.Parallel()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{Size: 4, Shard: digit})
	w := newCrowd(t, c)
	handler := w.handler
	var mended atomic.Bool
	w.handler = func(ctx context.Context, batch []Entry) error {
		if mended.Load() {
			return handler(ctx, batch)
		}
		return Failed(nil, Reservation{Entries: batch}.Members()...)
	}
	k, err := c.ick(3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Add(t.Context(), Entry{"a3", 5}, Entry{"b3", 6}); err != nil {
		t.Fatal(err)
	}
	r, err := k.Reserve(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := k.park(t.Context(), r.Token, ConsumeConfig{MaxAttempts: 1}, "why", r.Members()); n != 2 || err != nil {
		t.Fatalf("park = %d, %v", n, err)
	}
	if err := c.Resize(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	mended.Store(true)
	w.join()
	settles(t, c, 2, 1)
	redistest.Eventually(t, "they are processed", func() bool { return w.processed() == "a3 b3" })
}

// TestABrokenIckKeepsNoOthers: consumers retry a broken Ick until it is repaired.
func TestABrokenIckKeepsNoOthers(t *testing.T) {
	t.Parallel()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{Size: 2, Shard: digit})
	w := newCrowd(t, c)
	broken := key(c.name+"/1", keyCset)
	if err := do(t, c.run.Client, "SET", broken, "x").Error(); err != nil {
		t.Fatal(err)
	}
	w.join()
	if _, err := c.AddNow(t.Context(), "a0"); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the other Ick is served", func() bool { return w.processed() == "a0" })
	if err := do(t, c.run.Client, "DEL", broken).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNow(t.Context(), "b1"); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "it is served when it is mended", func() bool { return w.processed() == "a0 b1" })
}

// TestSilentConsumerStops: a consumer that cannot reach the server for so long
// that others may have taken over ends its handler's context, and goes on afterwards.
func TestSilentConsumerStops(t *testing.T) {
	t.Parallel()
	t.Run("connection lost", func(t *testing.T) {
		t.Parallel()
		proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
		silence(t, proxy.Client(t), func() {
			proxy.Refuse(true)
			proxy.Cut()
		}, proxy.Heal)
	})
	t.Run("server frozen", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{})
		silence(t, server.Client(t), server.Pause, server.Resume)
	})
}

func silence(t *testing.T, client rueidis.Client, begin, end func()) {
	t.Helper()
	c := openChannel(t, client, redistest.Name(t), ChannelConfig{Size: 1})
	w := newCrowd(t, c)
	causes, added := make(chan error, 1), make(chan struct{})
	first := true
	handler := w.handler
	w.handler = func(ctx context.Context, batch []Entry) error {
		if first {
			first = false
			<-added
			begin()
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		}
		return handler(ctx, batch)
	}
	w.join()
	if _, err := c.AddNow(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	close(added)
	select {
	case err := <-causes:
		wantError(t, err, errMoved)
	case <-time.After(20 * time.Second):
		t.Fatal("the handler was not told within 20 s")
	}
	end()
	redistest.Eventually(t, "the batch comes again", func() bool { return w.processed() == "a" })
}

// TestIdleChannelIsQuiet counts the commands of an idle consumer of many Icks.
func TestIdleChannelIsQuiet(t *testing.T) {
	t.Parallel()
	for _, icks := range []int{1, 6, 24} {
		t.Run(fmt.Sprint(icks, " Icks"), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			c := openChannel(t, server.Client(t), "x", ChannelConfig{Size: icks})
			w := newCrowd(t, c)
			w.join()
			settles(t, c, icks, 1)
			start, before := time.Now(), commands(t, server)
			redistest.Eventually(t, "some time goes by", func() bool { return time.Since(start) > 5*time.Second })
			perSecond := float64(commands(t, server)-before) / time.Since(start).Seconds()
			t.Logf("%.1f commands a second", perSecond)
			if perSecond > 20 {
				t.Errorf("an idle consumer of %d Icks sends %.1f commands a second, more than 20", icks, perSecond)
			}
		})
	}
}

// newChannelLoad is a load whose marks go into a channel.
func newChannelLoad(c *Channel) *load {
	return &load{
		client: c.run.Client, db: c.name + ":db", done: c.name + ":done", version: map[string]int{},
		mark: func(ctx context.Context, member string) error {
			_, err := c.AddNow(ctx, member)
			return err
		},
	}
}
