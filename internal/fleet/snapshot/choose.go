package snapshot

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
)

// choose returns the member of a partition to save: a replica that has all data of its master,
// else the master. If the last attempt failed, the members after that one come first.
func (w *work) choose(ctx context.Context, s view, p directory.Partition) (directory.Member, error) {
	if p.ReadOnly {
		return directory.Member{}, ErrNoMember.Errorf("partition %d is getting another master", p.ID)
	}
	all := append(slices.Clone(p.Replicas), p.Master)
	if at := slices.IndexFunc(all, func(m directory.Member) bool { return m.Addr == s.Partitions[p.ID].Failed.Addr }); at >= 0 {
		all = slices.Concat(all[at+1:], all[:at+1])
	}
	all = slices.DeleteFunc(all, func(m directory.Member) bool { return m.Down && m.Addr != p.Master.Addr })
	reports, errs := w.pool.probeAll(ctx, all)
	at := slices.IndexFunc(all, func(m directory.Member) bool { return m.Addr == p.Master.Addr })
	if err := leads(reports[at], errs[at], s.m.Fleet, p); err != nil {
		return directory.Member{}, err
	}
	i := 0
	for i != at && (errs[i] != nil || !follows(reports[i], reports[at])) {
		i++
	}
	return all[i], nil
}

// leads returns nil if the master of a partition has answered and has its data.
func leads(l members.Report, err error, fleet string, p directory.Partition) error {
	switch {
	case err != nil:
		return ErrNoMember.Errorf("the master of partition %d, %s, does not answer", p.ID, p.Master.Addr).Wrap(err)
	case !l.Master || l.Loading || l.Identity != members.Identity(fleet, p.ID):
		return ErrNoMember.Errorf("%s is not the master of partition %d, or lacks its data", p.Master.Addr, p.ID)
	}
	return nil
}

// follows reports whether a replica has the data of that master, and receives its writes.
func follows(l, master members.Report) bool {
	return !l.Master && l.Linked && !l.Copying && !l.Loading && l.History == master.History && l.Identity == master.Identity
}

// stepLimit is how long a replica may take to catch up with its master.
const stepLimit = 2 * time.Second

// inStep returns a report of a member that has all that its master had at the call, and can
// be saved.
func (w *work) inStep(ctx context.Context, m *directory.Map, p directory.Partition, member directory.Member) (members.Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, ErrNoMember.Errorf("%s is behind its master", member.Addr))
	defer cancel()
	master, err := w.pool.probe(ctx, p.Master.Addr)
	if err := leads(master, err, m.Fleet, p); err != nil {
		return members.Report{}, err
	}
	for try := 1; ; try++ {
		l, err := w.pool.probe(ctx, member.Addr)
		if member.Addr == p.Master.Addr {
			err = leads(l, err, m.Fleet, p)
		} else if err == nil && !follows(l, master) {
			err = ErrNoMember.Errorf("%s is not in step with its master", member.Addr)
		}
		switch {
		case err != nil:
			return members.Report{}, err
		case l.Offset >= master.Offset && l.Clock.Unix() > l.LastSave:
			// A save from now on has another time than the last one.
			return l, nil
		}
		if !retry.Sleep(ctx, pace.Pause(try)) {
			return members.Report{}, context.Cause(ctx)
		}
	}
}

// pace is how often a member is asked for its progress.
var pace = retry.Policy{Base: 10 * time.Millisecond, Max: 250 * time.Millisecond}
