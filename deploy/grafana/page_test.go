package grafana

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var tableRow = regexp.MustCompile("(?m)^\\| `(millrace_\\w+)` \\| (\\w+) \\| (.*?) \\| (.+?) \\|$")

// TestPage: docs/METRICS.md has each metric once, with the help text of Prometheus.
func TestPage(t *testing.T) {
	t.Parallel()
	written := map[string]metric{}
	for _, row := range tableRow.FindAllStringSubmatch(string(must(os.ReadFile("../../docs/METRICS.md"))(t)), -1) {
		if _, twice := written[row[1]]; twice {
			t.Errorf("%s is there twice", row[1])
		}
		labels := strings.FieldsFunc(row[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		slices.Sort(labels)
		written[row[1]] = metric{row[2], labels, row[4]}
	}
	if diff := cmp.Diff(exposed(t), written, cmp.AllowUnexported(metric{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("docs/METRICS.md (-want +got):\n%s", diff)
	}
}
