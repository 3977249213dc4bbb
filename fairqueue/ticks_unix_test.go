//go:build unix

package fairqueue

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// keeperEnv makes the test binary a process that reads a queue: "URL name".
const keeperEnv = "MILLRACE_TEST_FAIRQUEUE_KEEPER"

// beKeeper reads a queue until it is killed, and says so when it has begun.
func beKeeper(spec string) error {
	url, name, _ := strings.Cut(spec, " ")
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	options.DisableCache = true
	client, err := rueidis.NewClient(options)
	if err != nil {
		return err
	}
	q, err := New(client, name, Config{MaxAttempts: 1000})
	if err != nil {
		return err
	}
	go func() { // its parent's end is its own
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	fmt.Println("reading")
	return q.Consume(context.Background(), ConsumeConfig{Visibility: time.Second}, noteTick(client))
}

// noteTick notes which message a tick has.
func noteTick(client rueidis.Client) Handler {
	return func(ctx context.Context, m Message) error {
		field := m.Headers[HeaderTick] + " " + m.ID
		return client.Do(ctx, client.B().Hset().Key("seen").FieldValue().FieldValue(field, "").Build()).Error()
	}
}

// TestTwoHundredKeepers: of 200 readers, each with its own connections, some end at random and
// others begin. Real processes among them are killed, and stopped for longer than a tick. Each
// tick has exactly one message. It takes 4 s; MILLRACE_SOAK makes it a minute.
func TestTwoHundredKeepers(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	ticks := int64(4)
	if os.Getenv("MILLRACE_SOAK") != "" {
		ticks = 60
	}
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{MaxAttempts: 1000})
	s := hourly(t, "x")
	s.Spec = every(t, time.Second)
	setSchedule(t, q, s)
	first := scheduleOf(t, q, "x").Next

	ctx, stop := context.WithCancel(t.Context())
	var keepers sync.WaitGroup
	for range 190 {
		client := server.Client(t)
		keepers.Go(func() {
			keeper, err := New(client, "x", Config{MaxAttempts: 1000})
			if err != nil {
				t.Error(err)
				return
			}
			for ctx.Err() == nil { // it comes and goes
				turn, end := context.WithTimeout(ctx, time.Duration(rand.IntN(1500))*time.Millisecond)
				_ = keeper.Consume(turn, ConsumeConfig{Concurrency: 1, Visibility: time.Second}, noteTick(client))
				end()
			}
		})
	}
	spec := keeperEnv + "=" + server.URL() + " x"
	for range 2 {
		keepers.Go(func() {
			for ctx.Err() == nil {
				child := redistest.StartChild(t, spec)
				child.Lines(1)
				before := scheduleOf(t, q, "x").Ticks
				if rand.IntN(2) == 0 { // it stops wherever it is, and goes on after the next tick
					_ = syscall.Kill(child.PID(), syscall.SIGSTOP)
					redistest.Eventually(t, "a tick", func() bool { return ctx.Err() != nil || scheduleOf(t, q, "x").Ticks > before })
					_ = syscall.Kill(child.PID(), syscall.SIGCONT)
				}
				child.Kill()
			}
		})
	}
	redistest.Eventually(t, "ticks", func() bool { return scheduleOf(t, q, "x").Ticks >= ticks })
	want(t, "pause", nil, nil, q.Schedules().Pause(t.Context(), "x"))
	stop()
	keepers.Wait()
	state := scheduleOf(t, q, "x")
	if n := int64(state.Next.Sub(first) / time.Second); state.Ticks != n || state.MissedTicks != 0 {
		t.Errorf("%d ticks have %d messages, and %d are missed", n, state.Ticks, state.MissedTicks)
	}
	want(t, "messages", stats(t, q).Counters.Written, state.Ticks, nil)

	// Messages without a handler so far are handled now.
	handled, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = q.Consume(handled, ConsumeConfig{Visibility: time.Second}, noteTick(q.client))
	}()
	drained(t, q)
	fields, err := do(t, q.client, "HKEYS", "seen").AsStrSlice()
	want(t, "ticks and their messages", int64(len(fields)), state.Ticks, err)
	seen := map[string]bool{}
	for _, field := range fields {
		tick, _, _ := strings.Cut(field, " ")
		seen[tick] = true
	}
	want(t, "ticks", int64(len(seen)), state.Ticks, nil)
}
