//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

// deafChild starts a process in the background that ignores SIGTERM, and writes its number to the
// file that $0 names.
const deafChild = `(trap "" TERM; while :; do sleep 0.05; done) & echo $! > "$0.new"; mv "$0.new" "$0"; `

// endsWithTest kills the process with the number in a file at the end of the test, if it is there.
func endsWithTest(t *testing.T, path string) {
	t.Helper()
	t.Cleanup(func() {
		text, _ := os.ReadFile(path)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && lives(t, path) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it has just ended, else
		}
	})
}

// lives reports whether the process with the number in a file runs.
func lives(t *testing.T, path string) bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(text)), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the test looks at processes in /proc")
	}
}

// TestLeaseRunLeavesNothing: the lease is released when nothing is left that the program started.
func TestLeaseRunLeavesNothing(t *testing.T) {
	t.Parallel()
	onLinux(t)
	for _, c := range []struct {
		name, script, flags string
		lost                bool
		code                int
	}{
		{"ended", deafChild + "exit 5", "", false, 5},
		{"killed", deafChild + "kill -9 $$", "", false, exitSignal + 9},
		{"timeout", deafChild + `trap "exit 3" TERM; wait`, "--timeout 2s", false, exitStopped},
		{"lost", deafChild + "wait", "--ttl 3s", true, exitStopped},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, name, path := sharedShell(t), redistest.Name(t), filepath.Join(t.TempDir(), "pid")
			endsWithTest(t, path)
			args := append(append([]string{"lease", "run", name, "--grace", "300ms"}, strings.Fields(c.flags)...), "--", "/bin/sh", "-c", c.script, path)
			nothing, err := os.Open(os.DevNull) // is no terminal
			if err != nil {
				t.Fatal(err)
			}
			defer nothing.Close()
			ended := make(chan int)
			go func() { ended <- run(t.Context(), args, s.env, nothing, &locked{}, &locked{}) }()
			awaitFile(t, path)
			if c.lost {
				loseLease(t, name)
			} else if got := s.run("lease", "run", name, "--wait", "1h", "--", "/bin/sh", "-c", `cat "/proc/$(cat "$0")/stat" 2>&1`, path); !strings.Contains(got.stdout, "No such file") &&
				!strings.Contains(got.stdout, ") Z ") {
				t.Errorf("the next holder finds a process of the holder before: %+v", got)
			}
			if code := <-ended; code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if lives(t, path) {
				t.Error("lease run has ended, and a process that its program started lives")
			}
		})
	}
}

// TestQueueWorkLeavesNothing: a message is settled when nothing is left that its command started.
func TestQueueWorkLeavesNothing(t *testing.T) {
	t.Parallel()
	onLinux(t)
	s, name, path := sharedShell(t), redistest.Name(t), filepath.Join(t.TempDir(), "pid")
	endsWithTest(t, path)
	s.run("queue", "write", name, "--tenant", "a", "--body", "x")
	_, _, stop := s.work(name, strings.ReplaceAll(deafChild, "$0", path)+"exit 0", "--grace", "300ms")
	defer stop()
	awaitFile(t, path)
	s.eventually("it is done", name, func(q ops.QueueStats) bool { return q.Waiting+q.InFlight+q.Dead == 0 })
	if lives(t, path) {
		t.Error("the message is settled, and a process that its command started lives")
	}
}

// TestKilledCommandLeavesNothing: when the command is killed, so is all that its programs started.
func TestKilledCommandLeavesNothing(t *testing.T) {
	t.Parallel()
	onLinux(t)
	for _, noun := range []string{"lease", "queue"} {
		t.Run(noun, func(t *testing.T) {
			t.Parallel()
			s, name, path := sharedShell(t), redistest.Name(t), filepath.Join(t.TempDir(), "pid")
			endsWithTest(t, path)
			args := []string{"lease", "run", name, "--", "/bin/sh", "-c", deafChild + "wait", path}
			if noun == "queue" {
				s.run("queue", "write", name, "--tenant", "a", "--body", "x")
				args = []string{"queue", "work", name, "--exec", strings.ReplaceAll(deafChild, "$0", path) + "wait"}
			}
			cmd := command(t, append(args, "--redis", s.url)...)
			if noun == "lease" {
				cmd = command(t, append([]string{"--redis", s.url}, args...)...)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, path)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			awaitEnd(t, path)
		})
	}
}

