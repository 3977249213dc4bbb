package ops

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/pinned"
)

// pinnedPath is the path of a pinned value.
const pinnedPath = "/v1/pinned/{namespace}/{key}"

// Pinned names a pinned value in a namespace.
type Pinned struct {
	Namespace jsontype.Text `arg:"" name:"ns" path:"namespace" complete:"pinned" doc:"The namespace." example:"\"flags\""`
	Key       jsontype.Text `arg:"" path:"key" doc:"The value's name." example:"\"user:17\""`
}

// Structure returns the namespace and the name, for the audit log.
func (p Pinned) Structure() string { return string(p.Namespace + "/" + p.Key) }

// Names returns the names of the namespace and of the value in it.
func (p Pinned) Names() (namespace, key string) { return string(p.Namespace), string(p.Key) }

// ListPinned lists the namespaces.
var ListPinned = Row{
	ID: "listPinned", Method: http.MethodGet, Path: "/v1/pinned",
	Class: Look, Only: "a person sees the namespaces on the pages, with their numbers",
	Summary: "List the namespaces of pinned values by name",
	Detail:  "All registered namespaces. Every program that writes to a namespace registers it.",
}

// SetPinned stores a value.
var SetPinned = operation(Row{
	ID: "setPinned", Words: "pinned set", Method: http.MethodPost, Path: pinnedPath + "/set", Statuses: []int{http.StatusInsufficientStorage}, Class: Work,
	Summary:  "Store a value until its time",
	Detail:   "It exists until then and not after it, by the server's clock, also on a server that evicts keys with a TTL when its memory is full. The first value creates the namespace.",
	Examples: []string{"pinned set flags user:17 on --ttl 30m"},
}, func(ctx context.Context, p OnePinned, in ToPin) (doc FieldsSet, err error) {
	doc.Set, err = p.Of.Set(ctx, p.Name, []byte(in.Value), in.TTL.Duration, pinned.SetConfig{IfNone: in.If == "none", IfExist: in.If == "exist"})
	return doc, err
})

// ToPin is the In of [SetPinned].
type ToPin struct {
	Value jsontype.Text     `json:"value" example:"\"on\""`
	TTL   jsontype.Duration `json:"ttl" doc:"For how long, at least a millisecond." example:"30m"`
	If    string            `json:"if,omitempty" enum:"none,exist" doc:"Store only if there is no value, or only if there is one. Defaults to always."`
}

// GetPinned reads a value.
var GetPinned = operation(Row{
	ID: "getPinned", Words: "pinned get", Method: http.MethodGet, Path: pinnedPath, Statuses: []int{http.StatusNotFound}, Class: Look,
	Summary:  "Read a value, and how long it still has",
	Detail:   `A value that does not exist or has expired fails with the code "not_found".`,
	Examples: []string{"pinned get flags user:17", "pinned get flags user:17 --json"},
}, func(ctx context.Context, p OnePinned, _ Pinned) (PinnedValue, error) {
	value, ttl, err := p.Of.Get(ctx, p.Name)
	return PinnedValue{jsontype.Text(value), ttl.Milliseconds()}, err
})

// PinnedValue is the Out of [GetPinned].
type PinnedValue struct {
	Value jsontype.Text `json:"value" example:"\"on\""`
	TTL   int64         `json:"ttl_ms" doc:"The remaining time in milliseconds." example:"1799912"`
}

// GetPinnedTTL shows the time of a value.
var GetPinnedTTL = operation(Row{
	ID: "getPinnedTTL", Words: "pinned ttl",
	Class: Work, Only: "over HTTP getPinned shows the time, and expirePinned changes it",
	Summary:  "Show how long a value has, or give it another time",
	Detail:   `A value that is not there fails with the code "not_found".`,
	Examples: []string{"pinned ttl flags user:17", "pinned ttl flags user:17 --set 1h"},
}, func(ctx context.Context, p OnePinned, _ Pinned) (PinnedTTL, error) {
	_, ttl, err := p.Of.Get(ctx, p.Name)
	return PinnedTTL{ttl.Milliseconds()}, err
})

// PinnedTTL is the Out of [GetPinnedTTL].
type PinnedTTL struct {
	TTL int64 `json:"ttl_ms" doc:"The remaining time in milliseconds." example:"1799912"`
}

// ExpirePinned changes the time of a value.
var ExpirePinned = operation(Row{
	ID: "expirePinned", Method: http.MethodPost, Path: pinnedPath + "/expire",
	Class: Work, Only: "pinned ttl --set does it, and shows the result",
	Summary: "Give a value another time",
	Detail:  "From now on, earlier or later than its own.",
}, func(ctx context.Context, p OnePinned, in Pin) (doc Exists, err error) {
	doc.Exists, err = p.Of.Expire(ctx, p.Name, in.TTL.Duration)
	return doc, err
})

// Pin is the In of [ExpirePinned].
type Pin struct {
	TTL jsontype.Duration `json:"ttl" doc:"For how long, at least a millisecond." example:"1h"`
}

// Exists is the Out of [ExpirePinned].
type Exists struct {
	Exists bool `json:"exists" doc:"False if there is no value; then nothing was changed." example:"true"`
}

// DeletePinned deletes values: over HTTP one.
var DeletePinned = operation(Row{
	ID: "deletePinned", Words: "pinned rm", Method: http.MethodDelete, Path: pinnedPath, Class: Work,
	Summary:  "Delete a value before its time",
	Detail:   "The answer counts the values that existed.",
	Examples: []string{"pinned rm flags user:17 user:18"},
}, func(ctx context.Context, keys *pinned.Keys, in []string) (doc Deleted, err error) {
	doc.Deleted, err = keys.Remove(ctx, in...)
	return doc, err
})
