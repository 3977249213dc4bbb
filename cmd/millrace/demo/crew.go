package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// dismissal is how long dismissed children may take to finish what they hold when nobody
// waits for what they still have to say.
const dismissal = time.Second

// crew is the children of a scene. Only the scene's own goroutine may use it;
// heard and lost are called from others.
type crew struct {
	command []string
	task    task
	heard   func(line []byte) // a child said something
	lost    func(error)       // a child ended that was neither killed nor dismissed

	workers []*worker
}

// worker is one child.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{} // closed when the process is gone and all it said was heard
	ended atomic.Bool   // it is meant to end
}

// hire starts a child.
func (c *crew) hire() error {
	line, err := json.Marshal(c.task)
	if err != nil {
		return err
	}
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.SysProcAttr = attributes()
	cmd.Stdout = &lineWriter{each: c.heard}
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	w := &worker{cmd: cmd, stdin: stdin, done: make(chan struct{})}
	if err := w.start(func(err error) {
		if !w.ended.Load() {
			c.lost(fmt.Errorf("a child ended by itself: %w: %s", err, strings.TrimSpace(stderr.String())))
		}
	}); err != nil {
		return fmt.Errorf("start a child: %w", err)
	}
	c.workers = append(c.workers, w)
	// A child that cannot be told anything has ended, and lost tells why.
	_, _ = stdin.Write(append(line, '\n'))
	return nil
}

// start runs the child from a thread that lives as long as the child does: the
// kernel sends the signal of the parent's death when the starting thread ends.
func (w *worker) start(gone func(error)) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := w.cmd.Start()
		started <- err
		if err == nil {
			gone(w.cmd.Wait())
			close(w.done)
		}
	}()
	return <-started
}

// killOne ends a child at random with SIGKILL, and returns when it is gone.
func (c *crew) killOne() {
	i := rand.IntN(len(c.workers))
	w := c.workers[i]
	w.kill()
	c.workers = slices.Delete(c.workers, i, i+1)
}

func (w *worker) kill() {
	w.ended.Store(true)
	_ = w.cmd.Process.Kill() // it may have ended already
	<-w.done
}

// dismiss lets all children finish what they hold, say what became of it, and end. Those
// that have not ended some time after ctx has, it kills.
func (c *crew) dismiss(ctx context.Context) {
	for _, w := range c.workers {
		w.ended.Store(true)
		_ = w.stdin.Close() // the pipe is closed already if the child has ended
	}
	late, cancel := outlive(ctx, dismissal)
	defer cancel()
	for _, w := range c.workers {
		select {
		case <-w.done:
		case <-late.Done():
			w.kill()
		}
	}
	c.workers = nil
}

// lineWriter hands on what is written line by line. A last line that was cut
// off is not handed on.
type lineWriter struct {
	each func(line []byte)
	rest []byte
}

// Write takes part of a child's output.
func (l *lineWriter) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l.each(line)
		l.rest = rest
	}
}
