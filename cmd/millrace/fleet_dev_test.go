package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/open"
	"github.com/millrace/millrace/internal/test/redistest"
)

// process is a command that runs until it is interrupted, as a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *redistest.Log
}

// command returns the command as a process.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

func startDev(t *testing.T, args ...string) *process {
	t.Helper()
	redistest.Binary(t)
	return startCommand(t, append([]string{"fleet", "dev"}, args...)...)
}

func startCommand(t *testing.T, args ...string) *process {
	t.Helper()
	d := &process{t: t, cmd: command(t, args...), stderr: new(redistest.Log)}
	d.cmd.Stderr = d.stderr
	stdin, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.stdin, d.stdout = stdin, bufio.NewReader(stdout)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// If it hangs, its last words are where.
	alarm := time.AfterFunc(time.Minute, func() { d.cmd.Process.Signal(syscall.SIGQUIT) })
	t.Cleanup(func() {
		alarm.Stop()
		d.cmd.Process.Kill() // its servers end with it
	})
	return d
}

// line returns the next line that the command prints.
func (d *process) line() string {
	d.t.Helper()
	line, err := d.stdout.ReadString('\n')
	if err != nil {
		d.t.Fatalf("it printed %q, and ends with %v:\n%s", line, err, d.stderr)
	}
	return line
}

// ready returns the fleet's URL from the line that it is ready.
func (d *process) ready() string {
	d.t.Helper()
	line := d.line()
	var ready struct {
		Ready     bool
		Directory string
	}
	if err := json.Unmarshal([]byte(line), &ready); err != nil || !ready.Ready || !open.Is(ready.Directory) {
		d.t.Fatalf("it prints %q (%v), want the line that it is ready:\n%s", line, err, d.stderr)
	}
	if want := fmt.Sprintf("{\"ready\":true,\"directory\":%q}\n", ready.Directory); line != want {
		d.t.Errorf("it prints %q, want %q", line, want)
	}
	return ready.Directory
}

// end sends a signal, and checks that the command prints nothing more and ends
// well.
func (d *process) end(signal os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(signal); err != nil {
		d.t.Fatal(err)
	}
	rest, _ := io.ReadAll(d.stdout)
	if err := d.cmd.Wait(); err != nil || len(rest) > 0 {
		d.t.Errorf("after %v it ends with %v, having printed %q; want exit code 0 and nothing:\n%s", signal, err, rest, d.stderr)
	}
}

// gone reports whether no process has that number.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestFleetDev(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "fleet")
	d := startDev(t, "--nodes", "3", "--partitions", "4", "--replicas", "1", "--dir", dir, "--max-memory", "64mb", "--json")
	s := shell{t: t, url: d.ready()}
	status := answer[fleet.Status](s, "fleet", "show")
	if status.State != fleet.Healthy || len(status.Partitions) != 4 {
		t.Errorf("show = %+v, want four partitions, healthy", status)
	}
	pids := []int{}
	for _, p := range status.Partitions {
		pids = append(pids, p.Master.PID)
		for _, r := range p.Replicas {
			pids = append(pids, r.PID)
			if r.Node == p.Master.Node || r.Node == "" {
				t.Errorf("partition %d has its members on %q and %q", p.ID, p.Master.Node, r.Node)
			}
		}
		if p.MaxMemory != 64<<20 {
			t.Errorf("partition %d has a limit of %d bytes, want 64 MB", p.ID, p.MaxMemory)
		}
	}
	if len(pids) != 8 {
		t.Errorf("%d members, want 8: %+v", len(pids), status)
	}

	// Without the environment, as it is used most.
	bare := shell{t: t}
	answer[grantDoc](bare, "--redis", s.url, "lease", "acquire", "nightly", "--ttl", "1h")
	if got := bare.run("--redis", s.url, "queue", "write", "orders", "--tenant", "acme", "--body", "hello"); got.code != 0 {
		t.Errorf("queue write = %+v", got)
	}
	if got := bare.run("--redis", s.url, "queue", "read", "orders"); got.code != 0 || !strings.Contains(got.stdout, "hello") {
		t.Errorf("queue read = %+v, want the message", got)
	}

	// The same folder is not for two.
	if f := bare.refused(1, "exists", "fleet", "dev", "--dir", dir); !strings.Contains(f.Error, dir) || f.Hint == "" {
		t.Errorf("a second fleet in the folder says %+v", f)
	}

	victim := status.Partitions[2].Replicas[0]
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "it says that a server died", func() bool {
		said := d.stderr.String()
		return strings.Contains(said, "the member of partition 2 on "+victim.Node+" died") && strings.Contains(said, victim.Addr)
	})

	d.end(syscall.SIGTERM)
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("the server %d is still there", pid)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the folder that was given: %v", err)
	}
}

// TestFleetDevForPeople ends it as Ctrl-C does.
func TestFleetDevForPeople(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--nodes", "1", "--partitions", "1", "--replicas", "0")
	var printed strings.Builder
	for !strings.Contains(printed.String(), "servers, help\n") {
		printed.WriteString(d.line())
	}
	pids := []int{}
	for line := range strings.Lines(printed.String()) {
		words := strings.Fields(line)
		if len(words) > 2 && (words[0] == "directory" || words[0] == "master") {
			pid, err := strconv.Atoi(words[len(words)-1])
			if err != nil {
				t.Errorf("%q does not end in a process id", line)
			}
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2 || !strings.Contains(printed.String(), "export MILLRACE_REDIS_URL=fleet://127.0.0.1:") {
		t.Errorf("it prints\n%s\nwant two servers and what to try", printed.String())
	}
	d.end(os.Interrupt)
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("the server %d is still there", pid)
		}
	}
}

func TestFleetDevWithoutServer(t *testing.T) {
	t.Parallel()
	cmd := command(t, "fleet", "dev", "--json")
	cmd.Env = append(cmd.Env, "PATH="+t.TempDir())
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	var f failure
	if jsonErr := json.Unmarshal(out, &f); !ok || exit.ExitCode() != 1 || jsonErr != nil || f.Code != "no_server" || !strings.Contains(f.Hint, "apt install redis-server") {
		t.Errorf("without a server it ends with %v and says %s, want exit code 1 and what to install", err, out)
	}
}
