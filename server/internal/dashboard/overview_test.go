package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/lease"
)

// A part is not shown as the whole.
func TestWhatIsLeftOutIsSaidFirst(t *testing.T) {
	t.Parallel()
	v := troubled()
	for i := range maxNotices {
		v.Queues = append(v.Queues, fairqueue.Stats{Name: fmt.Sprint("paused-", i), Paused: true})
	}
	v.Leases = []lease.Info{{Name: "a", Held: true}}
	v.LeftOut = map[survey.Kind]int{survey.Queue: 1204, survey.Channel: 2, survey.Lease: 3, survey.Keys: 4}
	page := on(t, newStage(v)).get("/").want(http.StatusOK)
	first := slices.Collect(nodes(page.root, func(n *html.Node) bool { return n.Data == "li" }))[0]
	if got, want := text(first), "note This is not all: 1,204 more of kind queue, 2 more of kind channel, 4 more of kind namespace of pinned values and 3 more of kind lease"; !strings.HasPrefix(got, want) {
		t.Errorf("the first notice is %q, want %q", got, want)
	}
	for title, want := range map[string]string{
		"Queues": "1,015 waiting in the first 14", "Dirty lists": "1 dirty in the first 2", "Leases": "1 held in the first 1", "Namespaces": "4 of hashes and values",
	} {
		// The first of that name is the section of the navigation.
		if got := page.all("data-key", title)[1]; !strings.Contains(got, want) {
			t.Errorf("the card is %q, want %q", got, want)
		}
	}
	page.says("of all queues and dirty lists in the first 16")

	page = on(t, newStage(viewOf(5))).get("/").want(http.StatusOK)
	if strings.Contains(text(page.root), "in the first") {
		t.Error("all that is there is shown as a part")
	}
}

// A fleet that refuses all writes is said to, once; else single partitions are.
func TestFleetThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	const whole = "Fleet refuses writes; reads continue."
	partition := func(id int, s fleet.State, master fleet.MemberState) fleet.PartitionStatus {
		return fleet.PartitionStatus{ID: id, State: s, Master: fleet.MemberStatus{State: master}}
	}
	readOnly, out := partition(0, fleet.ReadOnly, fleet.Up), partition(1, fleet.Out, fleet.Down)
	for name, c := range map[string]struct {
		partitions []fleet.PartitionStatus
		want       []string
	}{
		"unconfirmed":          {[]fleet.PartitionStatus{readOnly, readOnly}, []string{whole}},
		"and one is lost":      {[]fleet.PartitionStatus{readOnly, out}, []string{whole, "Partition is out."}},
		"masters are down":     {[]fleet.PartitionStatus{partition(0, fleet.ReadOnly, fleet.Down)}, []string{"Partition is read-only."}},
		"one partition is not": {[]fleet.PartitionStatus{readOnly, partition(1, fleet.Healthy, fleet.Up)}, []string{"Partition is read-only."}},
	} {
		var got []string
		for _, n := range new(Dashboard).fleetNotices(&survey.FleetView{Status: fleet.Status{Partitions: c.partitions}}) {
			got = append(got, n.Kind+" "+n.Text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: notices (-want +got):\n%s", name, diff)
		}
	}
}
