package ick

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// childEnv makes the test binary a consumer process: "URL kind name db done", the
// kind being ick or channel.
const childEnv = "MILLRACE_TEST_ICK_CONSUMER"

// beConsumer consumes until it is killed, and says on its standard output when
// it begins to process a batch.
func beConsumer(spec string) error {
	var url, kind, name, db, done string
	if _, err := fmt.Sscan(spec, &url, &kind, &name, &db, &done); err != nil {
		return err
	}
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	options.DisableCache = true
	client, err := rueidis.NewClient(options)
	if err != nil {
		return err
	}
	k, err := New(client, name, Config{})
	if err != nil {
		return err
	}
	consume := k.Consume
	if kind == "channel" {
		c, err := NewChannel(client, name, ChannelConfig{})
		if err != nil {
			return err
		}
		consume = c.Consume
	}
	work := process(client, db, done)
	go func() { // its parent's end is its own
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	return consume(context.Background(), ConsumeConfig{Batch: 50}, func(ctx context.Context, batch []Entry) error {
		fmt.Println("batch")
		return work(ctx, batch)
	})
}

// TestConsumersAreKilled kills consumer processes in the middle of batches while
// producers run: nothing is forgotten. MILLRACE_SOAK makes it 200 rounds.
func TestConsumersAreKilled(t *testing.T) {
	t.Parallel()
	rounds := 8
	if os.Getenv("MILLRACE_SOAK") != "" {
		rounds = 200
	}
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "x", Config{})
	l := newLoad(k)
	changes, stop := l.produce(t, 4, 500)
	spec := fmt.Sprint(server.URL(), " ick x ", l.db, " ", l.done)
	for round := range rounds {
		one, two := redistest.StartChild(t, childEnv+"="+spec), redistest.StartChild(t, childEnv+"="+spec)
		one.Lines(1 + rand.IntN(5))
		two.Lines(1)
		one.Kill()
		after(t, changes, 20)
		two.Kill()
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	stop()
	last := redistest.StartChild(t, childEnv+"="+spec)
	go last.Lines(1 << 30)
	drained(t, k)
	l.check(t)
	last.Kill()
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rounds, %d changes, counters %+v", rounds, changes.Load(), s.Counters)
}

// TestChannelConsumersAreKilled kills consumer processes and starts others at
// random while producers run and the channel's size changes: nothing is
// forgotten, and at rest each Ick has one owner. MILLRACE_SOAK makes it 200
// rounds.
func TestChannelConsumersAreKilled(t *testing.T) {
	t.Parallel()
	rounds := 12
	if os.Getenv("MILLRACE_SOAK") != "" {
		rounds = 200
	}
	server := redistest.Start(t, redistest.Options{})
	c := openChannel(t, server.Client(t), "x", ChannelConfig{})
	l := newChannelLoad(c)
	changes, stop := l.produce(t, 4, 500)
	spec := fmt.Sprint(server.URL(), " channel x ", l.db, " ", l.done)
	start := func() *redistest.Child {
		p := redistest.StartChild(t, childEnv+"="+spec)
		go p.Lines(1 << 30) // it must not block on a full pipe
		return p
	}
	alive := []*redistest.Child{start(), start()}
	size := 4
	for round := range rounds {
		if len(alive) < 4 && (len(alive) == 0 || rand.IntN(2) == 0) {
			alive = append(alive, start())
		} else {
			i := rand.IntN(len(alive))
			alive[i].Kill()
			alive = slices.Delete(alive, i, i+1)
		}
		if round%3 == 1 {
			size = 1 + rand.IntN(8)
			if err := c.Resize(t.Context(), size); err != nil {
				t.Fatal(err)
			}
		}
		after(t, changes, 100)
		if round%6 == 5 && len(alive) > 0 {
			redistest.Eventually(t, "each Ick has an owner under load", func() bool {
				s, err := c.served(t.Context())
				return err == nil && !slices.ContainsFunc(s.Icks, func(one Stats) bool { return one.Owner == "" })
			})
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	stop()
	for len(alive) < 2 {
		alive = append(alive, start())
	}
	settles(t, c, size, len(alive))
	l.check(t)
	s, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rounds, %d changes, %d Icks, counters %+v", rounds, changes.Load(), size, s.Counters)
}
