package failover

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Choice is the data with which a person has a partition go on.
type Choice struct {
	// Addr is the member that is to be the master, whatever its data lacks.
	Addr string

	// Load has that member load a file first, and returns when the member has that replication
	// id. Defaults to nil: the member goes on with the data that it has.
	Load func(ctx context.Context, history string) error
}

// Restore has a partition go on with the data that a person has chosen, even while more than half
// of all members are silent. The choice is in the map until an election has obeyed it, so an
// agent, or this call, can die in between; only a file is not loaded then, and the partition
// waits for another choice. If the file cannot be loaded, or ctx ends meanwhile, the choice is
// withdrawn. Help is that of [Switch].
func Restore(ctx context.Context, dir *directory.Directory, servers Servers, partition int, choice Choice, logger *slog.Logger, help Help) error {
	a := New(dir, servers, Config{Logger: logger})
	if help == nil {
		help = a.Help
	}
	m, err := a.confirm(ctx)
	if err != nil {
		return err
	}
	if partition < 0 || partition >= len(m.Partitions) {
		return ErrNotSwitched.Errorf("there is no partition %d", partition)
	}
	master := m.Partitions[partition].Master.Addr // by which the person decided
	history, what := "", "the data of "+choice.Addr
	if choice.Load != nil {
		id := make([]byte, 20)
		_, _ = rand.Read(id) // never fails
		history, what = hex.EncodeToString(id), "a file, for "+choice.Addr
	}
	for err = errOvertaken; errors.Is(err, errOvertaken); { // by an agent, which marks the partition as read-only
		if m, err = a.confirm(ctx); err != nil {
			return err
		}
		p := m.Partitions[partition]
		switch {
		case p.Master.Addr != master:
			return ErrNotSwitched.Errorf("%s is the master of partition %d by now", p.Master.Addr, partition)
		case !slices.ContainsFunc(voters(p), func(m directory.Member) bool { return m.Addr == choice.Addr }):
			return ErrNotSwitched.Errorf("%s is not a member of partition %d", choice.Addr, partition)
		}
		m, err = a.change(ctx, p, func(p *directory.Partition) {
			p.ReadOnly, p.Prefer, p.Restore, p.RestoreHistory = true, "", choice.Addr, history
			p.Epoch++
		})
	}
	if err != nil {
		return err
	}
	a.note(ctx, m, partition, "a person has chosen "+what)
	defer help(ctx)()
	if choice.Load != nil {
		if err := choice.Load(ctx, history); err != nil {
			a.withdraw(ctx, partition, history)
			return err
		}
	}
	got, err := a.settled(ctx, m, partition)
	if err == nil && got != choice.Addr {
		err = ErrNotSwitched.Errorf("%s is the master of partition %d", got, partition)
	}
	return a.stranded(ctx, partition, err)
}

// withdraw takes the choice of a file back that was not loaded. If that fails, the partition waits
// for another choice.
func (a *Agent) withdraw(ctx context.Context, partition int, history string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	m, err := a.confirm(ctx)
	if err != nil || m.Partitions[partition].RestoreHistory != history {
		return
	}
	m, err = a.change(ctx, m.Partitions[partition], func(p *directory.Partition) {
		if p.RestoreHistory == history {
			p.Restore, p.RestoreHistory = "", ""
		}
	})
	if err == nil {
		a.note(ctx, m, partition, "the file was not loaded, and the choice is withdrawn: the members go on with the data that they have")
	}
}
