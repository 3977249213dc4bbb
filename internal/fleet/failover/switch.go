package failover

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
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
func Switch(ctx context.Context, dir directory.Directory, servers Servers, partition int, addr string, logger *slog.Logger) error {
	a := New(dir, servers, Config{Logger: logger})
	for try := 1; ; try++ {
		m, err := a.confirm(ctx)
		if err != nil {
			return err
		}
		if partition < 0 || partition >= len(m.Partitions) {
			return ErrNotSwitched.Errorf("there is no partition %d", partition)
		}
		p := m.Partitions[partition]
		policy := retry.Policy{Timeout: time.Nanosecond}
		if try > 1 {
			policy.Timeout = 10 * time.Second // an agent is just repairing members
		}
		err = policy.Do(ctx, func(int) (err error) {
			addr, err = a.candidate(ctx, p, addr)
			return err
		})
		if err != nil {
			return err
		}
		if err := a.instead(ctx, m, p, addr); err != nil {
			return err
		}
		// Something may have moved the old master on in the last moment, which then stays
		// it.
		got, err := a.settled(ctx, partition)
		switch {
		case err != nil:
			return err
		case got == addr:
			return nil
		case try == switchTries:
			return ErrNotSwitched.Errorf("%s is the master of partition %d", got, partition)
		}
	}
}

// instead has a partition's master replaced: by the agent that leads, or if none
// does by itself, leading meanwhile.
func (a *Agent) instead(ctx context.Context, m *directory.Map, p directory.Partition, addr string) error {
	leads, _, err := a.dir.Lead(ctx, a.name, m.Settings.Grace()+10*time.Second)
	if err != nil {
		return err
	}
	if !leads {
		_, err := a.change(ctx, p.ID, func(now directory.Partition) bool { return now.Epoch == p.Epoch }, func(p *directory.Partition) {
			p.ReadOnly = true
			p.Epoch++
			p.Prefer = addr
		})
		return err
	}
	err = (&reconciler{a: a, id: p.ID}).replace(ctx, p, addr)
	a.resign(ctx, time.Second)
	return err
}

// switchTries is how often a switch is tried.
const switchTries = 4

// settled waits until a partition is not read-only, and returns its master.
func (a *Agent) settled(ctx context.Context, partition int) (addr string, err error) {
	err = retry.Policy{Timeout: 20 * time.Second}.Do(ctx, func(int) error {
		m, err := a.confirm(ctx)
		switch {
		case err != nil:
			return err
		case m.Partitions[partition].ReadOnly:
			return ErrNotSwitched.Errorf("partition %d is still read-only", partition)
		}
		addr = m.Partitions[partition].Master.Addr
		return nil
	})
	return addr, err
}

// candidate returns the replica to switch to.
func (a *Agent) candidate(ctx context.Context, p directory.Partition, addr string) (string, error) {
	if addr == p.Master.Addr {
		return addr, ErrNotSwitched.Errorf("%s is the master already", addr)
	}
	var why error
	for _, r := range p.Replicas {
		if addr != "" && r.Addr != addr {
			continue
		}
		l, err := a.servers.Probe(ctx, r.Addr)
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
	return addr, ErrNotSwitched.Errorf("no replica of partition %d can be made its master", p.ID).Wrap(why)
}
