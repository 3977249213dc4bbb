package directory

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ring"
)

// Version is the wire version of the map.
const Version = 1

// Map is the state that all users of a fleet must agree on. A change replaces the whole map.
// It is safe for concurrent use.
type Map struct {
	Version    int         `json:"version"`
	Fleet      string      `json:"fleet"` // names the fleet for ever: its members store it
	Epoch      int64       `json:"epoch"` // grows with every change
	Floor      int64       `json:"floor"` // a map with a lower epoch must place no tags; members learn it before the map is stored
	Settings   Settings    `json:"settings"`
	Partitions []Partition `json:"partitions"` // by number
	Points     Points      `json:"points"`     // of the partitions on the ring

	// Spares are empty servers that replace members which are dead for Settings.ReplaceAfter.
	Spares []Member `json:"spares,omitempty"`

	// Parent is the map from which this one was made. Zero if that is not known, or if an
	// operator has chosen this map.
	Parent ID `json:"parent,omitzero"`
}

// ID tells maps apart. Two maps can have one epoch if the directory lost the first one.
type ID struct {
	Epoch  int64  `json:"epoch"`
	Digest string `json:"digest"` // of all that the map says, except for its parent
}

// Phase says whether a partition takes new tags.
type Phase = string

// Phases of a partition.
const (
	LookUp Phase = "look-up" // it was just added: clients look for tags there, and place none
	Open   Phase = "open"    // it takes new tags
	Closed Phase = "closed"  // it keeps its tags and forwards new ones
)

// Partition is a master and its replicas.
type Partition struct {
	ID         int   `json:"id"`         // its number on the ring, from 0 on
	Epoch      int64 `json:"epoch"`      // of the map that named its master, or the same one again after an election
	Generation int   `json:"generation"` // of its points on the ring
	Phase      Phase `json:"phase"`
	ReadOnly   bool  `json:"read_only,omitempty"` // no master takes writes for now

	// History is the replication id of the master, empty if it is not known yet.
	// Offsets of members are comparable only within one history.
	History string `json:"history,omitempty"`

	// Before is the history from which the master continued. Members that do not follow
	// it yet are still in that one.
	Before string `json:"before,omitempty"`

	// Floor is the highest epoch that the master has stored. Members that store a higher
	// one were promoted since.
	Floor int64 `json:"floor,omitempty"`

	// Stale says that the directory has lost newer maps: the master may be a former one, and
	// counts in elections like a replica.
	Stale bool `json:"stale,omitempty"`

	// Prefer is the member to elect if several have equally much data.
	Prefer string `json:"prefer,omitempty"`

	// Restore is the address of the member that a person has chosen to go on from, whatever its
	// data lacks. The next election obeys it and clears it. Empty for none.
	Restore string `json:"restore,omitempty"`

	// RestoreHistory is the replication id that the chosen member has when it has loaded the
	// file that a person has chosen. The election waits for that. Empty if the member goes on
	// with the data that it has.
	RestoreHistory string `json:"restore_history,omitempty"`

	Master   Member   `json:"master"`
	Replicas []Member `json:"replicas,omitempty"`

	// Task is a change of the members that has begun and is not done, nil for none.
	Task *Task `json:"task,omitempty"`

	// Leaving is a former replica on which clients with older maps may still rely. Agents
	// count it in elections, until no client uses such a map and others have its data.
	Leaving *Member `json:"leaving,omitempty"`
}

// Task is a change of a partition's members. A command stores it in the map; agents carry
// it out step by step, and remove it when it is done.
type Task struct {
	Plan    string    `json:"plan"`              // the plan that it belongs to; others' tasks have another one
	Add     *Member   `json:"add,omitempty"`     // copies the master, and becomes a replica when it has all data
	Remove  string    `json:"remove,omitempty"`  // the address of the member that leaves
	Restart []Restart `json:"restart,omitempty"` // members to restart, one at a time
	Master  string    `json:"master,omitempty"`  // the address of the member that leads at the end; empty for any
}

// Restart is a member to restart. It is done when the member is in another run.
type Restart struct {
	Addr string `json:"addr"`
	Run  string `json:"run"`
}

