package membership

import (
	"strconv"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// AddReplica gives a partition one more replica.
type AddReplica struct {
	Partition int
	Member    directory.Member
}

func (r AddReplica) words() []string {
	return append([]string{"add", strconv.Itoa(r.Partition)}, addrs([]directory.Member{r.Member})...)
}

func (r AddReplica) plan(d *draft) error {
	p, err := d.partition(r.Partition)
	if err != nil || directory.Find(p.Members(), r.Member.Addr) != nil {
		return err
	}
	if err := d.new(r.Member); err != nil {
		return err
	}
	d.tasks[p.ID] = directory.Task{Add: &r.Member}
	return apart(p.ID, p.Members(), r.Member)
}

// RemoveReplica takes a member out of a partition. If that is the master, another member
// leads first.
type RemoveReplica struct {
	Partition int
	Addr      string

	// Force allows fewer replicas than writers may wait for, but not the last copy.
	Force bool
}

func (r RemoveReplica) words() []string {
	return []string{"remove", strconv.Itoa(r.Partition), r.Addr}
}

func (r RemoveReplica) plan(d *draft) error {
	p, err := d.partition(r.Partition)
	switch {
	case err != nil:
		return err
	case directory.Find(p.Members(), r.Addr) == nil:
		return notFound("%s is not a member of partition %d: it has left, or the address is wrong", r.Addr, p.ID)
	}
	if err := d.spare(p, r.Addr, r.Force); err != nil {
		return err
	}
	d.tasks[p.ID] = directory.Task{Remove: r.Addr}
	if r.Addr == p.Master.Addr {
		d.masters(func(id int) bool { return id == p.ID })
	}
	return nil
}

// MoveReplica replaces a member of a partition by a new server, which leads if that did.
type MoveReplica struct {
	Partition int
	From      string
	To        directory.Member
}

func (r MoveReplica) words() []string {
	return append([]string{"move", strconv.Itoa(r.Partition), r.From}, addrs([]directory.Member{r.To})...)
}

func (r MoveReplica) plan(d *draft) error {
	p, err := d.partition(r.Partition)
	if err != nil {
		return err
	}
	switch from, to := directory.Find(p.Members(), r.From) != nil, directory.Find(p.Members(), r.To.Addr) != nil; {
	case !from && to:
		return nil
	case !from:
		return notFound("%s is not a member of partition %d", r.From, p.ID)
	case to:
		return millrace.ErrBadArgument.Errorf("%s is a member of partition %d already", r.To.Addr, p.ID).
			WithHint("To have fewer members use millrace fleet replica rm.")
	}
	if err := d.new(r.To); err != nil {
		return err
	}
	if err := apart(p.ID, without(p, r.From), r.To); err != nil {
		return err
	}
	task := directory.Task{Add: &r.To, Remove: r.From}
	if r.From == p.Master.Addr {
		task.Master = r.To.Addr
	}
	d.tasks[p.ID] = task
	return nil
}
