package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
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
// so long that its flood outlasts the pause between two looks of the pages, others for a moment. At SIGTERM it drains.
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 3, Name: "worker"}, func(ctx context.Context, m fairqueue.Message) error {
		took := 5 * time.Millisecond
		switch m.Tenant {
		case "acme":
			took = 50 * time.Millisecond
		case "bolt":
			took = 2 * time.Second
		case "umbrella":
			return errors.New("the database of umbrella is down")
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
	disk  string // its folder
	url   string // of the pages
	queue *fairqueue.Queue
}

// worker starts a process with three handlers, and returns how to end it: by SIGKILL, or by SIGTERM as a deploy does.
func (n *night) worker() (end func(os.Signal)) {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asWorker+"="+n.redis.URL())
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	var once sync.Once
	end = func(by os.Signal) {
		once.Do(func() {
			_ = cmd.Process.Signal(by)
			_ = cmd.Wait() // it was ended
		})
	}
	n.t.Cleanup(func() { end(os.Kill) })
	return end
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

// saying are what the overview says of each cause, and of the server.
var saying = map[string]string{
	"never_read": "was never read", "readers_gone": "has lost its readers", "reader_lost": "were not replaced", "no_reader": "has no reader",
	"no_writes": "takes no writes", "flood": "is flooded by", "slow": "has slow handlers", "tenant_full": "refuses messages of",
	"failing": "has failing handlers", "tenant_paused": "has tenant", "limited": "holds back tenant", "old": "has a message that waits", "dead_dropped": "has dropped",
	"schedule_late": "overdue schedule", "the server is full": "When memory is full", "the disk is full": "to disk:",
}

// notices returns those that millrace queue stats prints, by cause.
func (n *night) notices() map[string]ops.Notice {
	n.t.Helper()
	var stats ops.QueueStats
	all := map[string]ops.Notice{}
	if out := n.shell.run("queue", "stats", nightQueue, "--json"); out.code == 0 {
		if err := json.Unmarshal([]byte(out.stdout), &stats); err != nil {
			n.t.Fatal(err)
		}
	}
	for _, notice := range stats.Notices {
		all[notice.Cause] = notice
	}
	return all
}

// eventually is for what takes longer than redistest.Eventually waits.
func (n *night) eventually(what string, cond func() bool) {
	n.t.Helper()
	for began := time.Now(); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 90*time.Second {
			n.t.Fatalf("after 90 s, still not: %s; the notices are %v", what, n.notices())
		}
	}
}

// untrue fails if the overview or queue stats name another cause than those.
func (n *night) untrue(when string, page string, causes []string) {
	n.t.Helper()
	for cause, says := range saying {
		if strings.Contains(page, says) && !slices.Contains(causes, cause) {
			n.t.Errorf("%s the overview says %q, which is not so", when, says)
		}
	}
}

// noticed waits until the overview and queue stats name a cause, and returns the command that
// they advise. The overview comes first: it costs less to ask again. Neither names another cause, but for some.
func (n *night) noticed(cause, says string, others ...string) (command []string) {
	n.t.Helper()
	began := time.Now()
	others = append(others, cause)
	n.eventually("the overview says "+says, func() bool {
		page := n.page()
		n.untrue("before "+cause, page, others)
		return strings.Contains(page, says)
	})
	page := time.Since(began)
	n.eventually("queue stats says "+says, func() bool {
		all := n.notices()
		for other, notice := range all {
			if !slices.Contains(others, other) {
				n.t.Errorf("beside %s queue stats says %q, which is not so", cause, notice.Text)
			}
		}
		command = strings.Fields(all[cause].Command)
		return strings.Contains(all[cause].Text, says)
	})
	n.t.Logf("%s: the page after %.1f s, queue stats after %.1f s: %s", cause, page.Seconds(), time.Since(began).Seconds(), n.notices()[cause].Text)
	return command
}

// over waits until nothing names the cause any more.
func (n *night) over(cause, says string) {
	n.t.Helper()
	n.eventually("the overview says no longer "+says, func() bool { return !strings.Contains(n.page(), says) })
	n.eventually("queue stats says no longer "+says, func() bool {
		_, ok := n.notices()[cause]
		return !ok
	})
}

