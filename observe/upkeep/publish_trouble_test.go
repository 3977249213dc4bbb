package upkeep

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/steal"
)

// worker returns a recruiter whose one job, "a", always works.
func worker(t *testing.T) *steal.Recruiter {
	t.Helper()
	return recruits(t, map[string]func(context.Context) (millrace.Progress, error){"a": works})
}

// TestLostReplies: counts are added and the reply lost, again and again. None is added
// twice.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy, client := redistest.NewProxy(t, server.Addr()), server.Client(t)
	r := worker(t)
	p := newPublisher(r, proxy.Client(t), slog.New(slog.DiscardHandler))
	if err := p.flush(t.Context(), minTTL); err != nil { // the server knows the script
		t.Fatal(err)
	}
	for range 5 {
		r.Enlist(t.Context())
		lost := proxy.DropReply(evalsha)
		if err := p.flush(t.Context(), minTTL); err != nil || lost.Count() != 1 {
			t.Fatalf("flush = %v, and %d replies were lost", err, lost.Count())
		}
		wantTotals(t, readTotals(t, client), r)
	}
}

func evalsha(cmd []string) bool { return cmd[0] == "EVALSHA" }

// TestOutcomeThatStaysUnknown: a flush was done, and its caller gives up before it
// learns of that. The next flush sends it again as it was, and the counts since then
// besides.
func TestOutcomeThatStaysUnknown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	r := worker(t)
	p := newPublisher(r, proxy.Client(t), slog.New(slog.DiscardHandler))
	if err := p.flush(t.Context(), minTTL); err != nil { // the server knows the script
		t.Fatal(err)
	}
	for range 3 {
		r.Enlist(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		proxy.DropReply(func(cmd []string) bool {
			if evalsha(cmd) {
				cancel()
			}
			return evalsha(cmd)
		})
		if err := p.flush(ctx, minTTL); !errors.Is(err, context.Canceled) {
			t.Fatalf("flush = %v, want context.Canceled", err)
		}
		proxy.Heal()
		r.Enlist(t.Context())
		if err := p.flush(t.Context(), minTTL); err != nil {
			t.Fatal(err)
		}
		wantTotals(t, readTotals(t, server.Client(t)), r)
	}
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	r := worker(t)
	p := newPublisher(r, client, slog.New(slog.DiscardHandler))
	for range 3 {
		r.Enlist(t.Context())
		do(t, client, "SCRIPT", "FLUSH")
		if err := p.flush(t.Context(), minTTL); err != nil {
			t.Fatal(err)
		}
		do(t, client, "SCRIPT", "FLUSH")
		wantTotals(t, readTotals(t, client), r)
	}
}

// TestRestart: totals outlive a restart of the server, and counts of the time in which it
// was away are added.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	client := server.Client(t)
	r := worker(t)
	publish(t, r, client, PublishConfig{Interval: often})
	for range 3 {
		r.Enlist(t.Context())
		redistest.Eventually(t, "all is published", func() bool {
			totals, err := ReadTotals(t.Context(), client)
			return err == nil && len(totals.Jobs) == 1 && totals.Jobs[0].Recruited() >= r.Stats().Jobs[0].Recruited()
		})
		wantTotals(t, readTotals(t, client), r)
		server.Kill()
		r.Enlist(t.Context())
		server.Restart()
	}
}

// TestFullServer: counts that find no room are kept, one warning is logged, and
// reading works.
func TestFullServer(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	var logged bytes.Buffer
	r := worker(t)
	p := newPublisher(r, client, slog.New(slog.NewTextHandler(&logged, nil)))
	flush := func() error {
		r.Enlist(t.Context())
		err := p.flush(t.Context(), minTTL)
		p.logChange(t.Context(), err)
		return err
	}
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	before := readTotals(t, client)
	do(t, client, "CONFIG", "SET", "maxmemory", "1")
	for range 3 {
		if err := flush(); !errors.Is(err, millrace.ErrFull) {
			t.Errorf("flush = %v, want ErrFull", err)
		}
		if diff := cmp.Diff(before, readTotals(t, client)); diff != "" {
			t.Errorf("totals after a flush that was refused (-before +after):\n%s", diff)
		}
	}
	do(t, client, "CONFIG", "SET", "maxmemory", "0")
	for range 2 {
		if err := flush(); err != nil {
			t.Fatal(err)
		}
		wantTotals(t, readTotals(t, client), r)
	}
	if got := strings.Count(logged.String(), "\n"); got != 2 || !strings.Contains(logged.String(), "published again") {
		t.Errorf("log = %s\nwant a warning and its end", logged.String())
	}
}

