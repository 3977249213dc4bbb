// Package access says which client sent a request, and what it may do.
//
//	viewer    looks at everything: the requests that change nothing, and the pages
//	worker    also does the work of programs: writes, receives, acknowledges, holds leases, counts
//	operator  also does the work of people: pauses, limits, purges, redrives, deletes, by HTTP and
//	          with the buttons of the pages
//
// A client with a prefix does that with the structures whose names begin with it, over HTTP. Pages
// and metrics show the structures of all clients, so they are not for it.
package access

import (
	"context"
	"slices"
	"strings"

	"github.com/millrace/millrace"
)

// Role is a set of operations. Each role may do what the ones before it may.
type Role string

// Roles, as a list of clients names them.
const (
	Viewer   Role = "viewer"
	Worker   Role = "worker"
	Operator Role = "operator"
)

// Roles are all of them, from the one that may do least.
func Roles() []Role { return []Role{Viewer, Worker, Operator} }

// ErrForbidden means that a client's role or prefix does not allow a request.
var ErrForbidden = &millrace.Error{
	Code: "forbidden",
	Hint: "Use credentials with the role that it needs. The operator of the service sets roles beside the credentials, in --auth-file or MILLRACE_AUTH.",
}

// Client sent a request.
type Client struct {
	Name   string // of its credentials, for logs
	Role   Role   // defaults to Operator
	Prefix string // of the names that it may use; empty for all
}

// May returns an error unless the client has at least that role.
func (c Client) May(role Role) error {
	if all := Roles(); c.Role != "" && slices.Index(all, c.Role) < slices.Index(all, role) {
		return ErrForbidden.Errorf("these credentials have the role %s, and this needs %s", c.Role, role)
	}
	return nil
}

// Owns reports whether the client may use a structure of that name.
func (c Client) Owns(name string) bool { return strings.HasPrefix(name, c.Prefix) }

// MayUse returns an error unless the client may use a structure of that name.
func (c Client) MayUse(name string) error {
	if !c.Owns(name) {
		return ErrForbidden.Errorf("these credentials are for names that begin with %q", c.Prefix)
	}
	return nil
}

// MaySeeAll returns an error if the client has a prefix.
func (c Client) MaySeeAll() error {
	if c.Prefix != "" {
		return ErrForbidden.Errorf("these credentials are for names that begin with %q, and this shows all", c.Prefix)
	}
	return nil
}

type key struct{}

// With returns a context with the client of a request.
func With(ctx context.Context, c Client) context.Context { return context.WithValue(ctx, key{}, c) }

// Of returns the client of a request. Without credentials it has no name, and may do everything.
func Of(ctx context.Context) Client {
	c, _ := ctx.Value(key{}).(Client)
	return c
}
