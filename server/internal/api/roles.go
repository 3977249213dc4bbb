package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/server/internal/access"
)

// ofPrograms are audited operations that programs do, too: they release their leases.
var ofPrograms = []string{"releaseLease"}

// roles are those that classes of operations need.
var roles = map[ops.Class]access.Role{ops.Look: access.Viewer, ops.Work: access.Worker, ops.Change: access.Operator, ops.Withdraw: access.Worker}

// roleOf returns the role that an operation needs.
func roleOf(op huma.Operation) access.Role {
	row, described := ops.ByID(op.OperationID)
	switch {
	case described:
		return roles[row.Class]
	case op.Method == http.MethodGet:
		return access.Viewer
	case actionOf(op.OperationID) != "" && !slices.Contains(ofPrograms, op.OperationID):
		return access.Operator
	default:
		return access.Worker
	}
}

// mayDo returns an error unless the client of a request may do an operation on the structure that it names.
func mayDo(ctx context.Context, op huma.Operation, in any) error {
	c := access.Of(ctx)
	if err := c.May(roleOf(op)); err != nil {
		return err
	}
	if named, ok := in.(hasName); ok {
		return c.MayUse(named.Structure())
	}
	return nil
}
