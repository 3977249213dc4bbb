package api

import (
	"cmp"
	"context"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/server/internal/access"
)

// roles are those that classes of operations need.
var roles = map[ops.Class]access.Role{ops.Look: access.Viewer, ops.Work: access.Worker, ops.Change: access.Operator, ops.Withdraw: access.Worker}

// roleOf returns the role that an operation needs.
func roleOf(r ops.Row) access.Role { return cmp.Or(roles[r.Class], access.Operator) }

// mayDo returns an error unless the client of a request may do an operation on all structures that it names.
func mayDo(ctx context.Context, r ops.Row, in any) error {
	c := access.Of(ctx)
	if err := c.May(roleOf(r)); err != nil {
		return err
	}
	for _, name := range namesIn(in) {
		if err := c.MayUse(name); err != nil {
			return err
		}
	}
	return nil
}

// namesIn returns the names of the structures that a request is about, in its path, its query or its body.
func namesIn(in any) []string {
	switch in := in.(type) {
	case hasName:
		return []string{in.Structure()}
	case interface{ Structures() []string }:
		return in.Structures()
	case hasBody:
		return namesIn(in.body())
	}
	return nil
}
