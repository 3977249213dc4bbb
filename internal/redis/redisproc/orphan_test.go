package redisproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// orphanMode makes the test binary a program that starts a server, prints
	// its process id and folder, and then ends without any clean-up.
	orphanMode = "REDISPROC_ORPHAN_MODE"

	// orphanBinary is the server that program runs.
	orphanBinary = "REDISPROC_ORPHAN_BINARY"
)

func beOrphanMaker(mode string) {
	p, err := Start(context.Background(), Config{Binary: os.Getenv(orphanBinary)})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID(), p.Dir())
	switch mode {
	case "panic":
		go panic("in another goroutine")
	case "exit":
		os.Exit(0)
	}
	select {} // until a signal comes
}

// TestServerNeverOutlivesItsStarter: a server ends with a process that panics, exits or is killed.
func TestServerNeverOutlivesItsStarter(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	t.Parallel()
	for _, mode := range []string{"panic", "exit", "kill"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), orphanMode+"="+mode, orphanBinary+"="+testConfig(t).Binary)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				cmd.Process.Kill()
				t.Fatalf("the starter said %q, %v, want a process id and a folder", line, err)
			}
			first, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
			pid, err := strconv.Atoi(first)
			if err != nil {
				cmd.Process.Kill()
				t.Fatalf("the starter said %q, want a process id and a folder", line)
			}
			defer os.RemoveAll(dir)

			if mode == "kill" {
				if !running(pid) {
					t.Fatal("the server does not run while its starter lives")
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait() // that it ends badly is the point

			for end := time.Now().Add(10 * time.Second); running(pid); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("server %d is alive 10 s after its starter ended", pid)
				}
			}
		})
	}
}

// The parent-death signal comes when the starting thread ends, and a goroutine
// that ends locked takes its thread with it.
func TestServerOutlivesTheThreadThatCalledStart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	type result struct {
		p   *Proc
		err error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread()
		p, err := Start(deadline(t), cfg)
		results <- result{p, err}
	}()
	r := <-results
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.p.Stop()
	select {
	case <-r.p.Done():
		t.Error("the server ended with the thread of Start's caller")
	case <-time.After(100 * time.Millisecond):
	}
}

// running reports whether the process runs. A zombie without a parent that waits for it
// does not.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
