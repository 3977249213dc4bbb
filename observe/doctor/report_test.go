package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	t.Parallel()
	of := func(severities ...Severity) (findings []Finding) {
		for _, severity := range severities {
			findings = append(findings, of(severity, "", "", ""))
		}
		return findings
	}
	for _, test := range []struct {
		name    string
		report  Report
		ok      bool
		verdict string
		about   []string
	}{
		{"nothing", Report{}, true, "fit for work", nil},
		{"notes", Report{Host: of(Note), Nodes: []Node{{"a", of(OK)}}}, true, "fit for work", []string{"this host", "a"}},
		{
			"warnings", Report{Fleet: of(Warning), Nodes: []Node{{"a", of(OK)}, {"b", of(Warning, Note)}}},
			true, "fit for work, with 2 warnings", []string{"the fleet", "a", "b"},
		},
		{
			"failures", Report{Fleet: of(Critical), Host: of(Warning), Nodes: []Node{{"a", of(Critical)}}},
			false, "not fit for work: 2 critical, 1 warning", []string{"the fleet", "this host", "a"},
		},
	} {
		if got := test.report.count()[Critical] == 0; got != test.ok {
			t.Errorf("%s: OK = %t, want %t", test.name, got, test.ok)
		}
		if got := test.report.Verdict(); got != test.verdict {
			t.Errorf("%s: Verdict = %q, want %q", test.name, got, test.verdict)
		}
		var about []string
		for title := range test.report.Parts() {
			about = append(about, title)
		}
		if diff := cmp.Diff(test.about, about); diff != "" {
			t.Errorf("%s: Parts are about (-want +got):\n%s", test.name, diff)
		}
	}
}
