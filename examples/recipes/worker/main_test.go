package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/millracetest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// start starts a worker with many messages to handle, and returns it with the lines that it prints.
func start(t *testing.T, s *redistest.Server) (worker *exec.Cmd, lines *bufio.Scanner, q *fairqueue.Queue) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	q, err := fairqueue.New(s.Client(t), "orders", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range orders {
		if _, err := q.Write(t.Context(), fairqueue.Draft{Tenant: fmt.Sprint(i), Body: fmt.Appendf(nil, "order %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	worker = exec.CommandContext(t.Context(), program)
	worker.Env, worker.Stderr = append(os.Environ(), "MILLRACE_REDIS_URL="+s.URL()), t.Output()
	stdout, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	lines = bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatalf("the worker begins nothing: %v", worker.Wait())
	}
	return worker, lines, q
}

const orders = 40

// TestDeploy ends a worker as Kubernetes does: the messages that it has are handled, and the others wait for the next worker.
func TestDeploy(t *testing.T) {
	t.Parallel()
	worker, lines, q := start(t, redistest.Start(t, redistest.Options{}))
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	begun, done := 1, 0
	for lines.Scan() {
		if strings.HasSuffix(lines.Text(), " begins") {
			begun++
		} else {
			done++
		}
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ends with %v", err)
	}
	if begun != done || done == orders {
		t.Errorf("%d handlers began and %d finished, of %d messages", begun, done, orders)
	}
	millracetest.WantCounts(t, q, millracetest.Counts{Waiting: orders - done})
}

// TestEndWithoutRedis: a worker whose Redis does not answer at its end is not killed. Of the 45 seconds of its pod, handlers
// may have taken 30.
func TestEndWithoutRedis(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	s := redistest.Start(t, redistest.Options{})
	worker, lines, _ := start(t, s)
	s.Pause()
	defer s.Resume()
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	handled := time.Now()
	for lines.Scan() {
		handled = time.Now()
	}
	err := worker.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("the worker ends with %v, want 1, since its messages are not settled", err)
	}
	if took := time.Since(handled); took > 15*time.Second {
		t.Errorf("the worker ends %s after its handlers, too late", took)
	}
}
