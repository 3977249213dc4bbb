package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
)

// asCommand has the test binary be the command, with its arguments.
const asCommand = "MILLRACE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if beGuard(os.Args[1:], os.Stdin) {
		return
	}
	if os.Getenv(asCommand) != "" {
		main()
	}
	if url := os.Getenv(asWorker); url != "" {
		fmt.Fprintln(os.Stderr, work(url))
		os.Exit(1)
	}
	redistest.Main(m)
}

// shell runs commands on one server, in this process.
type shell struct {
	t      *testing.T
	url    string // MILLRACE_REDIS_URL
	config string // XDG_CONFIG_HOME
}

// outcome is the result of one command.
type outcome struct {
	code           int
	stdout, stderr string
}

func sharedShell(t *testing.T) shell {
	t.Helper()
	return shell{t: t, url: redistest.Shared(t).URL()}
}

func (s shell) run(args ...string) outcome {
	s.t.Helper()
	return s.feed("", args...)
}

// feed runs a command with this on its standard input.
func (s shell) feed(stdin string, args ...string) outcome {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(s.t.Context(), args, s.env, strings.NewReader(stdin), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func (s shell) env(name string) string {
	return map[string]string{"MILLRACE_REDIS_URL": s.url, "XDG_CONFIG_HOME": s.config}[name]
}

// want runs a command that must succeed with this on stdout alone.
func (s shell) want(stdout string, args ...string) {
	s.t.Helper()
	if got, want := s.run(args...), (outcome{stdout: stdout}); got != want {
		s.t.Errorf("millrace %s = %+v, want %+v", strings.Join(args, " "), got, want)
	}
}

// refused runs a command with --json that must fail, checks that its error is as
// the contract has it, and returns the error.
func (s shell) refused(exit int, code string, args ...string) failure {
	s.t.Helper()
	return s.refusedFed("", exit, code, args...)
}

// refusedFed is refused with this on standard input.
func (s shell) refusedFed(stdin string, exit int, code string, args ...string) failure {
	s.t.Helper()
	command := "millrace " + strings.Join(args, " ")
	got := s.feed(stdin, append([]string{"--json"}, args...)...)
	if got.code != exit || got.stdout != "" {
		s.t.Errorf("%s exits with %d and prints %q, want %d and nothing", command, got.code, got.stdout, exit)
	}
	var f failure
	if err := json.Unmarshal([]byte(got.stderr), &f); err != nil {
		s.t.Fatalf("%s says %q, which is not JSON: %v", command, got.stderr, err)
	}
	if n := strings.Count(got.stderr, "\n"); n != 1 {
		s.t.Errorf("%s says %q, want one line", command, got.stderr)
	}
	if f.Code != code {
		s.t.Errorf("%s fails with code %q (%s), want %q", command, f.Code, f.Error, code)
	}
	return f
}

// answer runs a command with --json that must succeed, and reads its document.
func answer[T any](s shell, args ...string) T {
	s.t.Helper()
	got := s.run(append([]string{"--json"}, args...)...)
	var doc T
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.code != 0 || got.stderr != "" {
		s.t.Fatalf("millrace %s = %+v, want a document (%v)", strings.Join(args, " "), got, err)
	}
	return doc
}

// batch is the document of reserve and exchange.
type batch struct {
	Token   string
	Entries []struct {
		Member json.RawMessage
		Score  json.RawMessage
	}
	Committed, Kept int
}

// show writes a batch as "member score, member score".
func (b batch) show() string {
	words := make([]string, len(b.Entries))
	for i, e := range b.Entries {
		words[i] = string(e.Member) + " " + string(e.Score)
	}
	return strings.Join(words, ", ")
}

// client connects as a command does. The caller closes it.
func (s shell) client() rueidis.Client {
	s.t.Helper()
	client, err := (&app{redis: s.url, env: s.env}).open(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

// interruptedAtQuestion interrupts a command when it asks, and returns its exit code, which says that
// it has failed.
func (s shell) interruptedAtQuestion(args ...string) int {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	in, stdin, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer in.Close()
	defer stdin.Close()
	stderr, ended := new(redistest.Log), make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"--redis", s.url}, args...), s.env, in, io.Discard, stderr)
	}()
	redistest.Eventually(s.t, "the command asks", func() bool { return stderr.Count("[y/N]") > 0 })
	cancel()
	var code int
	redistest.Eventually(s.t, "the command ends", func() bool {
		select {
		case code = <-ended:
			return true
		default:
			return false
		}
	})
	if code == 0 {
		s.t.Errorf("millrace %v ends with 0 when it is interrupted at its question: %s", args, stderr)
	}
	return code
}

// park has a consumer take the oldest mark and fail on it.
func (s shell) park(name, reason string, cfg ick.ConsumeConfig) {
	s.t.Helper()
	client := s.client()
	defer client.Close()
	k, err := ick.New(client, name, ick.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	cfg.Batch = 1
	err = k.Consume(ctx, cfg, func(_ context.Context, batch []ick.Entry) error {
		cancel()
		return ick.Failed(errors.New(reason), batch[0].Member)
	})
	if !errors.Is(err, context.Canceled) {
		s.t.Fatalf("Consume = %v, want the end of its context", err)
	}
}
