package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

// Arguments that make the test binary a process that ends only by a signal, and a parent
// that starts one, prints its process id and waits.
const (
	hang   = "hang"
	parent = "parent"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case hang:
			select {}
		case parent:
			w, err := must.StartProcess(exec.Command(os.Args[0], hang), func([]byte) {}, func(p *must.Process) { fmt.Println(p.Err()) })
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			fmt.Println(w.PID())
			select {} // until it is killed
		}
	}
	redistest.Main(m)
}

func TestWorkersDieWithTheirParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a hanging process with its parent")
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], parent)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	child := strings.TrimSpace(line)
	if err != nil || !running(child) {
		t.Errorf("the parent said %q, %v, want the id of a process that runs", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // that it ends badly is the point
	redistest.Eventually(t, "the worker ends", func() bool { return !running(child) })
}

// running reports whether a process runs; a zombie does not.
func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// Everywhere else, and when the parent ends in good order, a worker ends with its standard
// input.
func TestAWorkerEndsWithItsInput(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	in, boss := io.Pipe()
	working := make(chan string)
	ended := make(chan error)
	go func() {
		ended <- work(context.Background(), in, io.Discard, func(ctx context.Context, w *Worker) error {
			working <- w.Name
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	fmt.Fprintf(boss, `{"redis":%q,"name":"a name"}`+"\n", server.URL())
	if got, want := <-working, "a name"; got != want {
		t.Errorf("name = %q, want %q", got, want)
	}
	boss.Close()
	if err := <-ended; err != nil {
		t.Errorf("a dismissed worker = %v, want nil", err)
	}
}

func TestAWorkerWithoutATask(t *testing.T) {
	t.Parallel()
	if err := work(t.Context(), strings.NewReader("{"), io.Discard, nil); !errors.Is(err, io.EOF) {
		t.Errorf("work = %v, want %v", err, io.EOF)
	}
}

func TestChildLeavesOtherProgramsAlone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"demo"}, {"demo-child"}, {"ick", "demo-child"}} {
		if code, handled := Child(t.Context(), args, nil); code != 0 || handled {
			t.Errorf("Child(%q) = %d, %v, want 0, false", args, code, handled)
		}
	}
}

func TestDismissKillsAWorkerThatStays(t *testing.T) {
	t.Parallel()
	p := &Play{command: []string{os.Args[0], hang}, cancel: func(err error) { t.Errorf("lost: %v", err) }}
	p.Start(2)
	started := p.workers
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	p.Dismiss(ctx)
	if took := time.Since(began); took < dismissTimeoutShort {
		t.Errorf("Dismiss took %s, less than the %s that workers may take", took, dismissTimeoutShort)
	}
	for _, w := range started {
		select {
		case <-w.Done:
		default:
			t.Errorf("worker %d was not waited for", w.PID())
		}
	}
}

func TestReportsAreHeardLineByLine(t *testing.T) {
	t.Parallel()
	var got []string
	script := `printf 'o'; printf 'ne\ntwo\n\nth'; printf 'ree\ncut o'`
	w, err := must.StartProcess(exec.Command("sh", "-c", script), func(line []byte) { got = append(got, string(line)) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-w.Done
	if diff := cmp.Diff([]string{"one\n", "two\n", "\n", "three\n"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestProxyDropsRepliesOfWhatTheServerHasDone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	proxy, err := NewProxy(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, DisableCache: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	incr := func() error {
		return client.Do(t.Context(), client.B().Incrby().Key("n").Increment(1).Build()).Error()
	}
	proxy.DropReplies(1)
	if err := incr(); err == nil {
		t.Error("the reply was not dropped")
	}
	direct := server.Client(t)
	redistest.Eventually(t, "the server has counted", func() bool {
		n, _ := direct.Do(t.Context(), direct.B().Get().Key("n").Build()).AsInt64()
		return n == 1
	})
	if got, want := proxy.Dropped(), int64(1); got != want {
		t.Errorf("dropped = %d, want %d", got, want)
	}
	redistest.Eventually(t, "the next call is answered", func() bool { return incr() == nil })

	speak := proxy.Silence()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call through a silent proxy = %v, want %v", err, context.DeadlineExceeded)
	}
	speak()
	redistest.Eventually(t, "a call is answered again", func() bool {
		return client.Do(t.Context(), client.B().Ping().Build()).Error() == nil
	})
}

// scenes are one that holds, one that fails, and one that needs a server.
func scenes() []Scene {
	return []Scene{
		{Name: "first", Shows: "all is well", Load: "some", Accident: "none", Play: func(_ context.Context, p *Play) {
			p.Figure("things", "", N("things", 1234567))
			p.Figure("greatest age of a thing", "when it was seen", Ms("age_ms", 42*time.Millisecond))
			p.Figure("call", "", Us("call_us", 1250*time.Microsecond))
			p.Figure("good", "of all", Share("good_percent", 1, 81))
			p.Table("left", "right")
			p.Figure("each", "", List("each", 1, 2000)...)
			p.Check("nothing_lost", true, "nothing was lost in %v: %v of %v", 1500*time.Millisecond, 3000, 3000)
		}},
		{Name: "other", Shows: "nothing", Load: "none", Accident: "none", NeedsServer: "kills a server"},
		{Name: "second", Shows: "all is not well, in a sentence that is longer than a line of eighty characters", Load: "some", Accident: "none",
			Play: func(_ context.Context, p *Play) {
				p.Check("nothing_lost", false, "nothing was lost: %v of %v", 1, 2)
				for range maxFailures + 2 {
					p.Fail("thing %v was lost", 7)
				}
			}},
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	var text, progress strings.Builder
	report, err := Run(t.Context(), Config{
		Scenes: scenes(), Results: &text, Progress: &progress, Find: func() (string, error) { return "", redisproc.ErrNotFound },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `
1/3 first: all is well

  load      some
  accident  none

  things                   1,234,567
  greatest age of a thing      42 ms  when it was seen
  call                       1.25 ms
  good                         1.23%  of all

        left  right
  each     1  2,000

  ok        nothing was lost in 1.5 s: 3,000 of 3,000

2/3 other: nothing

  load      none
  accident  none
  skipped   it kills a server, and no redis-server is installed

3/3 second: all is not well, in a sentence that is longer than a line of eighty
            characters

  load      some
  accident  none

  FAILED    nothing was lost: 1 of 2
` + strings.Repeat("          - thing 7 was lost\n", maxFailures) + `          - and 2 more

CHECKS FAILED in second: see the lines marked FAILED. Not played without a
redis-server: other. To play all scenes at full size, install one: apt install
redis-server, or brew install redis.
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if begin := strings.Join(strings.Fields(progress.String()), " "); !strings.Contains(begin, "No redis-server is installed.") ||
		!strings.Contains(begin, "Not played without a redis-server: other.") {
		t.Errorf("the beginning does not say what is missing: %s", progress.String())
	}

	report.Server, report.Scenes[2].Failures = "a server", nil
	got, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON := `{"ok":false,"server":"a server","scenes":[` +
		`{"name":"first","shows":"all is well","ok":true,"things":1234567,"age_ms":42,"call_us":1250,"good_percent":1.235,"each":[1,2000],` +
		`"checks":[{"name":"nothing_lost","ok":true,"sentence":"nothing was lost in 1.5 s: 3,000 of 3,000"}],"failures":[]},` +
		`{"name":"other","shows":"nothing","ok":true,"skipped":"it kills a server, and no redis-server is installed","checks":[],"failures":[]},` +
		`{"name":"second","shows":"all is not well, in a sentence that is longer than a line of eighty characters","ok":false,` +
		`"checks":[{"name":"nothing_lost","ok":false,"sentence":"nothing was lost: 1 of 2"}],"failures":[]}]}`
	if diff := cmp.Diff(wantJSON, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestDrainGivesUpWhatIsStuck(t *testing.T) {
	t.Parallel()
	p := &Play{Sabotage: "anything"}
	calls := 0
	if p.Drain(t.Context(), func(context.Context) int { calls++; return 3 }); calls < 2 {
		t.Errorf("Drain ends after %d calls, want several", calls)
	}
}

func TestRunWithoutAServer(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), Config{Redis: "unix://" + t.TempDir() + "/none.sock"}); !errors.Is(err, dial.ErrConnect) {
		t.Errorf("Run = %v, want %v", err, dial.ErrConnect)
	}
	want := errors.New("the disk is gone")
	if _, err := Run(t.Context(), Config{Find: func() (string, error) { return "", want }}); !errors.Is(err, want) {
		t.Errorf("Run = %v, want %v", err, want)
	}
}

func TestWithoutSecrets(t *testing.T) {
	t.Parallel()
	got := withoutSecrets("redis://me:secret@example.org:6379/2?password=secret")
	if want := "redis://example.org:6379/2"; got != want {
		t.Errorf("withoutSecrets = %q, want %q", got, want)
	}
}
