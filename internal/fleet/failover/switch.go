package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
)

// ErrNotSwitched means that another member than requested is the master of a partition,
// or becomes it.
var ErrNotSwitched = &millrace.Error{
	Code:    "not_switched",
	Message: "the partition does not have the requested master",
	Hint:    "Look at millrace fleet show: the replica must be up and in step. Then try again.",
}

// switchTries is how often a switch is tried.
const switchTries = 4

// Switch makes a replica the master of a partition whose master serves, and loses
// nothing: the master refuses writes, the replica receives all data, and then it becomes the
// master. An empty addr means any replica that is in step. It stores in the map which member is
// to lead, and agents do it. Help runs one until end is called, so that no other one is
// needed; nil runs one of this package.
func Switch(ctx context.Context, dir *directory.Directory, servers Servers, partition int, addr string, logger *slog.Logger, help Help) error {
	a := New(dir, servers, Config{Logger: logger})
	if help == nil {
		help = a.Help
	}
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
			policy.Timeout = 10 * time.Second // an agent is repairing members
		}
		err = policy.Do(ctx, func(int) (err error) {
			addr, err = a.candidate(ctx, p, addr)
			return err
		})
		if err == nil {
			_, err = a.change(ctx, p, func(p *directory.Partition) { p.Prefer = addr })
		}
		if err != nil {
			return err
		}
		if try == 1 {
			defer help(ctx)()
		}
		// A late write may have put the old master ahead: then it stays the master.
		got, err := a.settled(ctx, m, partition)
		switch {
		case err != nil:
			return a.stranded(ctx, partition, err)
		case got == addr:
			a.joined(ctx, p.Master.Addr, addr)
			return nil
		case try == switchTries:
			return ErrNotSwitched.Errorf("%s is the master of partition %d", got, partition)
		}
	}
}

// stranded adds a hint to the error of a switch that left no master.
func (a *Agent) stranded(ctx context.Context, partition int, err error) error {
	if err == nil {
		return nil
	}
	m, unknown := a.confirm(ctx)
	if unknown != nil || !m.Partitions[partition].ReadOnly {
		return err
	}
	known, ok := errors.AsType[*millrace.Error](err)
	if !ok {
		known = ErrNotSwitched.Wrap(err)
	}
	return known.Errorf("%s; partition %d takes no writes until it has a master", known.Message, partition).
		WithHint("If no agent runs, start one: millrace fleet agent. Look at millrace fleet show for what the partition waits for.")
}

// joined waits up to five seconds until the former master follows the new one.
func (a *Agent) joined(ctx context.Context, former, master string) {
	_ = retry.Policy{Timeout: 5 * time.Second}.Do(ctx, func(int) error { // an agent makes it follow sooner or later
		report, err := a.servers.Probe(ctx, former)
		if err == nil && (report.Follows != master || !report.Linked || report.Copying) {
			err = ErrNotSwitched.Errorf("%s does not follow %s yet", former, master)
		}
		return err
	})
}

// Help runs an agent until end is called.
type Help = func(ctx context.Context) (end func())

// Help runs an agent until end is called: it carries out the tasks that this process stores in the
// map, unless another agent leads. So a command needs no other agent.
func (a *Agent) Help(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = New(a.dir, a.servers, a.cfg).Run(ctx) })
	return func() {
		stop()
		running.Wait()
	}
}

// candidate returns the replica to switch to.
func (a *Agent) candidate(ctx context.Context, p directory.Partition, addr string) (string, error) {
	if addr == p.Master.Addr {
		return addr, ErrNotSwitched.Errorf("%s is the master already", addr)
	}
	why := fmt.Errorf("partition %d has no such replica", p.ID)
	for _, replica := range p.Replicas {
		if addr != "" && replica.Addr != addr {
			continue
		}
		report, err := a.servers.Probe(ctx, replica.Addr)
		switch {
		case err != nil:
			why = err
		case !report.Linked || report.Copying || report.Loading:
			why = fmt.Errorf("%s is not in step", replica.Addr)
		default:
			return replica.Addr, nil
		}
	}
	return addr, ErrNotSwitched.Errorf("no replica of partition %d can be made its master", p.ID).Wrap(why)
}

// settled waits until no member is preferred, and returns the master: for 20 seconds more than the Grace of a map, which an agent
// may have to wait for.
func (a *Agent) settled(ctx context.Context, m *directory.Map, partition int) (addr string, err error) {
	err = retry.Policy{Timeout: m.Grace() + 20*time.Second}.Do(ctx, func(int) error {
		m, err := a.confirm(ctx)
		switch {
		case err != nil:
			return err
		case partition >= len(m.Partitions):
			return ErrNotSwitched.Errorf("the map has no partition %d", partition)
		case m.Partitions[partition].ReadOnly || m.Partitions[partition].Prefer != "":
			return ErrNotSwitched.Errorf("no agent has switched partition %d yet", partition)
		}
		addr = m.Partitions[partition].Master.Addr
		return nil
	})
	return addr, err
}
