package dashboard

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/survey"
)

// What could not be read of a fleet is not said to be absent.
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
