package directory

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"

	"github.com/millrace/millrace/ring"
)

// Version is the wire version of the map.
const Version = 1

// Map is what all who use a fleet must agree about. It is replaced whole, never
// changed, and is safe for concurrent use.
type Map struct {
	// Version is the wire version, [Version].
	Version int `json:"version"`

	// Fleet names the fleet for ever: members carry it, so that one of another
	// fleet, or an empty one, is not taken for one of this.
	Fleet string `json:"fleet"`

	// Epoch is one more with every change of the map.
	Epoch int64 `json:"epoch"`

	// Floor is the epoch below which a map is too old to place a new tag by. It
	// rises when it changes which partition new tags belong to, and before that is
	// written to the members.
	Floor int64 `json:"floor"`

	// Settings are what the fence and the agents rest on.
	Settings Settings `json:"settings"`

	// Partitions are the partitions by their numbers.
	Partitions []Partition `json:"partitions"`

	// Points are the places of the partitions on the ring.
	Points Points `json:"points"`
}

// Phase says what a partition is there for.
type Phase = string

// Phases of a partition.
const (
	// LookUp is the phase of one that was just added: clients look there for tags,
	// and none places any.
	LookUp Phase = "look-up"

	// Open is the phase of one that takes new tags.
	Open Phase = "open"

	// Closed is the phase of one that keeps the tags it has and sends new ones on.
	Closed Phase = "closed"
)

// Partition is a master and its replicas.
type Partition struct {
	// ID is its number on the ring, from 0 on.
	ID int `json:"id"`

	// Epoch is one more each time the partition got another master, or the same
	// one again with what it had kept.
	Epoch int64 `json:"epoch"`

	// Generation is that of its points on the ring.
	Generation int `json:"generation"`

	// Phase says whether it takes new tags.
	Phase Phase `json:"phase"`

	// ReadOnly means that no master takes writes for now.
	ReadOnly bool `json:"read_only,omitempty"`

	// History is the replication id of the master. How far members are can be
	// compared only within one history. Empty if it is not known yet.
	History string `json:"history,omitempty"`

	// Before is the history that the master went on from. Members that have not
	// followed it yet are still in that one.
	Before string `json:"before,omitempty"`

	// Floor is the highest epoch that the master knows of. Members that know of a
	// higher one were promoted since.
	Floor int64 `json:"floor,omitempty"`

	// Prefer is the member that is to be the master next, of several that are
	// equally far.
	Prefer string `json:"prefer,omitempty"`

	// Master and Replicas are its members.
	Master   Member   `json:"master"`
	Replicas []Member `json:"replicas,omitempty"`
}

// Member is one redis-server.
type Member struct {
	// Addr is where it listens: HOST:PORT.
	Addr string `json:"addr"`

	// Node names the machine on which it runs, which is lost as a whole.
	Node string `json:"node,omitempty"`

	// Down means that nobody should ask it.
	Down bool `json:"down,omitempty"`

	// Run is the run id, another one after each start, in which the member was last
	// known to be whole: elected, or in step with its master. One that has another run
	// id was started again, and may have lost what it confirmed. Empty if it is not
	// known yet.
	Run string `json:"run,omitempty"`
}

// Machine returns the node on which the member runs. One without a node's name is on
// that of its host.
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
func (p *Partition) Members() []Member {
	return append([]Member{p.Master}, p.Replicas...)
}

// Clone returns a copy that shares nothing with the map, to be changed.
func (m *Map) Clone() *Map {
	next := *m
	next.Points = slices.Clone(m.Points)
	next.Partitions = slices.Clone(m.Partitions)
	for i := range next.Partitions {
		next.Partitions[i].Replicas = slices.Clone(next.Partitions[i].Replicas)
	}
	return &next
}

// Adding reports whether partitions are being added, or that was cut off.
func (m *Map) Adding() bool {
	return m.Floor > m.Epoch || slices.ContainsFunc(m.Partitions, func(p Partition) bool { return p.Phase == LookUp })
}

// Ring returns the ring of the map's points.
func (m *Map) Ring() (*ring.Ring, error) { return ring.Of(m.Points) }

// check returns an error unless the map can be used.
func (m *Map) check() error {
	if err := checkVersion(m.Version); err != nil {
		return err
	}
	r, err := m.Ring()
	if err != nil {
		return ErrMap.Wrap(err)
	}
	if r.Partitions() != len(m.Partitions) {
		return ErrMap.Wrap(fmt.Errorf("the ring has %d partitions, the list %d", r.Partitions(), len(m.Partitions)))
	}
	seen := map[string]bool{}
	for i, p := range m.Partitions {
		if p.ID != i {
			return ErrMap.Wrap(fmt.Errorf("partition %d stands at place %d", p.ID, i))
		}
		if p.Phase != LookUp && p.Phase != Open && p.Phase != Closed {
			return ErrMap.Wrap(fmt.Errorf("partition %d has the phase %q", i, p.Phase))
		}
		for _, member := range p.Members() {
			if member.Addr == "" || seen[member.Addr] {
				return ErrMap.Wrap(fmt.Errorf("partition %d has a member at %q, which is empty or taken", i, member.Addr))
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

// Parse reads a map that was stored. The error is ErrMap or ErrVersion.
func Parse(text []byte) (*Map, error) {
	// Of another version nothing is known but where the version is.
	var wire struct {
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