// quiet fails if a notice comes within that time.
func (n *night) quiet(d time.Duration, causes ...string) {
	n.t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(500 * time.Millisecond) {
		n.untrue("in a quiet moment", n.page(), causes)
	}
}

// config sets a configuration of the server.
func (n *night) config(name, value string) {
	n.t.Helper()
	client := n.redis.Client(n.t)
	if err := client.Do(n.t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue(name, value).Build()).Error(); err != nil {
		n.t.Fatal(err)
	}
}

// handled reports whether so many messages were handled.
func (n *night) handled(messages int64) bool {
	s, err := n.queue.Stats(n.t.Context())
	return err == nil && s.Counters.Acked == messages
}

// TestNight: each trouble is noticed, by name, on the page and by the command, and goes by the command that the notice names.
// Nothing else is noticed.
func TestNight(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(*night){
		"tenants": nightOfTenants, "readers": nightOfReaders, "a full server": nightOfAFullServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			happens(newNight(t))
		})
	}
}

func newNight(t *testing.T) *night {
	t.Helper()
	n := &night{t: t, disk: t.TempDir()}
	n.redis = redistest.Start(t, redistest.Options{Dir: n.disk})
	n.shell = shell{t: t, url: n.redis.URL()}
	var err error
	if n.queue, err = fairqueue.New(n.redis.Client(t), nightQueue, fairqueue.Config{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// serve serves the pages. Its upkeep keeps schedules.
func (n *night) serve() { n.url = serving(n.t, map[string]string{"MILLRACE_REDIS_URL": n.redis.URL()}) }

// do runs a command.
func (n *night) do(command ...string) {
	n.t.Helper()
	if out := n.shell.run(command...); out.code != 0 {
		n.t.Fatalf("millrace %v: %+v", command, out)
	}
}

// nightOfTenants: a queue without readers, a flood, a slow tenant, one whose API answers 429, and one that fails everything.
func nightOfTenants(n *night) {
	late := nightOfASchedule(newNight(n.t)) // elsewhere, meanwhile
	n.serve()
	n.write("quiet", 1)
	n.noticed("never_read", "was never read")
	n.worker()
	n.worker()
	n.over("never_read", "was never read")

	n.write("acme", 5000)
	n.write("quiet", 20)
	n.do(n.noticed("flood", "is flooded by tenant acme", "slow")...) // its handlers take 50 ms, and have their share
	n.over("flood", "is flooded by tenant acme")
	n.do("queue", "tenant", "purge", nightQueue, "acme", "--yes")
	n.over("tenant_paused", "has tenant acme paused")

	n.write("bolt", 60)
	n.write("quiet", 20)
	n.do(n.noticed("slow", "has slow handlers for tenant bolt")...)
	n.over("slow", "has slow handlers for tenant bolt")
	n.do("queue", "tenant", "purge", nightQueue, "bolt", "--yes")
	n.over("tenant_paused", "has tenant bolt paused")

	n.write("initech", 200)
	n.noticed("limited", "holds back tenant initech by a pause or a throttle")
	n.do("queue", "tenant", "purge", nightQueue, "initech", "--yes")
	n.over("limited", "holds back tenant initech")

	n.write("umbrella", 20)
	n.write("quiet", 20)
	n.do(n.noticed("failing", "has failing handlers for tenant umbrella: ")...)
	if text := n.notices()["failing"].Text; !strings.HasSuffix(text, " ago: the database of umbrella is down") {
		n.t.Errorf("a tenant that fails everything: %q", text)
	}
	late()

}

// nightOfReaders: all are killed; then half of them leave for a deploy, while one of the others is killed.
func nightOfReaders(n *night) {
	n.serve()
	ends := []func(os.Signal){n.worker(), n.worker()}
	n.write("quiet", 1)
	n.eventually("the message is handled", func() bool { return n.handled(1) })
	for _, end := range ends {
		end(os.Kill)
	}
	n.write("quiet", 1)
	n.noticed("readers_gone", "has lost its readers without a word: worker at ")
	ends = []func(os.Signal){n.worker(), n.worker(), n.worker(), n.worker()}
	n.over("readers_gone", "has lost its readers")
	n.quiet(2 * time.Second)

	ends[0](syscall.SIGTERM)
	ends[1](syscall.SIGTERM)
	ends[2](os.Kill)
	n.noticed("reader_lost", "without a word")
	if text := n.notices()["reader_lost"].Text; !strings.Contains(text, "has lost worker at ") || !strings.HasSuffix(text, "and 3 handlers of 6 were not replaced") {
		n.t.Errorf("one of four is killed while two of them leave: %q", text)
	}
	n.worker()
	n.over("reader_lost", "were not replaced")

}

// nightOfAFullServer: its memory is full, and then its disk, so that it refuses all writes.
func nightOfAFullServer(n *night) {
	n.serve()
	n.worker()
	n.write("quiet", 1)
	n.eventually("the message is handled", func() bool { return n.handled(1) })
	n.config("maxmemory", fmt.Sprint(1<<20))
	began := time.Now()
	n.eventually("the overview says that the server is full", func() bool { return strings.Contains(n.page(), "of 1 MB. When memory is full") })
	n.t.Logf("a full server: the page after %.1f s", time.Since(began).Seconds())
	if out := n.shell.run("queue", "write", nightQueue, "--tenant", "quiet", "--body", "x"); out.code == 0 || !strings.Contains(out.stderr, "memory") {
		n.t.Errorf("a write to a full server: %+v", out)
	}
	n.config("maxmemory", "0")
	n.eventually("the overview no longer says so", func() bool { return !strings.Contains(n.page(), "of 1 MB. When memory is full") })

	snapshot := filepath.Join(n.disk, "dump.rdb") // no file replaces a folder that has something in it, not even root's
	if err := os.MkdirAll(filepath.Join(snapshot, "full"), 0o700); err != nil {
		n.t.Fatal(err)
	}
	n.config("save", "1 1")
	began = time.Now()
	n.eventually("the overview says that the disk is full", func() bool {
		page := n.page()
		n.untrue("on a full disk", page, []string{"the disk is full", "no_writes"})
		return strings.Contains(page, "cannot save its data to disk")
	})
	n.t.Logf("a full disk: the page after %.1f s", time.Since(began).Seconds())
	n.noticed("no_writes", "takes no writes, so nothing moves, and its readers cannot report: MISCONF", "the disk is full")
	n.quiet(10*time.Second, "the disk is full", "no_writes") // readers are silent for longer than the queue keeps them
	if out := n.shell.run("queue", "write", nightQueue, "--tenant", "quiet", "--body", "x", "--json"); out.code == 0 || !strings.Contains(out.stderr, "MISCONF") {
		n.t.Errorf("a write to a full disk: %+v", out)
	}
	if err := os.RemoveAll(snapshot); err != nil {
		n.t.Fatal(err)
	}
	n.over("no_writes", "takes no writes")
	n.eventually("the overview no longer says that the disk is full", func() bool { return !strings.Contains(n.page(), "to disk:") })
	n.config("save", "")
	n.write("quiet", 1)
	n.quiet(12 * time.Second) // until all readers have reported again
	if all := n.notices(); len(all) > 0 || !n.handled(2) {
		n.t.Errorf("afterwards there are %v, and a message that was not handled", all)
	}
}

// nightOfASchedule has neither readers nor upkeep that keep it, and returns a function that waits for its notice.
func nightOfASchedule(n *night) func() {
	n.do("schedule", "set", nightQueue, "beat", "--every", "1s", "--tenant", "quiet", "--body", "x")
	began := time.Now()
	return func() {
		n.eventually("queue stats says that the schedule is late", func() bool { return len(n.notices()) > 0 })
		all := n.notices()
		late := all["schedule_late"]
		if len(all) != 1 || late.Severity != "critical" || late.Text != "has 1 overdue schedule: a tick is due for more than a minute" ||
			!strings.Contains(late.Advice, "Nobody keeps it: start a reader") {
			n.t.Errorf("a schedule that nobody keeps: %+v", all)
		}
		n.t.Logf("schedule_late: queue stats after %.1f s at most, of which a minute is allowed", time.Since(began).Seconds())
		n.worker()
		n.eventually("queue stats says nothing", func() bool { return len(n.notices()) == 0 })
	}
}
