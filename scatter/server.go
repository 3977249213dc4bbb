package scatter

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/policy"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

type server struct {
	Server

	link  atomic.Pointer[link]  // nil until the first call
	clock atomic.Pointer[clock] // nil until its time is known

	dialing sync.Mutex
	closed  bool
}

type link struct {
	script.Runner
	policy *policy.Watch
}

// on calls one server within the timeout. The error names the server.
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

// each calls all servers at the same time. Both lists are in the order of the servers.
func each[T any](s *Scatter, call func(*server) (T, error)) (results []T, failed []error) {
	results, failed = make([]T, len(s.servers)), make([]error, len(s.servers))
	var calls sync.WaitGroup
	for i, srv := range s.servers {
		calls.Go(func() { results[i], failed[i] = call(srv) })
	}
	calls.Wait()
	return results, failed
}

// connected returns the connection, which the first caller makes. A caller whose context ends
// does not wait for it.
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
	if srv.closed {
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
			// Retries end a little before the timeout, so that the error has the cause.
			Retry: retry.Policy{Timeout: s.cfg.Timeout * 9 / 10}, Errors: refusals,
		},
		policy: policy.New(client, policy.Config{
			One: "a counter", Many: "counters", Volatile: true,
			Allow: s.cfg.AllowEvictable, Logger: s.cfg.Logger,
		}),
	}
	srv.link.Store(l)
	return l, nil
}

// close forgets the link, too: a client of rueidis that once could not connect does so
// again when it is called after its Close.
func (srv *server) close() {
	srv.dialing.Lock()
	defer srv.dialing.Unlock()
	srv.closed = true
	if l := srv.link.Swap(nil); l != nil && srv.Client == nil {
		l.Client.Close()
	}
}

type clock struct {
	millis  int64     // Unix milliseconds
	heardAt time.Time // by this process's clock
	wall    time.Time // the same by its wall clock alone
}

// clockTTL is how long a server's time is extrapolated.
const clockTTL = time.Minute

// heard stores the server's time as of now.
func (srv *server) heard(millis int64) {
	now := time.Now()
	srv.clock.Store(&clock{millis, now, now.Round(0)})
}

// now returns the server's time in Unix milliseconds, or an earlier one. It asks the server if
// the stored time is old by either clock: only the wall clock runs while the process is
// suspended, and only the monotonic clock is right when the wall clock is set.
func (srv *server) now(ctx context.Context, s *Scatter, l *link) (int64, error) {
	c, now := srv.clock.Load(), time.Now()
	if c != nil && now.Sub(c.heardAt) < clockTTL && now.Round(0).Sub(c.wall) < clockTTL {
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
