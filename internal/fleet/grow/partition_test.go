package grow

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/fleet/directory"
)

func TestParseFile(t *testing.T) {
	t.Parallel()
	got, err := ParseFile("fleet.txt", "# two copies\n10.0.0.1:7001@a,10.0.0.2:7001@b # the first\n\n  10.0.0.2:7002,10.0.0.1:7002,weight=2\r\n[::1]:7001@::1\n")
	want := []Partition{
		{Master: directory.Member{Addr: "10.0.0.1:7001", Node: "a"}, Replicas: []directory.Member{{Addr: "10.0.0.2:7001", Node: "b"}}},
		{Master: directory.Member{Addr: "10.0.0.2:7002"}, Replicas: []directory.Member{{Addr: "10.0.0.1:7002"}}, Weight: 2},
		{Master: directory.Member{Addr: "[::1]:7001", Node: "::1"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ParseFile: %v (-want +got):\n%s", err, diff)
	}
}
