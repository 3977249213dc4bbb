package fleet

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/members"
	"github.com/millrace/millrace/internal/retry"
)

// Status is a fleet at one time, as its members say.
type Status struct {
	Epoch      int64             `json:"epoch"`
	State      directory.State   `json:"state"` // the worst of the partitions'
	Partitions []PartitionStatus `json:"partitions"`
}

// PartitionStatus is a partition at one time.
type PartitionStatus struct {
	ID         int             `json:"id"`
	State      directory.State `json:"state"`
	Phase      directory.Phase `json:"phase"`
	Epoch      int64           `json:"epoch"`
	Generation int             `json:"generation"`
	Share      float64         `json:"share"` // of the ring
	Master     MemberStatus    `json:"master"`
	Replicas   []MemberStatus  `json:"replicas"`
	Memory     int64           `json:"memory_bytes"`     // of the master
	MaxMemory  int64           `json:"max_memory_bytes"` // of the master, 0 for no limit
	Tags       int64           `json:"tags"`
	Busy       float64         `json:"busy"` // the part of its one thread that the master has used since it started
}

// MemberStatus is a member at one time.
type MemberStatus struct {
	Addr  string      `json:"addr"`
	Node  string      `json:"node"`
	PID   int         `json:"pid"` // 0 for one that does not answer
	State MemberState `json:"state"`
	Lag   int64       `json:"lag_bytes"` // how far behind its master, 0 for a master
	Error string      `json:"error,omitempty"`
}

// MemberState says what a member can do.
type MemberState string

// States of a member.
const (
	Up       MemberState = "up"       // it serves
	Behind   MemberState = "behind"   // it has a copy, and is not given what the master does
	Copying  MemberState = "copying"  // it has none yet
	Fenced   MemberState = "fenced"   // it is to be the master, and takes no writes; or it was started again, and serves nothing before somebody has looked at it
	Loading  MemberState = "loading"  // it reads its data from disk
	Strange  MemberState = "stranger" // it is another server than expected, or lost its data
	Down     MemberState = "down"     // it does not answer
	patience             = 2 * time.Second
)

// Show asks all members how they are. One that does not answer within 2 seconds is
// down. While the directory does not confirm the map, all is read-only at best.
func (f *Fleet) Show(ctx context.Context) (Status, error) {
	// An operator wants the map of now; if there is none, that at hand.
	_ = f.refresh(ctx)
	v := f.view.Load()
	confirmed := v.fresh(f.now())
	status := Status{Epoch: v.m.Epoch, State: directory.Full, Partitions: make([]PartitionStatus, len(v.partitions))}
	shares := v.ring.Shares()
	var asking sync.WaitGroup
	for i, p := range v.partitions {
		asking.Go(func() { status.Partitions[i] = p.show(ctx, v.m.Partitions[i], shares[i], confirmed) })
	}
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return Status{}, err
	}
	for _, p := range status.Partitions {
		status.State = status.State.Worse(p.State)
	}
	return status, nil
}

// show asks the members of one partition. Nobody writes by a map that is not confirmed.
func (p *partition) show(ctx context.Context, d directory.Partition, share float64, confirmed bool) PartitionStatus {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := make([]answer, len(p.members))
	var asking sync.WaitGroup
	for i, m := range p.members {
		asking.Go(func() { answers[i] = p.inquire(ctx, m) })
	}
	asking.Wait()

	master := answers[0]
	s := PartitionStatus{
		ID: p.id, Phase: p.phase, Epoch: p.epoch, Generation: d.Generation, Share: share,
		Master: master.status(d.Master, true, 0), Replicas: []MemberStatus{},
		Memory: members.Number(master.info, "used_memory"), MaxMemory: members.Number(master.info, "maxmemory"), Tags: master.tags,
	}
	if lived := members.Number(master.info, "uptime_in_seconds"); lived > 0 {
		used, _ := strconv.ParseFloat(members.Field(master.info, "used_cpu_user"), 64)
		system, _ := strconv.ParseFloat(members.Field(master.info, "used_cpu_sys"), 64)
		s.Busy = (used + system) / float64(lived)
	}
	readable, whole := s.Master.State == Fenced && !master.unread, true
	writable := s.Master.State == Up && !p.readOnly && confirmed
	for i, replica := range d.Replicas {
		r := answers[i+1].status(replica, false, members.Number(master.info, "master_repl_offset"))
		s.Replicas = append(s.Replicas, r)
		readable = readable || r.State == Up || r.State == Behind
		whole = whole && r.State == Up
	}
	switch {
	case writable && whole:
		s.State = directory.Full
	case writable:
		s.State = directory.Partial
	case s.Master.State == Up, readable:
		s.State = directory.ReadOnly
	default:
		s.State = directory.Out
	}
	return s
}

// answer is what a member said of itself.
type answer struct {
	info     string
	identity string
	tags     int64
	expected string // the identity that it should have
	unread   bool   // it may not be read: it was started again, and nobody has looked at it
	err      error
}

func (p *partition) inquire(ctx context.Context, m *member) answer {
	a := answer{expected: p.identity()}
	c, err := m.open(ctx)
	if err != nil {
		a.err = err
		return a
	}
	replies := c.DoMulti(ctx, c.B().Info().Build(), c.B().Mget().Key(identityKey, tagsKey(baseKey)).Build())
	if a.info, a.err = replies[0].ToString(); a.err != nil {
		return a
	}
	values, err := replies[1].ToArray()
	a.unread = retry.Code(err, "MASTERDOWN")
	if err == nil {
		a.identity, _ = values[0].ToString()
		text, _ := values[1].ToString()
		a.tags, _ = strconv.ParseInt(text, 10, 64)
	}
	return a
}

// status says what an answer means for a member that is a master, or a replica of
// one that is at offset.
func (a *answer) status(m directory.Member, master bool, offset int64) MemberStatus {
	s := MemberStatus{Addr: m.Addr, Node: m.Node, PID: int(members.Number(a.info, "process_id"))}
	linked := members.Field(a.info, "master_link_status") == "up"
	replica := strings.HasPrefix(members.Field(a.info, "role"), "slave")
	switch {
	case a.err != nil:
		s.State, s.Error = Down, a.err.Error()
	case members.Field(a.info, "loading") == "1":
		s.State = Loading
	case replica && !master && members.Field(a.info, "master_sync_in_progress") == "1":
		s.State = Copying
	case a.identity != a.expected && !a.unread:
		s.State = Strange
	case master && replica, a.unread:
		s.State = Fenced
	case master:
		s.State = Up
	case replica && linked:
		s.State = Up
		s.Lag = max(0, offset-members.Number(a.info, "slave_repl_offset"))
	default:
		s.State = Behind
		s.Lag = max(0, offset-members.Number(a.info, "slave_repl_offset"))
	}
	return s
}
