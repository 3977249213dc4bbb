package ick

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redistest"
)

// childEnv makes the test binary a consumer process: "URL name db done".
const childEnv = "MILLRACE_TEST_ICK_CONSUMER"

// beConsumer consumes until it is killed, and says on its standard output when
// it begins to process a batch.
func beConsumer(spec string) error {
	var url, name, db, done string
	if _, err := fmt.Sscan(spec, &url, &name, &db, &done); err != nil {
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
	work := process(client, db, done)
	go func() { // its parent's end is its own
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	return k.Consume(context.Background(), ConsumeConfig{Batch: 50}, func(ctx context.Context, batch []Entry) error {
		fmt.Println("batch")
		return work(ctx, batch)
	})
}

// TestConsumersAreKilled kills consumer processes in the middle of batches while
// producers run: nothing is forgotten. MILLRACE_SOAK makes it 200 rounds.
func TestConsumersAreKilled(t *testing.T) {
	t.Parallel()
	rounds := 20
	if os.Getenv("MILLRACE_SOAK") != "" {
		rounds = 200
	}
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "x", Config{})
	l := newLoad(k)
	producing, stop := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	var changes atomic.Int64
	for range 4 {
		producers.Go(func() {
			for producing.Err() == nil {
				if err := l.change(t.Context(), "doc"+strconv.Itoa(rand.IntN(500))); err != nil {
					t.Errorf("change: %v", err)
					return
				}
				changes.Add(1)
			}
		})
	}
	spec := fmt.Sprint(server.URL(), " x ", l.db, " ", l.done)
	for round := range rounds {
		one, two := startConsumer(t, spec), startConsumer(t, spec)
		one.batches(1 + rand.IntN(5))
		two.batches(1)
		one.kill()
		after(t, &changes, 20)
		two.kill()
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	stop()
	producers.Wait()
	last := startConsumer(t, spec)
	go last.batches(1 << 30)
	l.check(t)
	last.kill()
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rounds, %d changes, counters %+v", rounds, changes.Load(), s.Counters)
}

type consumerProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *bufio.Scanner
	once   sync.Once
}

func startConsumer(t *testing.T, spec string) *consumerProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &consumerProcess{t: t, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+spec)
	p.cmd.Stderr = os.Stderr
	if _, err := p.cmd.StdinPipe(); err != nil { // it ends when the pipe does
		t.Fatal(err)
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.output = bufio.NewScanner(output)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// batches waits until the process has begun n batches.
func (p *consumerProcess) batches(n int) {
	for range n {
		if !p.output.Scan() {
			return
		}
	}
}

// kill ends the process with SIGKILL.
func (p *consumerProcess) kill() {
	p.once.Do(func() {
		if err := p.cmd.Process.Kill(); err != nil {
			p.t.Errorf("kill: %v", err)
		}
		_ = p.cmd.Wait()
	})
}
