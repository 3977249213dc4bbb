package survey

import (
	"slices"
	"time"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
)

// Kind is a kind of structure, or of other things in a survey.
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

// Names of Troubles of the kind Fleet: the parts of its directory that could not be read.
const (
	FleetEvents    = "events"
	FleetSnapshots = "snapshots"
)

// View is the result of one survey. It is shared and must not be changed. Lists are sorted by
// name.
type View struct {
	// At is when these numbers were read, by this process's clock; zero before the first
	// survey. It stays while no server answers.
	At time.Time

	// Named is when the names were last listed; zero before the first time, when all
	// lists are empty.
	Named time.Time

	Queues []fairqueue.Stats
	// Schedules are those of Queues, by queue and name: the first 200 of each queue.
	Schedules []Schedule

	Icks     []ick.Stats        // those that belong to no channel
	Channels []ick.ChannelStats // each with its Icks
	Hashes   []expiry.Stats
	Keys     []pinned.Stats
	Leases   []lease.Info // held ones, and free ones that Redis still knows
	Steal    upkeep.Totals

	// Fleet is nil without a fleet. It is current also if no master answers.
	Fleet *FleetView

	Server ServerView

	// Troubles are the reads that failed.
	Troubles []Trouble

	// LeftOut counts the structures of a kind beyond the first 200, which are not surveyed.
	// It has only kinds with such structures.
	LeftOut map[Kind]int
}

// Schedule is a schedule of a queue.
type Schedule struct {
	Queue string
	At    time.Time // of these numbers, by the server's clock
	fairqueue.ScheduleState
	Err error // why this process cannot read it, such as an unknown time zone; nil if it can
}

// Overdue reports whether its tick is late by more than its jitter allows, as the queue's
// OverdueSchedules count.
func (s Schedule) Overdue() bool {
	return !s.Paused && !s.Next.IsZero() && s.At.Sub(s.Next) > s.Jitter+finding.ScheduleLateAge
}

// Trouble is something that could not be read.
type Trouble struct {
	Kind Kind
	Name string // of the structure, a server's address, or FleetEvents; empty for all of the kind
	Err  error
}

// Away returns why no server answered the last survey, or nil. The numbers are from the time
// At.
func (v *View) Away() error {
	i := slices.IndexFunc(v.Troubles, func(t Trouble) bool { return t.Kind == Server && t.Name == "" })
	if i < 0 {
		return nil
	}
	return v.Troubles[i].Err
}

// late returns the View after a survey without an answer.
func (v *View) late(f *FleetView, troubles ...Trouble) *View {
	next := *v
	next.Fleet, next.Troubles = f, troubles
	return &next
}

// ServerView is the INFO of all servers.
type ServerView struct {
	Nodes []NodeView // those that answered, by address
}

// Memory returns the memory of all masters together, in bytes.
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

// NodeView is the INFO of one server. Missing numbers are 0, and missing texts empty.
type NodeView struct {
	Addr      string
	Version   string        // with the name: "Redis 7.4.1", "Valkey 8.0.1"; empty if unknown
	Role      string        // master or slave
	Uptime    time.Duration // to the second
	Memory    int64         // used_memory, in bytes
	MaxMemory int64         // in bytes; 0 for no limit
	Ops       int64         // recent commands a second
	Clients   int64         // connections
	Evicted   int64         // keys evicted since it started
	SaveFails bool          // the last snapshot could not be saved
	LogFails  bool          // nor the append-only file be written
}

// Unsaved says what the server cannot write to its disk, if there is something, in a sentence without its name.
func (n NodeView) Unsaved() string {
	switch {
	case n.LogFails:
		return "cannot write its append-only file: it refuses all writes, also of what drains, until it can"
	case n.SaveFails:
		return "cannot save its data to disk: unless it is configured otherwise, it refuses all writes, also of what drains, until a save succeeds"
	}
	return ""
}

// FleetView is the status of a fleet.
type FleetView struct {
	fleet.Status

	Events    []directory.Event // the newest first, up to 200
	Snapshots snapshot.Ages     // Now is zero if the directory did not answer
	Findings  []check.Finding   // of the last check, the worst first
	Checked   time.Time         // when that was; zero if there was none
}
