package scatter

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/policy"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// server is one of the servers, and what this process knows of it.
type server struct {
	Server

	link  atomic.Pointer[link]  // nil until something is sent there
	clock atomic.Pointer[clock] // nil until its time is known

	dialing sync.Mutex
	ended   bool // nothing is sent any more
}

// link is the way to a server.
type link struct {
	script.Runner
	policy *policy.Watch
}

// on calls one server, which is asked for as long as the timeout says. The error says
// which server it was.
func (s *Scatter) on(ctx context.Context, srv *server, call func(context.Context, *link) (*script.Reply, error)) (*script.Reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, errSilent)
	defer cancel()
	l, err := srv.connected(ctx, s)
	if err == nil {
		var reply *script.Reply
		if reply, err = call(ctx, l); err == nil {
			return reply, nil
		}
	}
	return nil, fmt.Errorf("server %s: %w", srv.Name, err)
}

// each asks all servers at the same time. The lists are in their order; of a server that
// failed there is an error.
func each[T any](s *Scatter, ask func(*server) (T, error)) (answers []T, failed []error) {
	answers, failed = make([]T, len(s.servers)), make([]error, len(s.servers))
	var asking sync.WaitGroup
	for i, srv := range s.servers {
		asking.Go(func() { answers[i], failed[i] = ask(srv) })
	}
	asking.Wait()
	return answers, failed
}

// connected returns the way to the server, and connects if nobody has. A caller whose
// context ends does not wait for the connection.
func (srv *server) connected(ctx context.Context, s *Scatter) (*link, error) {
	if l := srv.link.Load(); l != nil {
		return l, nil
	}
	return script.Prompt(ctx, func(context.Context) (*link, error) { return srv.connect(s) })
}

func (srv *server) connect(s *Scatter) (*link, error) {
	srv.dialing.Lock()
	defer srv.dialing.Unlock()
	if l := srv.link.Load(); l != nil {
		return l, nil
	}
	if srv.ended {
		return nil, rueidis.ErrClosing
	}
	client := srv.Client
	if client == nil {
		option := srv.Option
		option.ForceSingleClient = true
		option.DisableCache = true
		option.DisableRetry = true
		if option.ClientSetInfo == nil {
			option.ClientSetInfo = rueidis.DisableClientSetInfo // the users of docs/SECURITY.md may not
		}
		option.Dialer.Timeout = s.cfg.Timeout
		var err error
		if client, err = rueidis.NewClient(option); client == nil {
			return nil, err
		} // a client that could not connect tries again with the next call
	}
	l := &link{
		Runner: script.Runner{
			Client: client, Scripts: s.scripts, Hooks: append([]millrace.Hook{flightHook{}}, s.cfg.Hooks...),
			// Tries end a little before the time does, so that the error says what is wrong.
			Retry: retry.Policy{Patience: s.cfg.Timeout * 9 / 10}, Errors: refusals,
		},
		policy: policy.New(client, policy.Config{
			One: "a counter", Many: "counters", Volatile: true,
			Allow: s.cfg.AllowEvictable, Logger: s.cfg.Logger,
		}),
	}
	srv.link.Store(l)
	return l, nil
}

// close forgets the way, too: a client of rueidis that once could not connect does so
// again when it is called after its Close.
func (srv *server) close() {
	srv.dialing.Lock()
	defer srv.dialing.Unlock()
	srv.ended = true
	if l := srv.link.Swap(nil); l != nil && srv.Client == nil {
		l.Client.Close()
	}
}

// clock is a time that a server has told.
type clock struct {
	millis  int64     // the server's time, in Unix milliseconds
	heardAt time.Time // by this process's clock
	wall    time.Time // the same by its wall clock alone
}

// clockFresh is for how long a server's time is counted on from what it told.
const clockFresh = time.Minute

// heard notes a time that the server has told just now.
func (srv *server) heard(millis int64) {
	now := time.Now()
	srv.clock.Store(&clock{millis, now, now.Round(0)})
}

// now returns the server's time in Unix milliseconds, or an earlier one. It asks if the
// server has told none of late: a process that was suspended sees that by its wall clock
// only, and one whose wall clock was set by the other one.
func (srv *server) now(ctx context.Context, s *Scatter, l *link) (int64, error) {
	c, now := srv.clock.Load(), time.Now()
	if c != nil && now.Sub(c.heardAt) < clockFresh && now.Round(0).Sub(c.wall) < clockFresh {
		return c.millis + now.Sub(c.heardAt).Milliseconds(), nil
	}
	reply, err := l.Run(ctx, "left", s.base)
	if err != nil {
		return 0, err
	}
	millis := reply.Int()
	srv.heard(millis)
	return millis, reply.Err()
}
