package dashboard

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/survey"
)

// A part of a fleet that could not be read is not shown as absent.
func TestFleetThatCannotBeRead(t *testing.T) {
	t.Parallel()
	v := troubled()
	v.Fleet.Events, v.Fleet.Snapshots = nil, snapshot.Ages{}
	v.Troubles = []survey.Trouble{
		{Kind: survey.Fleet, Name: survey.FleetEvents, Err: errors.New("no quorum")},
		{Kind: survey.Fleet, Name: survey.FleetSnapshots, Err: errors.New("no time")},
	}
	page := on(t, newStage(v)).get("/fleet").want(http.StatusOK)
	page.says("Events Events could not be read: no quorum.")
	page.says("Snapshots Snapshots could not be read: no time.")
	for _, absent := range []string{"Nothing yet", "Nobody has taken any"} {
		if strings.Contains(text(page.root), absent) {
			t.Errorf("the page says %q", absent)
		}
	}
	v = viewOf(1)
	v.Troubles = []survey.Trouble{{Kind: survey.Fleet, Err: errors.New("no directory")}}
	page = on(t, newStage(v)).get("/fleet").want(http.StatusOK)
	page.says("The fleet could not be read No directory.")
	if strings.Contains(text(page.root), "no fleet") {
		t.Error("a fleet that cannot be read is said not to be there")
	}
}

// The page shows the findings of the last check, and equal findings about several members once.
func TestFleetChecks(t *testing.T) {
	t.Parallel()
	v := troubled()
	on(t, newStage(v)).get("/fleet").want(http.StatusOK).says("Not checked yet")
	save := func(addr string) check.Finding {
		return check.Finding{Check: "settings", Finding: finding.Finding{Severity: finding.Warning, Code: "save", Text: "it has save points", Advice: `CONFIG SET save "".`}, Partition: 1, Member: addr}
	}
	v.Fleet.Checked = time.Now()
	v.Fleet.Findings = []check.Finding{
		{Check: "settings", Finding: finding.Finding{Severity: finding.Critical, Code: "evicts", Text: "it may evict any key", Advice: "CONFIG SET maxmemory-policy noeviction."}, Partition: 0, Member: "10.0.0.1:7001"},
		save("10.0.0.2:7003"),
		save("10.0.0.1:7004"),
		{Check: "tags", Finding: finding.Finding{Severity: finding.OK, Code: "ok", Text: "one home for each of 100 tags"}, Partition: check.Fleetwide},
	}
	h := on(t, newStage(v))
	page := h.get("/fleet").want(http.StatusOK)
	for _, want := range []string{
		"Checks 1 critical, 2 warning", "settings critical 10.0.0.1:7001 (partition 0): it may evict any keyCONFIG SET maxmemory-policy noeviction.",
		`settings warning 10.0.0.2:7003 (partition 1), 10.0.0.1:7004 (partition 1): it has save pointsCONFIG SET save "".`,
		"tags ok one home for each of 100 tags", "All of them: millrace fleet check --all",
	} {
		page.says(want)
	}
	h.get("/").want(http.StatusOK).says("Fleet fails a check: settings.")
}
