package grow

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/retry"
)

// DefaultRestartTimeout is how long a server may take to come back.
const DefaultRestartTimeout = 30 * time.Second

// fenceHint explains how to set up a boot fence.
const fenceHint = "Have --replicaof 127.0.0.1 1 --replica-serve-stale-data no on its command line (systemd: ExecStart), start it, and repeat the command. " +
	"In its file alone that does not last: CONFIG REWRITE removes it when the server is a master."

// prove restarts all servers once, and returns ErrUnfit unless each comes back fenced: a
// later crash must not make a server a master that lacks data.
func (c *Config) prove(ctx context.Context, servers []*server) error {
	timeout := c.RestartTimeout
	switch {
	case timeout < 0:
		return nil
	case timeout == 0:
		timeout = DefaultRestartTimeout
	}
	c.Report("restarting each server once: it must come back with its boot fence within %v", timeout)
	errs := make([]error, len(servers))
	var proving sync.WaitGroup
	for i, s := range servers {
		proving.Go(func() { errs[i] = s.prove(ctx, timeout) })
	}
	proving.Wait()
	err := errors.Join(errs...)
	if first, ok := errors.AsType[*millrace.Error](err); ok {
		return first.Wrap(nil).Errorf("%s", readable.Line(err))
	}
	return err
}

// prove makes the server a master, lets it write that into its file if it has one, as an
// operator may do some day, and restarts it.
func (s *server) prove(ctx context.Context, timeout time.Duration) error {
	c := s.client
	if err := c.Do(ctx, c.B().Replicaof().No().One().Build()).Error(); err != nil {
		return s.failed(ctx, err)
	}
	_ = c.Do(ctx, c.B().ConfigRewrite().Build()).Error() // fails without a file, and where the file is not writable
	end := c.Do(ctx, c.B().Shutdown().Nosave().Build())
	if err, answered := rueidis.IsRedisErr(end.Error()); answered {
		return s.failed(ctx, err)
	}
	fenced, err := s.isBack(ctx, timeout)
	if err != nil {
		return err
	}
	if fenced {
		s.Boot = directory.BootFenced
		return nil
	}
	// The server and its file stay as they were.
	_ = members.Fence(ctx, c)
	_ = c.Do(ctx, c.B().ConfigRewrite().Build()).Error()
	return s.unfit(fenceHint, "came back from a restart without its boot fence")
}

// isBack waits until the server has started again, and reports whether it is fenced.
func (s *server) isBack(ctx context.Context, timeout time.Duration) (fenced bool, err error) {
	late := s.unfit("Run it under a supervisor that starts it again however it ends (systemd: Restart=always), start it, and repeat the command. "+
		"With --skip-restart boot fences are not checked.", "was shut down to check its boot fence, and is not back after %v", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	c := s.client
	for {
		replies := c.DoMulti(ctx, c.B().Info().Build(), c.B().ConfigGet().Parameter("replica-serve-stale-data").Build())
		text, _ := replies[0].ToString()
		if info := members.ParseInfo(text); info.Run != "" && info.Run != s.Run && !info.Loading {
			stale, err := replies[1].AsStrMap()
			if err != nil {
				return false, s.failed(ctx, err)
			}
			fence := net.JoinHostPort(members.FenceHost, members.FencePort)
			return !info.Master && info.Follows == fence && stale["replica-serve-stale-data"] == "no", nil
		}
		if !retry.Sleep(ctx, 20*time.Millisecond) {
			return false, context.Cause(ctx)
		}
	}
}
