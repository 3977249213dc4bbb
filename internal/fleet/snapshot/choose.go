package snapshot

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/retry"
)

// choose returns the member of a partition to save: a replica that has what its master has,
// else the master. Of several it is the one that failed least since the partition was last
// saved.
func (w *work) choose(ctx context.Context, m *directory.Map, p directory.Partition) (directory.Member, error) {
	if p.ReadOnly {
		return directory.Member{}, ErrNoMember.Errorf("partition %d is getting another master", p.ID)
	}
	all := p.Members()
	reports := make([]members.Report, len(all))
	errs := make([]error, len(all))
	var probing sync.WaitGroup
	for i, member := range all {
		if i > 0 && member.Down {
			errs[i] = errDown
			continue
		}
		probing.Go(func() { reports[i], errs[i] = w.pool.probe(ctx, member.Addr) })
	}
	probing.Wait()
	if errs[0] != nil {
		return directory.Member{}, ErrNoMember.Errorf("the master of partition %d, %s, does not answer", p.ID, p.Master.Addr).Wrap(errs[0])
	}
	if err := leads(reports[0], m.Fleet, p); err != nil {
		return directory.Member{}, err
	}
	var fit []directory.Member
	for i, member := range all[1:] {
		if errs[i+1] == nil && follows(reports[i+1], reports[0]) {
			fit = append(fit, member)
		}
	}
	fit = append(fit, p.Master)
	slices.SortStableFunc(fit, func(a, b directory.Member) int {
		return cmp.Compare(w.k.failures.of(p.ID, a.Addr), w.k.failures.of(p.ID, b.Addr))
	})
	return fit[0], nil
}

// errDown means that a member is down by the map.
var errDown = errors.New("it is down")

// leads returns nil for a master that has the partition's data.
func leads(l members.Report, fleet string, p directory.Partition) error {
	if !l.Master || l.Loading || l.Identity != members.Identity(fleet, p.ID) {
		return ErrNoMember.Errorf("%s is not the master of partition %d, or lacks its data", p.Master.Addr, p.ID)
	}
	return nil
}

// follows reports whether a replica has the data of that master, and receives its writes.
func follows(l, master members.Report) bool {
	return !l.Master && l.Linked && !l.Copying && !l.Loading && l.History == master.History && l.Identity == master.Identity
}

// stepLimit is how long a replica may take to receive what its master has.
const stepLimit = 2 * time.Second

// inStep returns a report of a member that has all that its master had at the call, and can
// be saved.
func (w *work) inStep(ctx context.Context, m *directory.Map, p directory.Partition, member directory.Member) (members.Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, ErrNoMember.Errorf("%s is behind its master", member.Addr))
	defer cancel()
	master, err := w.pool.probe(ctx, p.Master.Addr)
	if err != nil {
		return members.Report{}, ErrNoMember.Errorf("the master of partition %d, %s, does not answer", p.ID, p.Master.Addr).Wrap(err)
	}
	if err := leads(master, m.Fleet, p); err != nil {
		return members.Report{}, err
	}
	for try := 1; ; try++ {
		l, err := w.pool.probe(ctx, member.Addr)
		if err == nil && member.Addr == p.Master.Addr {
			err = leads(l, m.Fleet, p)
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

// failures counts the failures of members since their partition was last saved. The zero
// value is ready.
type failures struct {
	mu     sync.Mutex
	counts map[int]map[string]int // by partition and address
}

func (f *failures) of(id int, addr string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[id][addr]
}

func (f *failures) add(id int, addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[int]map[string]int{}
	}
	if f.counts[id] == nil {
		f.counts[id] = map[string]int{}
	}
	f.counts[id][addr]++
}

func (f *failures) forget(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.counts, id)
}
