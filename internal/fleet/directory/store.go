package directory

import (
	"context"
	"time"
)

// Store keeps the values of one fleet's directory. [Redis] is one, package etcd has the other.
// A [Directory] on it does the rest.
type Store interface {
	// Get returns the values of names as they were together at one moment.
	Get(ctx context.Context, read Read, names ...string) ([]Value, error)

	// Put stores texts by their names, all or none, if the first one still has the revision
	// with which it was read, "" for none. It reports whether it did. A repeat after a lost
	// reply succeeds: the first text is there already. Stored texts outlive the death of any one
	// server.
	Put(ctx context.Context, revision string, texts ...Text) (bool, error)

	// Hold gives a name to a holder for a TTL, unless another one has it, and returns the holder
	// from then on, "" for none. A TTL of 0 gives it up; an empty holder only asks. The TTL is
	// counted by the store, which may round it up to whole seconds, and only avoids double work.
	Hold(ctx context.Context, name, holder string, ttl time.Duration) (string, error)

	// Examine says how safe the values are, see [Directory.Examine]. The ViewTTL is that of the
	// fleet, 0 if there is none yet.
	Examine(ctx context.Context, viewTTL time.Duration) []Remark

	// Close closes the connections.
	Close()
}

// Read says how new values must be.
type Read string

const (
	// Present values include all puts from before the call began: a reader of the map can rely on
	// them. A server that may have been replaced, or that takes no writes, answers with an error.
	Present Read = "present"

	// Any values may be old. They can be read while nothing can be put.
	Any Read = "any"
)

// Value is a text with its revision. The zero value stands for a name without a value.
type Value struct {
	Text     string
	Revision string // changes whenever the value is put
}

// Text is a text to put.
type Text struct{ Name, Text string }
