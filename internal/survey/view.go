package survey

import (
	"slices"
	"time"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/upkeep"
)

// Kind is a kind of what a survey looks at.
type Kind string

// Kinds. The first six have names; of the others there is one each. Names is for
// trouble with finding those.
const (
	Queue   Kind = "queue"
	Ick     Kind = "ick"
	Channel Kind = "channel"
	Hashes  Kind = "hashes"
	Keys    Kind = "keys"
	Lease   Kind = "lease"

	Steal  Kind = "steal"
	Fleet  Kind = "fleet"
	Server Kind = "server"
	Names  Kind = "names"
)

// Names of Troubles of the kind Fleet: what its directory did not tell.
const (
	FleetEvents    = "events"
	FleetSnapshots = "snapshots"
)

// View is what one look saw. Nobody changes it any more, so it may be shared and
// must not be changed. Lists are sorted by name.
type View struct {
	// At is when these numbers were read, by this process's clock; zero before the
	// first look. It stays when no server answers.
	At time.Time

	// Named is when the names of the structures were last found; zero before the
	// first time, when lists are empty because nobody knows better.
	Named time.Time

	Queues   []fairqueue.Stats
	Icks     []ick.Stats        // those that belong to no channel
	Channels []ick.ChannelStats // each with its Icks
	Hashes   []expiry.Stats
	Keys     []pinned.Stats
	Leases   []lease.Info // held ones, and free ones that Redis still knows
	Steal    upkeep.Totals

	// Fleet is nil unless there is one. It is of the last look also when no master
	// answers.
	Fleet *FleetView

	Server ServerView

	// Troubles are what could not be read.
	Troubles []Trouble

	// LeftOut is how many structures of a kind there are beyond the first 200, which
	// are not looked at. Kinds of which none is left out are absent.
	LeftOut map[Kind]int
}

// Trouble is something that could not be read.
type Trouble struct {
	Kind Kind
	Name string // of the structure, a server's address, or FleetEvents; empty for all of the kind
	Err  error
}

// Away returns why no server answered the last look, and nil if one did. The
// View's numbers are old then: of the time At.
func (v *View) Away() error {
	i := slices.IndexFunc(v.Troubles, func(t Trouble) bool { return t.Kind == Server && t.Name == "" })
	if i < 0 {
		return nil
	}
	return v.Troubles[i].Err
}

// late returns the View after a look that nobody answered.
func (v *View) late(f *FleetView, troubles ...Trouble) *View {
	next := *v
	next.Fleet, next.Troubles = f, troubles
	return &next
}

// ServerView is what the servers say of themselves in INFO.
type ServerView struct {
	Nodes []NodeView // those that answered, by address
}

// Memory returns what all masters use together, in bytes.
func (s ServerView) Memory() int64 {
	return s.sum(func(n NodeView) int64 { return n.Memory })
}

// Ops returns how many commands a second all masters run together.
func (s ServerView) Ops() int64 {
	return s.sum(func(n NodeView) int64 { return n.Ops })
}

func (s ServerView) sum(of func(NodeView) int64) (sum int64) {
	for _, n := range s.Nodes {
		if n.Role != "slave" {
			sum += of(n)
		}
	}
	return sum
}

// NodeView is what one server says. Numbers that it does not tell are 0, texts
// empty.
type NodeView struct {
	Addr      string
	Version   string        // with the name: "Redis 7.4.1", "Valkey 8.0.1"; empty if it does not tell
	Role      string        // master or slave
	Uptime    time.Duration // to the second
	Memory    int64         // used_memory, in bytes
	MaxMemory int64         // in bytes; 0 for no limit
	Ops       int64         // commands a second, of late
	Clients   int64         // connections
	Evicted   int64         // keys evicted since it started
}

// FleetView is a fleet, as fleet show has it.
type FleetView struct {
	fleet.Status

	Points    directory.Points  // the partitions' places on the ring
	Events    []directory.Event // what agents did, the newest first, up to 200
	Snapshots snapshot.Ages     // its Now is zero if the directory did not tell
}
