package directory

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/members"
)

// Directory keeps the map of one fleet, and lets its agents coordinate. [Redis] is the
// implementation. Another store can take its place if it keeps these promises:
//
//   - Confirm is linearizable with Change: after a Change has returned, no Confirm says
//     that the former epoch is the present one. A store that cannot promise that right
//     after a failover says so by the settled time of Lead.
//   - Change is a compare-and-put of one value of up to 100 kB, and survives the loss of
//     one server.
//   - Lead and Turn are leases by the store's own clock. They only avoid double work.
//   - Clients call Confirm a few times a second, a thousand of them at once. It should
//     read no more than the epoch.
type Directory interface { //nolint:interfacebloat // a store of the map must do all of it
	// Load returns the map, perhaps an old one.
	Load(ctx context.Context) (*Map, error)

	// Confirm returns nil if the map with that epoch is the present one, and the present
	// one otherwise. Epoch 0 is never the present one.
	Confirm(ctx context.Context, epoch int64) (*Map, error)

	// Change stores a map with a higher epoch if the present one still has that epoch, 0
	// for none, and returns ErrConflict otherwise. An invalid map, or one whose epoch is
	// not higher, is ErrMap. A retry after a lost reply succeeds.
	Change(ctx context.Context, epoch int64, next *Map) error

	// Lead makes an agent the leader for a TTL, unless another one leads. It reports
	// whether the agent leads, and for how long the same server has answered for the
	// directory. A TTL of 0 resigns.
	Lead(ctx context.Context, agent string, ttl time.Duration) (leads bool, settled time.Duration, err error)

	// Turn gives the turn of a node to a holder for a TTL, unless another one has it, and
	// reports whether the holder has it. A TTL of 0 gives it up. Copies and snapshots need
	// the turn of their node: both fork a server, and two forks may need twice the memory.
	Turn(ctx context.Context, node, holder string, ttl time.Duration) (bool, error)

	// Moving registers a run that moves tags, for a TTL. A TTL of 0 ends it: it left
	// nothing unfinished.
	Moving(ctx context.Context, run string, ttl time.Duration) error

	// Adopt registers a run that finishes all runs whose TTL has ended, in their place, and
	// reports whether there are any. It does nothing while another run goes on.
	Adopt(ctx context.Context, run string, ttl time.Duration) (bool, error)

	// Beats returns the beats that KeepBeats last stored, empty if there are none. It may return
	// an older value.
	Beats(ctx context.Context) (Beats, error)

	// KeepBeats stores the newest known beat of each partition, for agents that have seen none.
	KeepBeats(ctx context.Context, beats Beats) error

	// Note adds an event to the log, with the directory's time.
	Note(ctx context.Context, event Event) error

	// Events returns the log, the newest event first, up to 200.
	Events(ctx context.Context) ([]Event, error)

	// Snapped stores the result of a snapshot that began then, by the caller's clock. The
	// directory sets the times of s. It ignores a result that is older than the stored one.
	Snapped(ctx context.Context, began time.Time, s Snapshot) error

	// Snapshots returns the results of each partition that has any, and the directory's
	// time.
	Snapshots(ctx context.Context) ([]Snapshot, time.Time, error)
}

var _ Directory = (*Redis)(nil)

// Owned is a directory that a fleet closes with itself.
type Owned struct {
	Directory

	Close func()
}

// client is what the clients of package fleet implement for Millrace's other packages,
// so that types of this package stay out of the API.
type client interface {
	Map() *Map
	Directory() Directory
	Option() rueidis.ClientOption
}

// MapOf returns the map that a fleet's client uses at the moment. It must not be changed.
func MapOf(fleet rueidis.Client) *Map { return fleet.(client).Map() } //nolint:forcetypeassert // the caller passes a fleet's client

// Of returns the directory of a fleet's client.
func Of(fleet rueidis.Client) Directory { return fleet.(client).Directory() } //nolint:forcetypeassert // as above

// OptionOf returns how a fleet's client connects to members.
func OptionOf(fleet rueidis.Client) rueidis.ClientOption { return fleet.(client).Option() } //nolint:forcetypeassert // as above

// verifier is a directory that can say whether its servers keep its promises.
type verifier interface {
	Verify(ctx context.Context) error
}

// Verify asks whether the servers of a directory keep its promises, before a fleet is created
// in it. It changes nothing, and returns nil for a kind of directory that cannot say.
func Verify(ctx context.Context, dir Directory) error {
	if v, ok := dir.(verifier); ok {
		return v.Verify(ctx)
	}
	return nil
}

// Errors of this package. Returned errors wrap one of them.
var (
	// ErrNoFleet means that the directory has no map.
	ErrNoFleet = &millrace.Error{
		Code:    "not_found",
		Message: "there is no fleet in this directory",
		Hint:    "Check the directory's address. Make a fleet with millrace fleet init, or rebuild a lost one with millrace fleet recover.",
	}

	// ErrConflict means that another process changed the map. The change was not made or,
	// if a reply was lost, was replaced.
	ErrConflict = &millrace.Error{
		Code:    "conflict",
		Message: "another process changed the map",
		Hint:    "Look at the fleet again and repeat what is still to be done.",
	}

	// ErrUnconfirmed means that the map was stored, but perhaps on no replica.
	ErrUnconfirmed = &millrace.Error{
		Code:    "unconfirmed",
		Message: "the map was stored, but no replica of the directory has confirmed it",
		Hint:    "Look at the directory's replicas, then repeat the command: it skips what is done.",
	}

	// ErrMap means that a map is invalid.
	ErrMap = &millrace.Error{
		Code:    "broken",
		Message: "the directory's map cannot be used",
		Hint:    "Restore the directory from its replica or its append-only file, or correct the new map.",
	}

	// ErrVersion means that the map has a version that this build does not know.
	ErrVersion = &millrace.Error{
		Code: "unknown_version",
		Hint: "Use the Millrace that wrote it.",
	}
)

// Unreachable returns the error for a directory that did not answer. Errors with a
// code, and those of a context that has ended, stay as they are.
func Unreachable(ctx context.Context, err error) error {
	if err == nil || millrace.Code(err) != "" || ctx.Err() != nil {
		return err
	}
	unreachable := members.ErrUnavailable.Errorf("the fleet's directory cannot be reached").Wrap(err)
	unreachable.Hint = "Check that it runs, and that its address is right."
	return unreachable
}
