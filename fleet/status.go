package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// Status is a fleet at one time, as its members report it.
type Status struct {
	Epoch      int64             `json:"epoch"`
	State      State             `json:"state"` // the worst of the partitions'
	Partitions []PartitionStatus `json:"partitions"`
}

// State is the condition of a partition, or of a fleet.
type State string

// States, from the best to the worst.
const (
	Healthy  State = "healthy"   // all members serve
	Partial  State = "partial"   // the master serves, a replica does not
	ReadOnly State = "read-only" // no master takes writes, but a member can be read
	Out      State = "out"       // no member serves
)

func worse(a, b State) State {
	order := []State{Healthy, Partial, ReadOnly, Out}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// PartitionStatus is a partition at one time.
type PartitionStatus struct {
	ID         int            `json:"id"`
	State      State          `json:"state"`
	Phase      string         `json:"phase"` // look-up, open or closed
	Epoch      int64          `json:"epoch"`
	Generation int            `json:"generation"`
	Share      float64        `json:"share"` // of the ring
	Master     MemberStatus   `json:"master"`
	Replicas   []MemberStatus `json:"replicas"`
	Memory     int64          `json:"memory_bytes"`     // of the master
	MaxMemory  int64          `json:"max_memory_bytes"` // of the master, 0 for no limit
	Tags       int64          `json:"tags"`
	Busy       float64        `json:"busy"` // the share of one CPU that the master has used since it started
}

// MemberStatus is a member at one time.
type MemberStatus struct {
	Addr  string      `json:"addr"`
	Node  string      `json:"node"`
	PID   int         `json:"pid"` // 0 if it does not answer
	State MemberState `json:"state"`
	Lag   int64       `json:"lag_bytes"` // how far behind its master, 0 for a master
	Error string      `json:"error,omitempty"`
}

// MemberState is the condition of a member.
type MemberState string

// States of a member.
const (
	Up      MemberState = "up"       // it serves
	Behind  MemberState = "behind"   // it has a copy, and its master sends it nothing
	Copying MemberState = "copying"  // it has no copy yet
	Fenced  MemberState = "fenced"   // it is to be master and takes no writes, or it was restarted and serves nothing until an agent has examined it
	Loading MemberState = "loading"  // it reads its data from disk
	Unknown MemberState = "stranger" // it is not the server that the map names, or lost its data
	Down    MemberState = "down"     // it does not answer
)

// statusTimeout is how long a member has to answer for its status.
const statusTimeout = 2 * time.Second

// Status asks all members for their state. A member that does not answer within 2
// seconds is down. While the directory does not confirm the map, no partition is
// better than read-only.
func (f *Fleet) Status(ctx context.Context) (Status, error) {
	// The newest map counts; if the directory does not answer, the one at hand.
	_ = f.refresh(ctx)
	v := f.view.Load()
	confirmed := v.fresh(f.now())
	status := Status{Epoch: v.m.Epoch, State: Healthy, Partitions: make([]PartitionStatus, len(v.partitions))}
	shares := v.ring.Shares()
	var asking sync.WaitGroup
	for i, p := range v.partitions {
		asking.Go(func() { status.Partitions[i] = p.status(ctx, shares[i], confirmed) })
	}
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return Status{}, err
	}
	for _, p := range status.Partitions {
		status.State = worse(status.State, p.State)
	}
	return status, nil
}

// status asks the members of one partition. By an unconfirmed map no client writes.
func (p *partition) status(ctx context.Context, share float64, confirmed bool) PartitionStatus {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answers := make([]answer, len(p.members))
	var asking sync.WaitGroup
	for i, m := range p.members {
		asking.Go(func() { answers[i] = p.examine(ctx, m) })
	}
	asking.Wait()

	master := answers[0]
	s := PartitionStatus{
		ID: p.ID, Phase: p.Phase, Epoch: p.Epoch, Generation: p.Generation, Share: share,
		Master: master.status(p.Master, true, 0), Replicas: []MemberStatus{},
		Memory: master.Memory, MaxMemory: master.MaxMemory, Tags: master.Tags, Busy: master.Busy,
	}
	readable, whole := s.Master.State == Fenced && !master.Unread, true
	writable := s.Master.State == Up && !p.ReadOnly && confirmed
	for i, replica := range p.Replicas {
		r := answers[i+1].status(replica, false, master.End)
		s.Replicas = append(s.Replicas, r)
		readable = readable || r.State == Up || r.State == Behind
		whole = whole && r.State == Up
	}
	switch {
	case writable && whole:
		s.State = Healthy
	case writable:
		s.State = Partial
	case s.Master.State == Up, readable:
		s.State = ReadOnly
	default:
		s.State = Out
	}
	return s
}

// answer is a member's report.
type answer struct {
	members.Report

	known bool // whether it has the expected identity
	err   error
}

func (p *partition) examine(ctx context.Context, m *member) (a answer) {
	c, err := m.open(ctx)
	if err == nil {
		a.Report, err = members.Examine(ctx, c)
	}
	if errors.Is(err, errRestarted) { // no client uses it, but it can report its state
		pool := members.New(p.f.cfg.Option, memberTimeout)
		defer pool.Close()
		a.Report, err = members.Ask(ctx, pool, m.addr, members.Examine)
		a.Unread = a.Unread || err == nil
	}
	a.known, a.err = a.Identity == p.identity(), err
	return a
}

// status is the status that follows from an answer of a member that is a master, or a replica
// of a master at an offset.
func (a *answer) status(m directory.Member, master bool, offset int64) MemberStatus {
	s := MemberStatus{Addr: m.Addr, Node: m.Node, PID: a.PID}
	switch {
	case a.err != nil:
		s.State, s.Error = Down, a.err.Error()
	case a.Loading:
		s.State = Loading
	case !a.Master && !master && a.Copying:
		s.State = Copying
	case !a.known && !a.Unread:
		s.State = Unknown
	case master && !a.Master, a.Unread:
		s.State = Fenced
	case master, !a.Master && a.Linked:
		s.State = Up
	default:
		s.State = Behind
	}
	if !master && (s.State == Up || s.State == Behind) && !a.Master {
		s.Lag = max(0, offset-a.Offset)
	}
	return s
}
