package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
)

// ErrNotSwitched means that a partition has not got the master that was asked for.
// It has one, or gets one by itself.
var ErrNotSwitched = &millrace.Error{
	Code:    "not_switched",
	Message: "the partition has not got the master that was asked for",
	Hint:    "Look at millrace fleet show: the replica must be up and in step. Then try again.",
}

// Switch makes a replica the master of a partition whose master serves, and loses
// nothing: writes are held up for a Grace, the replica gets what it lacks, and only
// then does it lead. An empty addr means any replica that is in step. Agents that
// run help, and need not.
func Switch(ctx context.Context, desk directory.Desk, servers Servers, partition int, addr string, logger *slog.Logger) error {
	a := New(desk, servers, Config{Logger: logger})
	m, err := a.confirm(ctx)
	if err != nil {
		return err
	}
	if partition < 0 || partition >= len(m.Partitions) {
		return ErrNotSwitched.Saying("there is no partition %d", partition)
	}
	p := m.Partitions[partition]
	if addr, err = a.candidate(ctx, p, addr); err != nil {
		return err
	}
	s := &patient{a: a, id: partition}
	if err := s.replace(ctx, p, addr); err != nil && !errors.Is(err, errOvertaken) {
		return err
	}
	// Whoever was faster, it is over when the map says so.
	return retry.Policy{Patience: 10*time.Second + m.Settings.Grace()}.Do(ctx, func(int) error {
		now, err := a.confirm(ctx)
		switch {
		case err != nil:
			return err
		case now.Partitions[partition].ReadOnly:
			return ErrNotSwitched.Saying("partition %d is still read-only", partition)
		case now.Partitions[partition].Master.Addr != addr:
			return ErrNotSwitched.Saying("%s is the master of partition %d", now.Partitions[partition].Master.Addr, partition)
		}
		return nil
	})
}

// candidate returns the replica to switch to.
func (a *Agent) candidate(ctx context.Context, p directory.Partition, addr string) (string, error) {
	if addr == p.Master.Addr {
		return "", ErrNotSwitched.Saying("%s is the master already", addr)
	}
	var why error
	for _, r := range p.Replicas {
		if addr != "" && r.Addr != addr {
			continue
		}
		l, err := a.servers.Look(ctx, r.Addr)
		switch {
		case err != nil:
			why = err
		case !l.Linked || l.Copying || l.Loading:
			why = fmt.Errorf("%s is not in step", r.Addr)
		default:
			return r.Addr, nil
		}
	}
	if why == nil {
		why = fmt.Errorf("partition %d has no such replica", p.ID)
	}
	return "", ErrNotSwitched.Saying("no replica of partition %d can be made its master", p.ID).With(why)
}