// TestForeignKeys: a key that is no totals of this version is refused and left alone.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		command []string
		want    error
	}{
		{[]string{"SET", baseKey, "text"}, millrace.ErrBroken},
		{[]string{"HSET", baseKey, "color", "red"}, millrace.ErrBroken},
		{[]string{"HSET", baseKey, "version", "1", "job:a", "many"}, millrace.ErrBroken},
		{[]string{"SET", baseKey + ":processes", "text"}, millrace.ErrBroken},
		{[]string{"HSET", baseKey, "version", "2"}, millrace.ErrVersion},
	} {
		t.Run(strings.Join(tt.command, " "), func(t *testing.T) {
			t.Parallel()
			client := redistest.Start(t, redistest.Options{}).Client(t)
			do(t, client, tt.command...)
			before := text(t, client, "DUMP", tt.command[1])
			r := worker(t)
			r.Enlist(t.Context())
			err := newPublisher(r, client, slog.New(slog.DiscardHandler)).flush(t.Context(), minTTL)
			if !errors.Is(err, tt.want) || millrace.Hint(err) == "" {
				t.Errorf("flush = %v, want %v with a hint", err, tt.want)
			}
			if _, err := ReadTotals(t.Context(), client); !errors.Is(err, tt.want) {
				t.Errorf("ReadTotals = %v, want %v", err, tt.want)
			}
			if text(t, client, "DUMP", tt.command[1]) != before || number(t, client, "DBSIZE") != 1 {
				t.Error("what is there was changed")
			}
		})
	}
}

// TestServerThatDoesNotAnswer blocks no caller: a flush ends with its context, and the
// last one takes two seconds at most.
func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	r := worker(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Publish(ctx, r, client, PublishConfig{Interval: often}) }()
	redistest.Eventually(t, "the process is there", func() bool { return readTotals(t, client).Processes == 1 })
	server.Pause()
	defer server.Resume()
	began := time.Now()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || time.Since(began) > 5*lastTimeout {
		t.Errorf("Publish = %v after %v, want context.Canceled after %v", err, time.Since(began), lastTimeout)
	}
}

// childEnv makes the test binary a process that recruits and publishes: the URL of its
// server.
const childEnv = "MILLRACE_TEST_UPKEEP_RECRUITER"

// doneKey counts recruits before they are made.
const doneKey = "done"

// beRecruiter recruits until it is killed.
func beRecruiter(url string) error {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	options.DisableCache = true
	client, err := rueidis.NewClient(options)
	if err != nil {
		return err
	}
	r := steal.New(steal.Config{})
	if err := r.Install(millrace.Job{Name: "a", Slice: works}, 1); err != nil {
		return err
	}
	go func() { // its parent's end is its own
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	ctx := context.Background()
	go func() { _ = Publish(ctx, r, client, PublishConfig{Interval: often}) }()
	for {
		if err := client.Do(ctx, client.B().Incr().Key(doneKey).Build()).Error(); err != nil {
			return err
		}
		r.Enlist(ctx)
	}
}

// TestKilled: counts that a killed process had published stay, and no more than
// those.
func TestKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	recruited := func() int64 {
		n := int64(0)
		for _, job := range readTotals(t, client).Jobs {
			n += job.Recruited()
		}
		return n
	}
	for range 3 {
		before := recruited()
		child := redistest.StartChild(t, childEnv+"="+server.URL())
		redistest.Eventually(t, "it publishes", func() bool { return recruited() >= before+100 })
		child.Kill()
		got, done := recruited(), number(t, client, "GET", doneKey)
		if got < before+100 || got > done {
			t.Errorf("recruited = %d, want from %d to the %d that were made", got, before+100, done)
		}
	}
	if got := readTotals(t, client).Processes; got != 3 {
		t.Errorf("processes = %d, want 3 whose time is not over", got)
	}
}

// TestForeignFlushes: a flush that this library does not send is refused before the first write.
func TestForeignFlushes(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	r := worker(t)
	p := newPublisher(r, client, slog.New(slog.DiscardHandler))
	r.Enlist(t.Context())
	if err := p.flush(t.Context(), minTTL); err != nil {
		t.Fatal(err)
	}
	job := func(counts ...string) []string { return append([]string{"p", "1000", "job"}, counts...) }
	for _, args := range [][]string{
		{"", "1000"}, {"p", "soon"}, {"p", "-1"}, {"p", "1e3"}, {"p", "10000000000000"}, {strings.Repeat("p", 513), "1000"},
		job("1", "0", "0", "0", "0", "0", "0", "1"),
		job("inf", "0", "0", "0", "0", "0", "0", "1", "5"),
		job("-1", "0", "0", "0", "0", "0", "0", "1", "5"),
		job("1", "0", "0", "0", "0", "0", "0", "nan", ""),
		job("1", "0", "0", "0", "0", "0", "0", "1", "-5"),
		job(strings.Repeat("9", 200), "0", "0", "0", "0", "0", "0", "1", ""),
		append([]string{"p", "1000", strings.Repeat("j", 513)}, strings.Fields("1 0 0 0 0 0 0 1 5")...),
		append([]string{"p", "1000"}, strings.Fields(strings.Repeat("job 1 0 0 0 0 0 0 1 5 ", 101))...),
	} {
		if _, err := p.run.Run(t.Context(), "publish", baseKey, args...); err == nil || !strings.Contains(err.Error(), "invalid arguments") {
			t.Errorf("publish %.80q = %v, want a refusal", args, err)
		}
		totals, err := ReadTotals(t.Context(), client)
		if err != nil || totals.Processes != 1 {
			t.Fatalf("after %.80q the totals are %+v, %v, want those of one process", args, totals, err)
		}
		wantTotals(t, totals, r)
	}
}
