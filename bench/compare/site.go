package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/redisproc"
)

// asChild is the environment variable with the job of a process.
const asChild = "MILLRACE_COMPARE_JOB"

// pollEvery is how often the comparison looks at the records.
const pollEvery = 5 * time.Millisecond

// site is where one peer is measured once: a server, and processes.
type site struct {
	must.Stage // servers, and the client

	peer    *peer
	folder  string
	redis   *redisproc.Proc
	client  rueidis.Client // of redis
	pg      *postgres
	base    job // the common settings of all jobs of the site
	workers []*must.Process
	dumps   int // files with counts that callgrind has written
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
			err = errors.Join(err, s.close(ctx))
		}
	}()
	s.base.Peer = p.Name
	if p.postgres {
		if s.pg, err = startPostgres(ctx); err != nil {
			return s, err
		}
		s.Defer(func(context.Context) error { return s.pg.stop() })
		s.base.URL = s.pg.dsn()
		return s, migrateRiver(ctx, s.base.URL)
	}
	cfg, err := k.config(folder)
	if err != nil {
		return s, err
	}
	if s.redis, err = s.Server(ctx, cfg); err != nil {
		return s, err
	}
	s.base.URL = s.redis.URL()
	if s.client, err = s.Dial(ctx, s.base.URL); err != nil {
		return s, err
	}
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
	if _, err = s.Server(ctx, redisproc.Config{TCP: true, Args: []string{"--replicaof", host + " " + port}}); err != nil {
		return err
	}
	return await(ctx, pollEvery, "the replica has its master's data", func() (bool, error) {
		fields, err := s.info(ctx, "replication")
		return strings.Contains(fields["slave0"], "state=online"), err
	})
}

func (s *site) close(ctx context.Context) error {
	for _, w := range s.workers {
		w.Kill()
	}
	return errors.Join(s.End(context.WithoutCancel(ctx)), os.RemoveAll(s.folder))
}

func (s *site) written() string { return filepath.Join(s.folder, "written") }
func (s *site) handled() string { return filepath.Join(s.folder, "handled") }

// start runs a job in a process of its own.
func (s *site) start(ctx context.Context, j job, hear func(line []byte)) (*must.Process, error) {
	if s.peer.command != nil {
		cmd, err := s.peer.command(ctx, &j)
		if err != nil {
			return nil, err
		}
		return must.StartProcess(cmd, hear, nil)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), asChild+"="+string(text))
	return must.StartProcess(cmd, hear, nil)
}

// write writes loads in a process of their own, and waits for its end.
func (s *site) write(ctx context.Context, loads ...load) error {
	j := s.base
	j.Records, j.Loads = s.written(), loads
	p, err := s.start(ctx, j, func([]byte) {})
	if err != nil {
		return err
	}
	<-p.Done
	if err := p.Err(); err != nil {
		return fmt.Errorf("the writer of %s: %w", s.peer.Title, err)
	}
	return nil
}

// work starts a worker, and returns when it has printed that it is ready.
func (s *site) work(ctx context.Context) (*must.Process, error) {
	j := s.base
	j.Records = s.handled()
	ready := make(chan struct{}, 1)
	p, err := s.start(ctx, j, func(line []byte) {
		if strings.TrimSpace(string(line)) == readyLine {
			ready <- struct{}{}
		}
	})
	if err != nil {
		return nil, err
	}
	s.workers = append(s.workers, p)
	select {
	case <-ready:
		return p, nil
	case <-p.Done:
		return nil, errors.Join(fmt.Errorf("a worker of %s ended before it was ready", s.peer.Title), p.Err())
	}
}

// finishWithin is how long a worker may take to finish its messages.
const finishWithin = 20 * time.Second

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
		case <-w.Done:
		default:
			return nil
		}
	}
	return errors.Join(fmt.Errorf("all workers of %s ended", s.peer.Title), s.workers[len(s.workers)-1].Err())
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
