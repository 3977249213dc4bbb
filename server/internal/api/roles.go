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

// mayDo returns an error unless the client of a request may do an operation on the structure that it names.
func mayDo(ctx context.Context, r ops.Row, in any) error {
	c := access.Of(ctx)
	if err := c.May(roleOf(r)); err != nil {
		return err
	}
	if named, ok := in.(hasName); ok {
		return c.MayUse(named.Structure())
	}
	return nil
}