// TestProgramWaitsForItsGuard: a program does not begin before its guard would kill it with this process.
func TestProgramWaitsForItsGuard(t *testing.T) {
	t.Parallel()
	onLinux(t)
	g, err := newGuard()
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	path := filepath.Join(t.TempDir(), "begun")
	p := program{args: []string{"touch", path}, stdout: &locked{}, stderr: &locked{}, log: slog.New(slog.DiscardHandler), guard: g}
	g.mu.Lock() // so that it is not told
	ended := make(chan ending)
	go func() {
		end, err := p.run(t.Context(), t.Context())
		if err != nil {
			t.Errorf("run = %v", err)
		}
		ended <- end
	}()
	redistest.Eventually(t, "a shell waits for the guard", func() bool {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		return slices.ContainsFunc(lines, func(file string) bool {
			text, _ := os.ReadFile(file)
			return strings.Contains(string(text), waiting) && strings.Contains(string(text), path)
		})
	})
	if _, err := os.Stat(path); err == nil {
		t.Error("the program has begun before the guard knows it")
	}
	g.mu.Unlock()
	if end := <-ended; end != (ending{}) {
		t.Errorf("the program ended with %+v, want 0", end)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the program has not run: %v", err)
	}
}

// TestGuardIsReplaced: programs that start after their guard was killed have another one, which
// knows the programs before, too.
func TestGuardIsReplaced(t *testing.T) {
	t.Parallel()
	onLinux(t)
	g, err := newGuard()
	if err != nil {
		t.Fatal(err)
	}
	first, second := startGroup(t), startGroup(t)
	if err := g.add(first); err != nil {
		t.Fatal(err)
	}
	g.end()
	if err := g.add(second); err != nil {
		t.Fatal(err)
	}
	if err := g.pipe.Close(); err != nil { // as when this process ends
		t.Fatal(err)
	}
	for _, pid := range []int{first, second} {
		redistest.Eventually(t, "the guard has killed the program", func() bool { return onlyZombies(pid) })
	}
	g.close()
}

