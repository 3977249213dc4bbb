package directory

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
)

// Directory keeps the map of one fleet in a [Store], and lets its agents coordinate. It is safe
// for concurrent use. Its times are those of the processes that use it: no decision about the
// map depends on them.
type Directory struct {
	Store Store
	Owned bool // whether the first fleet on it closes it with itself

	// ViewTTL is the least Settings.ViewTTL with which a fleet serves while the store is in trouble,
	// and the default of commands. Defaults to any, and to DefaultViewTTL.
	ViewTTL time.Duration

	known   atomic.Pointer[held] // the last map that was received
	editing chan struct{}        // holds a value while a call edits a list
}

// New returns the directory in a store.
func New(store Store) *Directory {
	return &Directory{Store: store, editing: make(chan struct{}, 1)}
}

// Close closes the store.
func (d *Directory) Close() { d.Store.Close() }

// Lead makes an agent the leader for a TTL, unless another one leads, and reports whether it
// leads. A TTL of 0 resigns.
func (d *Directory) Lead(ctx context.Context, agent string, ttl time.Duration) (bool, error) {
	return d.hold(ctx, "agent", agent, ttl)
}

// Leader returns the name of the agent that leads, empty for none.
func (d *Directory) Leader(ctx context.Context) (string, error) {
	return d.Store.Hold(ctx, "agent", "", 0)
}

// hold gives a name to a holder, or has it given up, and reports whether it did.
func (d *Directory) hold(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	now, err := d.Store.Hold(ctx, name, holder, ttl)
	return err == nil && (now == holder || ttl == 0 && now == ""), err
}

// AnswerTimeout is how long commands wait for an answer of the directory.
const AnswerTimeout = 3 * time.Second

var errNoAnswer = errors.New("no answer within " + AnswerTimeout.String())

// Bound returns a context that ends after AnswerTimeout.
func Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, AnswerTimeout, errNoAnswer)
}

const (
	// editTimeout is how long a change is tried.
	editTimeout = 10 * time.Second

	// editPause is the pause before the next try when the store was in trouble.
	editPause = 50 * time.Millisecond
)

// try calls do until it is done, fails for good, or ten seconds are over. It is called again
// at once if another process was faster.
func try(ctx context.Context, do func(ctx context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, editTimeout, ErrSilent)
	defer cancel()
	for {
		done, err := do(ctx)
		switch {
		case ctx.Err() != nil && !done:
			return errors.Join(context.Cause(ctx), err)
		case done, millrace.Code(err) != "", retry.Word(err) != "" && !retry.Transient(err):
			return err
		case err != nil && !retry.Sleep(ctx, editPause):
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// edit replaces a value. Change receives the present text, "" for none. It is called again when
// another process was faster, or may have been.
func (d *Directory) edit(ctx context.Context, name string, change func(text string) (string, error)) error {
	// The calls of a process take turns, or many at the same time would mostly overtake each other.
	select {
	case d.editing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-d.editing }()
	next := ""
	return try(ctx, func(ctx context.Context) (bool, error) {
		present, err := d.Store.Get(ctx, Present, name)
		if err != nil {
			return false, err
		}
		if next != "" && present[0].Text == next { // the reply of the last try was lost
			return true, nil
		}
		if next, err = change(present[0].Text); err != nil || next == present[0].Text {
			return true, err
		}
		return d.Store.Put(ctx, present[0].Revision, Text{name, next})
	})
}

// client is implemented by the clients of package fleet for Millrace's other packages, so
// that types of this package stay out of the API.
type client interface {
	Map() *Map
	Directory() *Directory
	Option() rueidis.ClientOption
}

// MapOf returns the map that a fleet's client uses at the moment. It must not be changed.
func MapOf(fleet rueidis.Client) *Map { return fleet.(client).Map() } //nolint:forcetypeassert // the caller passes a fleet's client

// Of returns the directory of a fleet's client.
func Of(fleet rueidis.Client) *Directory { return fleet.(client).Directory() } //nolint:forcetypeassert // as above

// OptionOf returns how a fleet's client connects to members.
func OptionOf(fleet rueidis.Client) rueidis.ClientOption { return fleet.(client).Option() } //nolint:forcetypeassert // as above

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

	// ErrMap means that a map is invalid.
	ErrMap = &millrace.Error{
		Code:    "broken",
		Message: "the directory's map cannot be used",
		Hint:    "Restore the directory from its append-only file, or correct the new map.",
	}

	// ErrVersion means that the directory or its map has a version that this build does not know.
	ErrVersion = &millrace.Error{
		Code: "unknown_version",
		Hint: "Use the Millrace that wrote it, or move the fleet into an empty directory with millrace fleet recover.",
	}

	// ErrClosed means that the directory was closed.
	ErrClosed = &millrace.Error{Code: "closed", Message: "the directory is closed"}

	// ErrUnfit means that the servers of a directory do not keep its promises.
	ErrUnfit = &millrace.Error{Code: "unfit"}
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
