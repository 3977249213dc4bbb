package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/redis/redisproc"
)

// asChild is the environment variable with the job of a process.
const asChild = "MILLRACE_COMPARE_JOB"

// pollEvery is how often the comparison looks at the records.
const pollEvery = 5 * time.Millisecond

// site is where one peer is measured once: a server, and processes.
type site struct {
	peer    *peer
	folder  string
	redis   *redisproc.Proc
	replica *redisproc.Proc // of a replicated one, else nil
	pg      *postgres
	base    job // the common settings of all jobs of the site
	workers []*process
	dumps   int // files with counts that callgrind has written
}

// process is a writer or a worker.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  *bytes.Buffer
	ended chan struct{}
	err   error // set when ended is closed
}

// kind is how a Redis is run.
type kind int

const (
	durable    kind = iota // it has an append-only file that is synced each second
	volatile               // it keeps nothing on disk
	counted                // volatile, and callgrind counts its instructions
	replicated             // volatile, on TCP, with a replica
	logged                 // durable, and the file is never written anew
)

// config returns how to start a Redis of the kind. A counted one writes its counts to the folder.
func (k kind) config(folder string) (redisproc.Config, error) {
	switch k {
	case durable:
		return redisproc.Config{AOF: true, Args: []string{"--appendfsync", "everysec"}}, nil
	case counted:
		return underCallgrind(folder)
	case logged:
		return redisproc.Config{AOF: true, Args: []string{"--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"}}, nil
	case replicated:
		return redisproc.Config{TCP: true, Args: []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}}, nil
	case volatile: // nothing to set
	}
	return redisproc.Config{}, nil
}

// open starts a server for the peer.
func open(ctx context.Context, p *peer, base job, k kind) (s *site, err error) {
	folder, err := os.MkdirTemp("", "millrace-compare")
	if err != nil {
		return nil, err
	}
	s = &site{peer: p, folder: folder, base: base}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.base.Peer = p.Name
	if p.postgres {
		if s.pg, err = startPostgres(ctx); err != nil {
			return s, err
		}
		s.base.URL = s.pg.dsn()
		return s, migrateRiver(ctx, s.base.URL)
	}
	cfg, err := k.config(folder)
	if err != nil {
		return s, err
	}
	if s.redis, err = redisproc.Start(ctx, cfg); err != nil {
		return s, err
	}
	s.base.URL = s.redis.URL()
	if k == replicated {
		return s, s.replicate(ctx)
	}
	return s, nil
}

// replicate starts a replica of the server, and returns when it has the data.
func (s *site) replicate(ctx context.Context) (err error) {
	host, port, err := net.SplitHostPort(s.redis.Addr())
	if err != nil {
		return err
	}
	if s.replica, err = redisproc.Start(ctx, redisproc.Config{TCP: true, Args: []string{"--replicaof", host + " " + port}}); err != nil {
		return err
	}
	return await(ctx, pollEvery, "the replica has its master's data", func() (bool, error) {
		text, err := s.infoText(ctx, "replication")
		return strings.Contains(text, "state=online"), err
	})
}

func (s *site) close() error {
	var err error
	for _, w := range s.workers {
		w.kill()
	}
	for _, server := range []*redisproc.Proc{s.replica, s.redis} {
		if server != nil {
			err = errors.Join(err, server.Stop())
		}
	}
	if s.pg != nil {
		err = errors.Join(err, s.pg.stop())
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}

func (s *site) written() string { return filepath.Join(s.folder, "written") }
func (s *site) handled() string { return filepath.Join(s.folder, "handled") }

// start runs a job in a process of its own.
func (s *site) start(ctx context.Context, j job) (*process, io.Reader, error) {
	var cmd *exec.Cmd
	if s.peer.command != nil {
		var err error
		if cmd, err = s.peer.command(ctx, &j); err != nil {
			return nil, nil, err
		}
	} else {
		self, err := os.Executable()
		if err != nil {
			return nil, nil, err
		}
		text, err := json.Marshal(j)
		if err != nil {
			return nil, nil, err
		}
		cmd = exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), asChild+"="+string(text))
	}
	p := &process{cmd: cmd, said: &bytes.Buffer{}, ended: make(chan struct{})}
	cmd.Stderr = p.said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	p.stdin = stdin
	out, stdout := io.Pipe()
	cmd.Stdout = stdout
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		_ = stdout.Close() // it never fails
		close(p.ended)
	}()
	return p, out, <-started
}

// write writes loads in a process of their own, and waits for its end.
func (s *site) write(ctx context.Context, loads ...load) error {
	j := s.base
	j.Records, j.Loads = s.written(), loads
	p, out, err := s.start(ctx, j)
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	<-p.ended
	if p.err != nil {
		return fmt.Errorf("the writer of %s: %w\n%s", s.peer.Title, p.err, p.said)
	}
	return nil
}

// work starts a worker, and returns when it is ready.
func (s *site) work(ctx context.Context) (*process, error) {
	j := s.base
	j.Records = s.handled()
	p, out, err := s.start(ctx, j)
	if err != nil {
		return nil, err
	}
	s.workers = append(s.workers, p)
	if err := awaitReady(out); err != nil {
		return nil, fmt.Errorf("a worker of %s: %w\n%s", s.peer.Title, err, p.said)
	}
	return p, nil
}

// kill ends a process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// stop has a worker finish its messages.
func (p *process) stop() {
	_ = p.stdin.Close() // it may have ended
	kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	<-p.ended
}

// awaitNoted returns when the handlers have noted at least n messages, whose handlers take no time.
func (s *site) awaitNoted(ctx context.Context, n int) error {
	return await(ctx, pollEvery, fmt.Sprintf("%s handled %d messages", s.peer.Title, n), func() (bool, error) {
		got, err := count(s.handled())
		return got >= n, errors.Join(err, s.ended())
	})
}

// awaitHandled returns when at least n messages, from number from on, were handled to the end.
func (s *site) awaitHandled(ctx context.Context, from, n int) (t tally, err error) {
	err = await(ctx, 10*pollEvery, fmt.Sprintf("%s handled %d messages to the end", s.peer.Title, n), func() (bool, error) {
		t, err = tallyOf(s.handled(), from)
		return len(t.times) >= n, errors.Join(err, s.ended())
	})
	return t, err
}

// ended returns an error if all workers have ended.
func (s *site) ended() error {
	for _, w := range s.workers {
		select {
		case <-w.ended:
		default:
			return nil
		}
	}
	return fmt.Errorf("all workers of %s ended: %s", s.peer.Title, s.workers[len(s.workers)-1].said)
}

// await polls until done. When the context ends, it returns an error that names the missing event.
func await(ctx context.Context, interval time.Duration, what string, done func() (bool, error)) error {
	every := time.NewTicker(interval)
	defer every.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return fmt.Errorf("still not: %s: %w", what, context.Cause(ctx))
		}
	}
}

// crash ends the server without a warning, and starts it again with its stored data. It returns
// when the server answers again.
func (s *site) crash(ctx context.Context) error {
	if s.pg != nil {
		return errors.Join(s.pg.crash(), s.pg.launch(ctx))
	}
	if err := s.redis.Kill(); err != nil {
		return err
	}
	return s.redis.Restart(ctx)
}
