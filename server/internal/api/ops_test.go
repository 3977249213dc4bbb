package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/server/internal/access"
	"github.com/millrace/millrace/server/internal/api"
)

// TestTheAPIHasAllOperations: each operation is at its path, with its texts, its fields and the
// role of its class, or its row says why it has none.
func TestTheAPIHasAllOperations(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	lacks := func(row ops.Row) (lacks []string) {
		if row.Path == "" {
			if row.Only == "" {
				lacks = append(lacks, "it has no path, and does not say why")
			}
			return lacks
		}
		path, _ := s.spec.at("paths").(map[string]any)[row.Path].(map[string]any)
		described, ok := path[strings.ToLower(row.Method)].(map[string]any)
		if !ok {
			return []string{"there is no " + row.Method + " " + row.Path}
		}
		role := map[ops.Class]string{ops.Look: "viewer", ops.Work: "worker", ops.Change: "operator", ops.Withdraw: "worker"}[row.Class]
		for field, want := range map[string]string{"operationId": row.ID, "summary": row.Summary, "description": row.Detail, "x-role": role} {
			if described[field] != want {
				lacks = append(lacks, fmt.Sprintf("%s is %v, want %s", field, described[field], want))
			}
		}
		return lacks
	}
	for _, row := range ops.All() {
		for _, lack := range lacks(row) {
			t.Errorf("%s: %s", row.ID, lack)
		}
	}
	if got := lacks(ops.Row{ID: "closeQueue", Words: "queue close"}); len(got) != 1 {
		t.Errorf("of an operation without a path the test reports %q, want that", got)
	}
	if got := lacks(ops.Row{ID: "closeQueue", Method: "POST", Path: "/v1/queues/{name}/close"}); len(got) != 1 {
		t.Errorf("of an operation that is nowhere, the test reports %q, want that it has no path", got)
	}
	if got := api.RoleOf(ops.Row{ID: "closeQueue"}); got != access.Operator {
		t.Errorf("an operation without a class is for the role %q, want operators", got)
	}
}
