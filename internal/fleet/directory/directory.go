package directory

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/members"
)

// Directory keeps the map of one fleet, and lets its agents coordinate. [Redis] is the
// one in use; a store with consensus can take its place.
type Directory interface { //nolint:interfacebloat // all that a store of the map must do
	// Load returns the map, perhaps an old one.
	Load(ctx context.Context) (*Map, error)

	// Confirm returns nil if the map with that epoch is the present one, and the
	// present one otherwise. Only the one place where the map is changed may answer.
	Confirm(ctx context.Context, epoch int64) (*Map, error)

	// Change stores a map with a higher epoch if the present one still has that epoch, 0
	// for none, and returns ErrConflict otherwise. A map that cannot be used, or whose
	// epoch is not higher, is ErrMap. A retry after a lost reply succeeds.
	Change(ctx context.Context, epoch int64, next *Map) error

	// Lead makes an agent the leader for a TTL, unless another one leads. It reports
	// whether the agent leads, and for how long the same server has answered for the
	// directory. A TTL of 0 resigns.
	Lead(ctx context.Context, agent string, ttl time.Duration) (leads bool, settled time.Duration, err error)

	// Note adds an event to the log. The directory sets its time.
	Note(ctx context.Context, event Event) error

	// Events returns the log, the newest event first, up to 200.
	Events(ctx context.Context) ([]Event, error)

	// Turn gives the turn of a node to a holder for a TTL, unless another one has it, and
	// reports whether the holder has it. A TTL of 0 gives it up. One thing at a time
	// happens on a node, whichever process does it: a copy for a replica, or a snapshot.
	// Both fork a server, and two forks at once may need twice the memory.
	Turn(ctx context.Context, node, holder string, ttl time.Duration) (bool, error)

	// Moving stores that a run moves tags, for a TTL. A TTL of 0 says that it has ended
	// and left nothing unfinished.
	Moving(ctx context.Context, run string, ttl time.Duration) error

	// Adopt gives all runs whose TTL has ended to a run that finishes them, as Moving
	// does, and reports whether there were any. It gives none while a run goes on.
	Adopt(ctx context.Context, run string, ttl time.Duration) (bool, error)

	// Snapped stores the result of a snapshot that began then, by the caller's clock.
	// What is older than what is stored changes nothing.
	Snapped(ctx context.Context, began time.Time, s Snapshot) error

	// Snapshots returns what is stored of each partition that was ever tried, and the
	// directory's time.
	Snapshots(ctx context.Context) ([]Snapshot, time.Time, error)
}

var _ Directory = (*Redis)(nil)

// client is what the clients of package fleet implement for Millrace's other packages,
// so that types of this package stay out of the API.
type client interface {
	Map() *Map
	Directory() Directory
}

// MapOf returns the map that a fleet's client uses at the moment. It must not be changed.
func MapOf(fleet rueidis.Client) *Map { return fleet.(client).Map() } //nolint:forcetypeassert // the caller passes a fleet's client

// Of returns the directory of a fleet's client.
func Of(fleet rueidis.Client) Directory { return fleet.(client).Directory() } //nolint:forcetypeassert // as above

// Errors of this package. What is returned is derived from them and says more.
var (
	// ErrNoFleet means that the directory has no map.
	ErrNoFleet = &millrace.Error{
		Code:    "not_found",
		Message: "there is no fleet in this directory",
		Hint:    "Make one with millrace fleet init, or check the directory's address.",
	}

	// ErrConflict means that another process changed the map. Nothing was changed, or, if
	// a reply was lost, the change was replaced.
	ErrConflict = &millrace.Error{
		Code:    "conflict",
		Message: "another process changed the map",
		Hint:    "Look at the fleet again and repeat what is still to be done.",
	}

	// ErrUnconfirmed means that the map was stored, but no replica of the directory
	// has said that it has it.
	ErrUnconfirmed = &millrace.Error{
		Code:    "unconfirmed",
		Message: "the map was stored, but no replica of the directory has confirmed it",
		Hint:    "Look at the directory's replicas, then repeat the command: what is done already is left alone.",
	}

	// ErrMap means that what is stored is no map.
	ErrMap = &millrace.Error{
		Code:    "broken",
		Message: "the directory's map cannot be used",
		Hint:    "Restore the directory from its replica or its append-only file, or correct the map that was to be stored.",
	}

	// ErrVersion means that the map was written in a version that this one does not
	// know.
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
