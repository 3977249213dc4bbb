package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// asWorker has the test binary consume the queue of nights, on the server that it names.
const asWorker = "MILLRACE_TEST_AS_WORKER"

// nightQueue is where it happens.
const nightQueue = "orders"

// work handles messages until the process is killed: those of bolt for two seconds, those of acme
// so long that its flood outlasts the pause between two looks of the pages, others for a moment.
func work(url string) error {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	q, err := fairqueue.New(client, nightQueue, fairqueue.Config{})
	if err != nil {
		return err
	}
	return q.Consume(context.Background(), fairqueue.ConsumeConfig{Concurrency: 3, Name: "worker"}, func(ctx context.Context, m fairqueue.Message) error {
		took := 5 * time.Millisecond
		switch m.Tenant {
		case "acme":
			took = 50 * time.Millisecond
		case "bolt":
			took = 2 * time.Second
		case "initech": // whose API answers 429
			return fairqueue.Throttle(10*time.Minute, errors.New("429 Too Many Requests"))
		}
		retry.Sleep(ctx, took)
		return nil
	})
}

// night is a Redis with a queue, its workers, and the pages of millrace serve.
type night struct {
	t     *testing.T
	shell shell
	redis *redistest.Server
	url   string
	queue *fairqueue.Queue
}

// workers starts two processes, and returns how to kill them.
func (n *night) workers() (kill func()) {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	var all []*exec.Cmd
	for range 2 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), asWorker+"="+n.redis.URL())
		if err := cmd.Start(); err != nil {
			n.t.Fatal(err)
		}
		all = append(all, cmd)
	}
	kill = func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
		all = nil
	}
	n.t.Cleanup(kill)
	return kill
}

func (n *night) write(tenant string, messages int) {
	n.t.Helper()
	drafts := slices.Repeat([]fairqueue.Draft{{Tenant: tenant, Body: []byte(strings.Repeat("x", 100))}}, messages)
	if _, err := n.queue.WriteBatch(n.t.Context(), drafts...); err != nil {
		n.t.Fatal(err)
	}
}

// page returns the overview as the browser gets it.
func (n *night) page() string {
	response, err := plainClient.Get(n.url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// notice returns the one with a cause that millrace queue stats prints, if there is one.
func (n *night) notice(cause string) (ops.Notice, bool) {
	n.t.Helper()
	var stats ops.QueueStats
	if out := n.shell.run("queue", "stats", nightQueue, "--json"); out.code == 0 {
		if err := json.Unmarshal([]byte(out.stdout), &stats); err != nil {
			n.t.Fatal(err)
		}
	}
	i := slices.IndexFunc(stats.Notices, func(n ops.Notice) bool { return n.Cause == cause })
	if i < 0 {
		return ops.Notice{}, false
	}
	return stats.Notices[i], true
}

// noticed waits until the overview and queue stats name a cause, and returns the command that
// they advise. The overview comes first: it costs less to ask again.
func (n *night) noticed(cause, says string) (command []string) {
	n.t.Helper()
	began := time.Now()
	redistest.Eventually(n.t, "the overview says "+says, func() bool { return strings.Contains(n.page(), says) })
	page := time.Since(began)
	redistest.Eventually(n.t, "queue stats says "+says, func() bool {
		got, ok := n.notice(cause)
		command = strings.Fields(got.Command)
		return ok && strings.Contains(got.Text, says)
	})
	n.t.Logf("%s: the page after %.1f s, queue stats after %.1f s", cause, page.Seconds(), time.Since(began).Seconds())
	return command
}

// over waits until nothing names the cause any more.
func (n *night) over(cause, says string) {
	n.t.Helper()
	redistest.Eventually(n.t, "the overview says no longer "+says, func() bool { return !strings.Contains(n.page(), says) })
	redistest.Eventually(n.t, "queue stats says no longer "+says, func() bool {
		_, ok := n.notice(cause)
		return !ok
	})
}

// TestNight: a queue without readers, a flood, a slow tenant, a throttled one, killed workers and a full Redis.
// Each is noticed, by name, on the page and by the command, and goes by the command that the
// notice names.
func TestNight(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	q, err := fairqueue.New(redis.Client(t), nightQueue, fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	n := &night{t, shell{t: t, url: redis.URL()}, redis, serving(t, map[string]string{"MILLRACE_REDIS_URL": redis.URL()}), q}
	do := func(command []string) {
		t.Helper()
		if out := n.shell.run(command...); out.code != 0 {
			t.Fatalf("millrace %v: %+v", command, out)
		}
	}

	n.write("quiet", 1)
	n.noticed("never_read", "was never read")
	kill := n.workers()
	n.over("never_read", "was never read")

	n.write("acme", 5000)
	n.write("quiet", 20)
	do(n.noticed("flood", "is flooded by tenant acme"))
	n.over("flood", "is flooded by tenant acme")

	n.write("bolt", 60)
	n.write("quiet", 20)
	do(n.noticed("slow", "has slow handlers for tenant bolt"))
	n.over("slow", "has slow handlers for tenant bolt")

	n.write("initech", 200)
	do(n.noticed("limited", "holds back tenant initech by a pause or a throttle"))
	do([]string{"queue", "tenant", "purge", nightQueue, "initech", "--yes"})
	n.over("limited", "holds back tenant initech")

	kill()
	n.write("quiet", 1)
	n.noticed("readers_gone", "has lost its readers without a word: worker at ")
	n.workers()
	n.over("readers_gone", "has lost its readers")

	client := redis.Client(t)
	maxMemory := func(bytes int64) {
		t.Helper()
		if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", fmt.Sprint(bytes)).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	maxMemory(1 << 20)
	began := time.Now()
	redistest.Eventually(t, "the overview says that the server is full", func() bool { return strings.Contains(n.page(), "of 1 MB. When memory is full") })
	t.Logf("a full server: the page after %.1f s", time.Since(began).Seconds())
	if out := n.shell.run("queue", "write", nightQueue, "--tenant", "quiet", "--body", "x"); out.code == 0 || !strings.Contains(out.stderr, "memory") {
		t.Errorf("a write to a full server: %+v", out)
	}
	maxMemory(0)
	redistest.Eventually(t, "the overview no longer says so", func() bool { return !strings.Contains(n.page(), "of 1 MB. When memory is full") })
}
