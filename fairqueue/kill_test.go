package fairqueue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// workerEnv makes the test binary a worker process: "URL name starts", the last
// being the key of a list to which it adds each message that it begins to handle.
const workerEnv = "MILLRACE_TEST_FAIRQUEUE_WORKER"

const (
	// inHand is how many messages a worker handles at once.
	inHand = 4

	// killedVisibility is after how long those of a killed one come again.
	killedVisibility = 1500 * time.Millisecond
)

// beWorker handles messages until it is killed, and says on its standard output
// when it begins with one.
func beWorker(spec string) error {
	var url, name, starts string
	if _, err := fmt.Sscan(spec, &url, &name, &starts); err != nil {
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
	q, err := New(client, name, Config{MaxAttempts: 1000})
	if err != nil {
		return err
	}
	go func() { // its parent's end is its own
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	cfg := ConsumeConfig{Concurrency: inHand, Visibility: killedVisibility}
	return q.Consume(context.Background(), cfg, func(ctx context.Context, m Message) error {
		fmt.Println("message")
		note := fmt.Sprint(string(m.Body), " ", m.Attempt, " ", os.Getpid())
		return client.Do(ctx, client.B().Rpush().Key(starts).Element(note).Build()).Error()
	})
}

// TestWorkersAreKilled kills worker processes with their hands full while others
// write: each message is handled, and only one that was in the hands of a killed
// worker is handled again. It takes 3 s; MILLRACE_SOAK makes it a minute.
func TestWorkersAreKilled(t *testing.T) {
	t.Parallel()
	lasts := 3 * time.Second
	if os.Getenv("MILLRACE_SOAK") != "" {
		lasts = time.Minute
	}
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	spec := fmt.Sprint(server.URL(), " x {x}starts")

	var written atomic.Int64
	writing, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := 0; writing.Err() == nil; i++ {
				if n, err := q.Len(t.Context()); err != nil || n > 200 {
					<-time.After(5 * time.Millisecond) // the workers are behind
					continue
				}
				drafts := make([]Draft, 20)
				for j := range drafts {
					drafts[j] = Draft{Tenant: fmt.Sprint("tenant", rand.IntN(30)), Body: fmt.Append(nil, w, "-", i, "-", j)}
				}
				if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				written.Add(int64(len(drafts)))
			}
		})
	}
	defer writers.Wait()
	defer stop()

	killed := map[int]bool{}
	for start := time.Now(); time.Since(start) < lasts; {
		one, two := redistest.StartChild(t, workerEnv+"="+spec), redistest.StartChild(t, workerEnv+"="+spec)
		one.Lines(1 + rand.IntN(100))
		two.Lines(1 + rand.IntN(10))
		for _, p := range []*redistest.Child{one, two} {
			p.Kill()
			killed[p.PID()] = true
		}
		want(t, "deliveries to handlers by tenant, counted and in flight", miscounted(t, q), "", nil)
		if t.Failed() {
			return
		}
	}
	stop()
	writers.Wait()
	last := redistest.StartChild(t, workerEnv+"="+spec)
	go last.Lines(1 << 30) // it must not block on a full pipe
	drained(t, q)
	checkStarts(t, q, int(written.Load()), killed)
	last.Kill()
	wantSizes(t, q, 0, 0, 0, 0)
}

// checkStarts reads the workers' notes.
func checkStarts(t *testing.T, q *Queue, written int, killed map[int]bool) {
	t.Helper()
	notes, err := do(t, q.run.Client, "LRANGE", "{x}starts", "0", "-1").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	type start struct{ attempt, pid int }
	last := map[string]start{}
	again := 0
	for _, note := range notes {
		words := strings.Fields(note)
		attempt, err1 := strconv.Atoi(words[1])
		pid, err2 := strconv.Atoi(words[2])
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		before, handled := last[words[0]]
		switch {
		case handled && !killed[before.pid]:
			t.Errorf("message %s was handled again after worker %d had it, which was not killed", words[0], before.pid)
		case handled && attempt <= before.attempt:
			t.Errorf("message %s was handled at attempt %d and then at %d", words[0], before.attempt, attempt)
		case handled:
			again++
		}
		last[words[0]] = start{attempt, pid}
	}
	if len(last) != written {
		t.Errorf("%d messages were handled of %d that were written", len(last), written)
	}
	c := stats(t, q).Counters
	if c.Buried != 0 || c.Acked != int64(written) {
		t.Errorf("counters = %+v, want %d acknowledged", c, written)
	}
	t.Logf("%d messages, %d workers killed, %d messages handled again, counters %+v", written, len(killed), again, c)
}
