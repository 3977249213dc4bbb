package redisproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrStopped means that Stop has ended the server, which cannot be restarted.
var ErrStopped = errors.New("redisproc: the server was stopped, start another one")

const (
	// stopGrace is how long Stop and Restart wait for a server to end by
	// itself before they kill it.
	stopGrace = 2 * time.Second

	// portAttempts is how many free ports are tried before giving up: a stranger
	// may take a port between our look and the server's.
	portAttempts = 10

	// logTail is how many bytes of its log a dead server's error carries.
	logTail = 2000
)

// Proc is one server. All methods may be called concurrently.
type Proc struct {
	cfg   Config
	place place

	cur atomic.Pointer[run]

	mu      sync.Mutex // held by Restart and Stop
	stopped bool
}

// run is one life of the server's process.
type run struct {
	proc   *os.Process
	done   chan struct{} // closed when the process has been waited for
	paused atomic.Bool
}

// Start runs a server and returns when it answers. An error carries the end of
// the server's log if the server died. The context bounds the start only; the
// server lives until Stop, or until this process ends.
func Start(ctx context.Context, cfg Config) (*Proc, error) {
	if cfg.Binary == "" {
		path, err := Find()
		if err != nil {
			return nil, err
		}
		cfg.Binary = path
	}
	pl, err := cfg.settle()
	if err != nil {
		return nil, err
	}
	p := &Proc{cfg: cfg, place: pl}

	choosePort := cfg.tcp() && cfg.Port == 0
	for attempt := 1; ; attempt++ {
		if choosePort {
			if err = p.place.takePort(cfg.Cluster); err != nil {
				break
			}
		}
		if err = p.launch(ctx); err == nil {
			return p, nil
		}
		if !choosePort || attempt == portAttempts || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	return nil, errors.Join(err, p.place.remove())
}

// PID returns the process id of the server's present, or last, life.
func (p *Proc) PID() int { return p.cur.Load().proc.Pid }

// Addr returns the address that a client dials: the socket's path, or host:port.
func (p *Proc) Addr() string {
	_, addr := p.place.addr()
	return addr
}

// URL returns Addr as unix:///path or redis://host:port.
func (p *Proc) URL() string {
	if p.place.socket != "" {
		return (&url.URL{Scheme: "unix", Path: p.place.socket}).String()
	}
	return "redis://" + p.Addr()
}

// Dir returns the server's working folder.
func (p *Proc) Dir() string { return p.place.dir }

// Done returns a channel that is closed when the server's present life has
// ended. After Restart a new channel is in force.
func (p *Proc) Done() <-chan struct{} { return p.cur.Load().done }

// Kill ends the server with SIGKILL and returns when it is gone. It is no
// error if the server is dead already.
func (p *Proc) Kill() error {
	r := p.cur.Load()
	if err := alive(r.proc.Kill()); err != nil {
		return fmt.Errorf("redisproc: kill: %w", err)
	}
	<-r.done
	return nil
}

// Pause stops the server with SIGSTOP: it keeps its connections and answers
// nothing until Resume.
func (p *Proc) Pause() error {
	r := p.cur.Load()
	if err := alive(pause(r.proc)); err != nil {
		return fmt.Errorf("redisproc: pause: %w", err)
	}
	r.paused.Store(true)
	return nil
}

// Paused reports whether the server runs, and was paused and not resumed.
func (p *Proc) Paused() bool { return p.cur.Load().paused.Load() && !p.Ended() }

// Ended reports whether the server does not run.
func (p *Proc) Ended() bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// Resume lets a paused server run again. It is no error if it was not paused.
func (p *Proc) Resume() error {
	r := p.cur.Load()
	if err := alive(resume(r.proc)); err != nil {
		return fmt.Errorf("redisproc: resume: %w", err)
	}
	r.paused.Store(false)
	return nil
}

// Restart ends the server if it runs, starts it again with the same
// configuration, folder and address, and returns when it answers. Data
// survives with Config.AOF only. After Stop it returns ErrStopped.
func (p *Proc) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return ErrStopped
	}
	if err := p.end(); err != nil {
		return err
	}
	return p.launch(ctx)
}

// Stop ends the server with SIGTERM, or with SIGKILL if it takes longer than
// two seconds, and removes the folders that Start made. Calling it again does
// nothing.
func (p *Proc) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	p.stopped = true
	return errors.Join(p.end(), p.place.remove())
}

func (p *Proc) end() error {
	r := p.cur.Load()
	if err := alive(terminate(r.proc)); err != nil {
		return fmt.Errorf("redisproc: stop: %w", err)
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-r.done:
		return nil
	case <-grace.C:
		return p.Kill()
	}
}

// alive drops the error of a signal to a process that has ended.
func alive(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// launch starts one life and waits until it answers. A life that does not
// become ready has ended when launch returns.
func (p *Proc) launch(ctx context.Context) error {
	args, err := p.cfg.args(&p.place)
	if err != nil {
		return err
	}
	logPath := filepath.Join(p.place.dir, "server.log")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("redisproc: server log: %w", err)
	}
	defer logFile.Close()
	start, err := logFile.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("redisproc: server log: %w", err)
	}

	cmd := exec.Command(p.cfg.Binary, args...)
	cmd.Dir = p.place.dir
	cmd.Env = append(os.Environ(), p.cfg.Env...)
	cmd.Stdout = logFile
	cmd.Stderr = logFile
	cmd.SysProcAttr = Attributes()
	r, err := spawn(cmd)
	if err != nil {
		return fmt.Errorf("redisproc: %w", err)
	}
	p.cur.Store(r)

	if err := p.awaitReady(ctx, r); err != nil {
		return errors.Join(err, p.Kill())
	}
	select {
	case <-r.done:
		return fmt.Errorf("redisproc: %s ended at start; the end of its log:\n%s", p.cfg.Binary, tail(logFile, start))
	default:
		return nil
	}
}

// spawn starts cmd from a thread that lives as long as the child does, because
// the kernel sends the parent-death signal when the starting thread ends.
func spawn(cmd *exec.Cmd) (*run, error) {
	started := make(chan error)
	r := &run{done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		r.proc = cmd.Process
		started <- err
		if err == nil {
			// How the server ended is in its log.
			_ = cmd.Wait()
			close(r.done)
		}
	}()
	return r, <-started
}

// tail returns the end of the server's log since start.
func tail(f *os.File, start int64) []byte {
	if end, err := f.Seek(0, 2); err == nil {
		start = max(start, end-logTail)
	}
	text := make([]byte, logTail)
	n, _ := f.ReadAt(text, start)
	return bytes.TrimSpace(text[:n])
}