// Member is one server.
type Member struct {
	Addr string `json:"addr"`           // HOST:PORT
	Node string `json:"node,omitempty"` // the machine, whose servers are lost together
	Down bool   `json:"down,omitempty"` // clients should not ask it

	// Run is the run id in which the member was last known to have all its data: elected,
	// or in step with its master. Each start has another id, so a member in another run was
	// restarted, and may have lost confirmed writes. Empty if it is not known yet.
	Run string `json:"run,omitempty"`

	// Boot says how the member came back from its last restart that was seen: BootFenced or
	// BootOpen. Empty if none was seen.
	Boot string `json:"boot,omitempty"`
}

// Ways in which members come back from a restart.
const (
	BootFenced = "fenced" // as a replica of an address where no server listens
	BootOpen   = "open"   // without that: until an agent fenced it, it could be read and written
)

// ParseMember reads HOST:PORT or HOST:PORT@NODE.
func ParseMember(text string) (Member, error) {
	addr, node, named := strings.Cut(text, "@")
	host, port, err := net.SplitHostPort(addr)
	number, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil, portErr != nil, host == "", number == 0:
		return Member{}, fmt.Errorf("%q is no HOST:PORT", addr)
	case named && (node == "" || strings.Contains(node, "@")):
		return Member{}, fmt.Errorf("%q names no node", text)
	}
	return Member{Addr: addr, Node: node}, nil
}

// Machine returns the node of the member, or its host if no node is named.
func (m Member) Machine() string {
	if m.Node != "" {
		return m.Node
	}
	host, _, err := net.SplitHostPort(m.Addr)
	if err != nil {
		return m.Addr
	}
	return host
}

// Members returns the master and the replicas.
func (p *Partition) Members() []Member { return append([]Member{p.Master}, p.Replicas...) }

// Everyone returns the members of the partition, and those that join and leave it.
func (p *Partition) Everyone() []Member {
	all := p.Members()
	if p.Task != nil && p.Task.Add != nil {
		all = append(all, *p.Task.Add)
	}
	if p.Leaving != nil {
		all = append(all, *p.Leaving)
	}
	return all
}

// ID returns the identity of the map.
func (m *Map) ID() ID {
	content := *m
	content.Parent = ID{} // an agent that knows no parents drops it from a copy
	text, err := json.Marshal(&content)
	if err != nil {
		panic(err) // all fields can be encoded
	}
	return ID{m.Epoch, Sum(string(text))}
}

// Next returns a copy with the next epoch, and with this map as its parent, to be changed.
func (m *Map) Next() *Map {
	next := m.Clone()
	next.Epoch, next.Parent = m.Epoch+1, m.ID()
	return next
}

// Clone returns a copy that shares nothing with the map.
func (m *Map) Clone() *Map {
	next := *m
	next.Points, next.Spares = slices.Clone(m.Points), slices.Clone(m.Spares)
	next.Partitions = slices.Clone(m.Partitions)
	for i := range next.Partitions {
		p := &next.Partitions[i]
		p.Replicas = slices.Clone(p.Replicas)
		p.Leaving = clone(p.Leaving)
		if p.Task = clone(p.Task); p.Task != nil {
			p.Task.Add = clone(p.Task.Add)
			p.Task.Restart = slices.Clone(p.Task.Restart)
		}
	}
	return &next
}

// ElectAnew returns the map with an epoch above all that are known, for a directory that
// has lost its newest maps. The map may name former masters, so all partitions become
// read-only, and agents elect the member that is furthest. A member that joins may have been
// a replica by a lost map, and writers may have relied on it: so it is one.
func (m *Map) ElectAnew(epoch int64) *Map {
	next := m.Clone()
	next.Epoch, next.Floor = epoch, epoch
	for i := range next.Partitions {
		p := &next.Partitions[i]
		p.ReadOnly, p.Stale, p.Epoch = true, true, epoch
		p.Restore, p.RestoreHistory = "", "" // it may be done long ago
		if p.Task != nil && p.Task.Add != nil {
			joins := *p.Task.Add
			joins.Down = true // clients do not read it before it has all data
			p.Replicas, p.Task.Add = append(p.Replicas, joins), nil
		}
	}
	return next
}

// clone returns a pointer to a copy of *p.
func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	next := *p
	return &next
}

// Has returns millrace.ErrNotFound unless the fleet has a partition of that number.
func (m *Map) Has(id int) error {
	if n := len(m.Partitions); id < 0 || id >= n {
		return millrace.ErrNotFound.Errorf("there is no partition %d: the fleet has %d, from 0 on", id, n).
			WithHint("Look at millrace fleet show for the partitions that there are.")
	}
	return nil
}

