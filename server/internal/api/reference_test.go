package api_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/server/internal/api"
)

var update = flag.Bool("update", false, "write the reference in docs/HTTP.md")

// TestReference: the end of docs/HTTP.md lists all operations, with the role and the command of each.
func TestReference(t *testing.T) {
	t.Parallel()
	const page, heading = "../../../docs/HTTP.md", "## Reference\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	byHand, there, _ := strings.Cut(string(text), heading)
	if want := reference(serve(t, api.Config{}).spec); there != want {
		t.Errorf("the reference in %s differs from what the API says of itself: go test -run TestReference ./server/internal/api -update", page)
		if *update {
			if err := os.WriteFile(page, []byte(byHand+heading+want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// reference returns a table of all operations.
func reference(s *spec) string {
	lines := map[string]string{}
	for path, methods := range s.at("paths").(map[string]any) {
		for method, op := range methods.(map[string]any) {
			described, ok := op.(map[string]any)
			if !ok { // parameters that all have
				continue
			}
			row, _ := ops.ByID(described["operationId"].(string))
			command := row.Only
			if row.Words != "" {
				command = fmt.Sprintf("[%s](CLI.md#%s)", row.Words, strings.ReplaceAll(row.Words, " ", "-"))
			}
			lines[path+" "+method] = fmt.Sprintf("| `%s` | `%s` | %s | %s | %s |\n", path, strings.ToUpper(method), described["summary"], described["x-role"], command)
		}
	}
	var table strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		table.WriteString(lines[key])
	}
	return "\n`GET /openapi.json` has the fields of each, with their limits.\n\n| path | method | | role | command |\n|---|---|---|---|---|\n" + table.String()
}
