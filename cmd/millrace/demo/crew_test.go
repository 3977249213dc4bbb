package demo

import (
	"bufio"
	"context"
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

	"github.com/millrace/millrace/internal/redistest"
)

func TestChildrenDieWithTheirParent(t *testing.T) {
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
	redistest.Eventually(t, "the child ends", func() bool { return !running(child) })
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

// Everywhere else, and when the parent ends in good order, a child ends with
// its standard input.
func TestAPartEndsWithItsInput(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	in, parent := io.Pipe()
	playing := make(chan string)
	ended := make(chan error)
	go func() {
		ended <- playPart(context.Background(), in, io.Discard, func(ctx context.Context, p part) error {
			playing <- p.name
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	fmt.Fprintf(parent, `{"redis":%q,"name":"a name"}`+"\n", server.URL())
	if got, want := <-playing, "a name"; got != want {
		t.Errorf("name = %q, want %q", got, want)
	}
	parent.Close()
	if err := <-ended; err != nil {
		t.Errorf("a dismissed part = %v, want nil", err)
	}
}

func TestAPartWithoutATask(t *testing.T) {
	t.Parallel()
	err := playPart(t.Context(), strings.NewReader("{"), io.Discard, nil)
	if !errors.Is(err, io.EOF) {
		t.Errorf("playPart = %v, want %v", err, io.EOF)
	}
}

func TestChildLeavesOtherProgramsAlone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"demo"}, {"demo-child"}, {"ick", "demo-child"}} {
		if code, handled := Child(t.Context(), args); code != 0 || handled {
			t.Errorf("Child(%q) = %d, %v, want 0, false", args, code, handled)
		}
	}
}

func TestDismissKillsAChildThatStays(t *testing.T) {
	t.Parallel()
	c := &crew{command: self(hang), heard: func([]byte) {}, lost: func(err error) { t.Errorf("lost: %v", err) }}
	for range 2 {
		if err := c.hire(); err != nil {
			t.Fatal(err)
		}
	}
	hired := c.workers
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	c.dismiss(ctx)
	if took := time.Since(begin); took < dismissal {
		t.Errorf("dismiss took %s, less than the %s that children may take", took, dismissal)
	}
	for _, w := range hired {
		if w.cmd.ProcessState == nil {
			t.Errorf("child %d was not waited for", w.cmd.Process.Pid)
		}
	}
}

func TestLineWriterHandsOnWholeLines(t *testing.T) {
	t.Parallel()
	var got []string
	w := &lineWriter{each: func(line []byte) { got = append(got, string(line)) }}
	for _, text := range []string{"o", "ne\ntwo\n\nth", "ree", "\ncut o"} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", text, n, err)
		}
	}
	if diff := cmp.Diff([]string{"one", "two", "", "three"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