// Home returns the partition that has a member at an address, -1 if there is none. Members
// that come and leave count.
func (m *Map) Home(addr string) int {
	return slices.IndexFunc(m.Partitions, func(p Partition) bool { return Find(p.Everyone(), addr) != nil })
}

// Find returns the member at an address, nil if there is none.
func Find(members []Member, addr string) *Member {
	i := slices.IndexFunc(members, func(m Member) bool { return m.Addr == addr })
	if i < 0 {
		return nil
	}
	return &members[i]
}

// Adding reports whether an addition of partitions is in progress, or was interrupted.
func (m *Map) Adding() bool {
	return m.Floor > m.Epoch || slices.ContainsFunc(m.Partitions, func(p Partition) bool { return p.Phase == LookUp })
}

// Ring returns the ring of the map's points.
func (m *Map) Ring() (*ring.Ring, error) { return ring.Of(m.Points) }

// Parse reads a stored map. The error is ErrMap or ErrVersion.
func Parse(text []byte) (*Map, error) {
	var wire struct { // all that is known about other versions
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &wire); err != nil {
		return nil, ErrMap.Wrap(err)
	}
	if err := checkVersion(wire.Version); err != nil {
		return nil, err
	}
	m := new(Map)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, ErrMap.Wrap(err)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// MayReplace returns an error unless the map is valid and may replace one with that epoch,
// 0 for none. The error is ErrMap or ErrVersion.
func (m *Map) MayReplace(epoch int64) error {
	if err := m.check(); err != nil {
		return err
	}
	if m.Epoch <= epoch {
		return ErrMap.Errorf("a map with epoch %d cannot replace one with epoch %d", m.Epoch, epoch)
	}
	return nil
}

// check returns an error unless the map is valid.
func (m *Map) check() error {
	if err := checkVersion(m.Version); err != nil {
		return err
	}
	r, err := m.Ring()
	if err != nil {
		return ErrMap.Wrap(err)
	}
	invalid := func(format string, args ...any) error { return ErrMap.Wrap(fmt.Errorf(format, args...)) }
	if len(r.Shares()) != len(m.Partitions) {
		return invalid("the ring has %d partitions, the list %d", len(r.Shares()), len(m.Partitions))
	}
	seen := map[string]bool{}
	for _, spare := range m.Spares {
		if spare.Addr == "" || seen[spare.Addr] {
			return invalid("there is a spare at %q, which is empty or a duplicate", spare.Addr)
		}
		seen[spare.Addr] = true
	}
	for i, p := range m.Partitions {
		if p.ID != i {
			return invalid("partition %d is at index %d", p.ID, i)
		}
		if p.Phase != LookUp && p.Phase != Open && p.Phase != Closed {
			return invalid("partition %d has the phase %q", i, p.Phase)
		}
		for _, member := range p.Everyone() {
			if member.Addr == "" || seen[member.Addr] {
				return invalid("partition %d has a member at %q, which is empty or a duplicate", i, member.Addr)
			}
			seen[member.Addr] = true
		}
	}
	return nil
}

func checkVersion(version int) error {
	if version != Version {
		return ErrVersion.Errorf("the directory's map has version %d, this build knows %d", version, Version)
	}
	return nil
}

// Points are the points of a ring. Their JSON has positions as 16 hexadecimal digits,
// because not every language has integers of 64 bits.
type Points []ring.Point

type pointJSON struct {
	At         string `json:"at"`
	Partition  int    `json:"partition"`
	Generation int    `json:"generation"`
}

// MarshalJSON writes positions in hexadecimal.
func (p Points) MarshalJSON() ([]byte, error) {
	stored := make([]pointJSON, len(p))
	for i, point := range p {
		stored[i] = pointJSON{fmt.Sprintf("%016x", point.Position), point.Partition, point.Generation}
	}
	return json.Marshal(stored)
}

// UnmarshalJSON reads the form of MarshalJSON.
func (p *Points) UnmarshalJSON(text []byte) error {
	var stored []pointJSON
	if err := json.Unmarshal(text, &stored); err != nil {
		return err
	}
	*p = make(Points, len(stored))
	for i, point := range stored {
		at, err := strconv.ParseUint(point.At, 16, 64)
		if err != nil {
			return fmt.Errorf("the position %q is no hexadecimal number of 64 bits", point.At)
		}
		(*p)[i] = ring.Point{Position: at, Partition: point.Partition, Generation: point.Generation}
	}
	return nil
}