// startGroup starts a program in a process group of its own, which is killed with the test at the
// latest, and returns its number. Killed, it stays a zombie until then.
func startGroup(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `trap "" TERM; while :; do sleep 0.05; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // unless it is gone
		_ = cmd.Wait()                                      // it was killed
	})
	return cmd.Process.Pid
}

// TestZombiesAreGone: a process that has ended does not count, though its parent never asks how.
func TestZombiesAreGone(t *testing.T) {
	t.Parallel()
	onLinux(t)
	pid := startGroup(t)
	program, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	g := &processes{program: program}
	if !g.alive() {
		t.Error("a group with a process that runs is not alive")
	}
	g.kill()
	redistest.Eventually(t, "the group is gone", func() bool { return !g.alive() })
	if err := syscall.Kill(-pid, 0); err != nil {
		t.Errorf("there is no zombie: %v", err)
	}
}

// stubborn is a group that survives all signals.
type stubborn struct {
	got  locked
	gone atomic.Bool
}

func (s *stubborn) terminate()  { fmt.Fprint(&s.got, "T") }
func (s *stubborn) kill()       { fmt.Fprint(&s.got, "K") }
func (s *stubborn) alive() bool { return !s.gone.Load() }

// TestStubbornGroup: while a process survives SIGKILL, as one does that waits for a device, run does not
// return, and the log says so.
func TestStubbornGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log locked
		p := program{args: []string{"backup"}, grace: time.Minute, log: slog.New(slog.NewTextHandler(&log, nil))}
		g := &stubborn{}
		ended, done := make(chan struct{}), make(chan bool)
		close(ended)
		began := time.Now()
		go func() { done <- p.await(t.Context(), t.Context(), g, ended) }()
		time.Sleep(linger + p.grace + killLimit + 2*killLimit + time.Second)
		synctest.Wait()
		if got, want := g.got.String(), "TKKK"; got != want {
			t.Errorf("it got %s, want %s", got, want)
		}
		if got := strings.Count(log.String(), "survives SIGKILL"); got != 2 {
			t.Errorf("the log says %d times that it survives, want 2:\n%s", got, log.String())
		}
		select {
		case <-done:
			t.Fatalf("await has returned after %s, and a process is left", time.Since(began))
		default:
		}
		g.gone.Store(true)
		if stopped := <-done; stopped {
			t.Error("a program that ended before any signal counts as stopped")
		}
	})
}

// TestNothingStartsLate: a program that must not go on does not start.
func TestNothingStartsLate(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	p := program{args: []string{"/nonexistent/program"}}
	for _, until := range [][2]context.Context{{over, t.Context()}, {t.Context(), over}} {
		if end, err := p.run(until[0], until[1]); err != nil || !end.stopped {
			t.Errorf("it ended with %+v, %v, want it stopped before its start", end, err)
		}
	}
}

// leaseOf returns the parts that lease run works with, through a proxy.
func leaseOf(t *testing.T) (*redistest.Proxy, *lease.Locker, *app, *locked) {
	t.Helper()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	l, err := lease.New(proxy.Client(t), lease.Config{MaxHold: untilReleased})
	if err != nil {
		t.Fatal(err)
	}
	said := &locked{}
	return proxy, l, &app{stdin: strings.NewReader(""), stdout: said, stderr: said}, said
}

// TestRunWithoutRelease: a program that has succeeded has, also when Redis is away afterwards. Of a
// success that must be recorded nothing is known then.
func TestRunWithoutRelease(t *testing.T) {
	t.Parallel()
	script := func(c *leaseRun, dir string) string {
		c.Command = []string{"/bin/sh", "-c", `: > "$0/started"; while [ ! -e "$0/go" ]; do sleep 0.05; done`, dir}
		return filepath.Join(dir, "started")
	}
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("once %v", once), func(t *testing.T) {
			t.Parallel()
			proxy, l, a, said := leaseOf(t)
			dir := t.TempDir()
			c := &leaseRun{TTL: 6 * time.Second, OncePer: 8784 * time.Hour, Timeout: time.Hour}
			started, result := script(c, dir), make(chan error)
			go func() {
				if once {
					result <- c.once(t.Context(), a, l, redistest.Name(t))
				} else {
					result <- c.hold(t.Context(), a, l, redistest.Name(t))
				}
			}()
			awaitFile(t, started)
			proxy.HalfClose()
			if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			err := <-result
			if once && !errors.Is(err, millrace.ErrUncertain) {
				t.Errorf("once: %v, want %v", err, millrace.ErrUncertain)
			}
			if !once && (err != nil || !strings.Contains(said.String(), "was not released")) {
				t.Errorf("hold: %v, and it says %q, want no error and a warning", err, said)
			}
		})
	}
}

// TestOnceIsInterrupted: an interrupt ends --once-per while it asks for the lease.
func TestOnceIsInterrupted(t *testing.T) {
	t.Parallel()
	proxy, l, a, _ := leaseOf(t)
	name := redistest.Name(t)
	if _, err := l.Show(t.Context(), name); err != nil { // it is connected
		t.Fatal(err)
	}
	proxy.HalfClose()
	ctx, interrupt := context.WithCancel(t.Context())
	c := &leaseRun{Command: []string{"true"}, TTL: time.Minute, OncePer: time.Hour, Timeout: time.Hour}
	result := make(chan error)
	go func() { result <- c.once(ctx, a, l, name) }()
	interrupt()
	select {
	case err := <-result:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("once: %v, want %v", err, context.Canceled)
		}
	case <-time.After(time.Minute):
		t.Error("once goes on after an interrupt")
		proxy.Heal()
		<-result
	}
}
