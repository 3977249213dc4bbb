package failover

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// TestElect takes each rule of an election by itself.
func TestElect(t *testing.T) {
	t.Parallel()
	const id = "f/0"
	has := func(offset int64) members.Report {
		return members.Report{Identity: id, History: "h", Offset: offset, Run: "once"}
	}
	again := func(offset int64) members.Report {
		return members.Report{Identity: id, History: "h", Offset: offset, Run: "again"}
	}
	for _, tc := range []struct {
		name      string
		reports   map[string]members.Report
		history   string
		prefer    string
		confirmed int
		want      string // empty for no member
	}{
		{"the furthest", map[string]members.Report{"r1": has(5), "r2": has(7)}, "h", "", 2, "r2"},
		{"the master, of equals", map[string]members.Report{"m": has(7), "r1": has(7), "r2": has(7)}, "h", "", 2, "m"},
		{"the preferred, of equals", map[string]members.Report{"m": has(7), "r1": has(7), "r2": has(7)}, "h", "r2", 2, "r2"},
		{"not the preferred that is behind", map[string]members.Report{"m": has(7), "r2": has(6)}, "h", "r2", 2, "m"},
		{"not of another history", map[string]members.Report{"r1": has(5), "r2": {Run: "once", Identity: id, History: "x", Offset: 99}}, "h", "", 2, "r1"},
		{"nobody of another history", map[string]members.Report{"r2": {Run: "once", Identity: id, History: "x", Offset: 99}}, "h", "", 2, ""},
		{"promoted, and not recorded", map[string]members.Report{"r1": has(5), "r2": {Run: "once", Identity: id, History: "x", Offset: 99, Before: "h", Turned: 7}}, "h", "", 2, "r2"},
		{"promoted by hand before the others went on", map[string]members.Report{"r1": has(5), "r2": {Run: "once", Identity: id, History: "x", Offset: 99, Before: "h", Turned: 4}}, "h", "", 2, "r1"},
		{"pure, of equals", map[string]members.Report{"r1": {Run: "once", Identity: id, History: "x", Before: "h", Turned: 5}, "r2": has(5)}, "h", "", 2, "r2"},
		{"the furthest in a history that the map does not know yet", map[string]members.Report{
			"m":  {Run: "once", Identity: id, History: "x", Offset: 8, Before: "h", Turned: 5},
			"r1": {Run: "once", Identity: id, History: "x", Offset: 9, Before: "h", Turned: 5},
		}, "h", "", 2, "r1"},
		{"not one that lost its data", map[string]members.Report{"r1": has(5), "r2": {History: "h", Offset: 9}}, "h", "", 2, "r1"},
		{"not one of another partition", map[string]members.Report{"r1": has(5), "r2": {Identity: "f/1", History: "h", Offset: 9}}, "h", "", 2, "r1"},
		{"not one that loads", map[string]members.Report{"r1": has(5), "r2": {Run: "once", Identity: id, History: "h", Offset: 9, Loading: true}}, "h", "", 2, "r1"},
		{"not one that has no copy yet", map[string]members.Report{"r1": has(5), "r2": {Run: "once", Identity: id, History: "h", Offset: 9, Copying: true}}, "h", "", 2, "r1"},
		{"not the master with what was on its disk, while others are silent", map[string]members.Report{"m": {Identity: id, History: "new", Run: "again"}}, "h", "", 2, ""},
		{"the master with what was on its disk, if the others have nothing", map[string]members.Report{"m": {Identity: id, History: "new", Run: "again"}, "r1": {}, "r2": {}}, "h", "", 1, "m"},
		{"a replica with more than the master's disk", map[string]members.Report{"m": {Run: "once", Identity: id, History: "new", Offset: 99}, "r1": has(5)}, "h", "", 2, "r1"},
		{"one of two, of which one confirmed", map[string]members.Report{"r1": has(5)}, "h", "", 1, ""},
		{"both of two, of which one confirmed", map[string]members.Report{"r1": has(5), "r2": has(4)}, "h", "", 1, "r1"},
		{"one of two, of which both confirmed", map[string]members.Report{"r1": has(5)}, "h", "", 2, "r1"},
		{"the master, whoever confirmed", map[string]members.Report{"m": has(5)}, "h", "", 1, "m"},
		{"not the master that was started again, if a replica is missing", map[string]members.Report{"m": again(5), "r1": has(5)}, "h", "", 1, ""},
		{"a replica that was started again confirmed nothing that is sure", map[string]members.Report{"r1": again(5), "r2": has(4)}, "h", "", 1, ""},
		{"but it can be elected by those who were not", map[string]members.Report{"r1": again(5), "r2": has(4)}, "h", "", 2, "r1"},
		{"and by all", map[string]members.Report{"m": again(1), "r1": again(5), "r2": again(4)}, "h", "", 1, "r1"},
		{"no history known", map[string]members.Report{"r1": has(5), "r2": has(6)}, "", "", 2, "r2"},
		{"no history known, and the master was started again", map[string]members.Report{
			"m": {Identity: id, History: "new", Offset: 9, Run: "again"}, "r1": has(5), "r2": has(6),
		}, "", "", 2, "r2"},
		{"nobody", nil, "h", "", 2, ""},
	} {
		p := directory.Partition{
			History: tc.history, Prefer: tc.prefer, Master: directory.Member{Addr: "m", Run: "once"},
			Replicas: []directory.Member{{Addr: "r1", Run: "once"}, {Addr: "r2", Run: "once"}},
		}
		got, err := ballot{fleet: "f", p: p, reports: tc.reports, confirmed: tc.confirmed, maxAge: time.Hour}.elect()
		if got.Addr != tc.want || errors.Is(err, ErrNobody) != (tc.want == "") {
			t.Errorf("%s: elect = %q, %v, want %q", tc.name, got.Addr, err, tc.want)
		}
	}
}

// TestElectByAMapOfBeforeAJoin: a later map may have named the new member as a replica, and a
// writer may have relied on it alone.
func TestElectByAMapOfBeforeAJoin(t *testing.T) {
	t.Parallel()
	at := func(offset int64) members.Report {
		return members.Report{Identity: "f/0", History: "h", Offset: offset, Run: "once"}
	}
	before := &directory.Map{Fleet: "f", Partitions: []directory.Partition{{
		History: "h", Master: directory.Member{Addr: "m", Run: "once"}, Replicas: []directory.Member{{Addr: "r", Run: "once"}},
		Task: &directory.Task{Plan: "p", Add: &directory.Member{Addr: "j"}},
	}}}
	p := before.ElectAnew(2).Partitions[0]
	for _, tc := range []struct {
		reports map[string]members.Report
		want    string
	}{
		{map[string]members.Report{"r": at(4)}, ""},
		{map[string]members.Report{"j": at(5)}, ""},
		{map[string]members.Report{"r": at(4), "j": at(5)}, "j"},
		{map[string]members.Report{"m": at(5), "r": at(4)}, "m"},
	} {
		if got, err := (ballot{fleet: "f", p: p, reports: tc.reports, confirmed: 1, maxAge: time.Hour}).elect(); got.Addr != tc.want || errors.Is(err, ErrNobody) != (tc.want == "") {
			t.Errorf("elect of %v = %q, %v, want %q", tc.reports, got.Addr, err, tc.want)
		}
	}
	if before.Partitions[0].Task.Add == nil || len(before.Partitions[0].Replicas) != 1 {
		t.Error("the map of before has changed")
	}
}

// TestElectWhileAReplicaLeaves: a writer with an older map may have relied on that replica alone.
func TestElectWhileAReplicaLeaves(t *testing.T) {
	t.Parallel()
	at := func(offset int64) members.Report {
		return members.Report{Identity: "f/0", History: "h", Offset: offset, Run: "once"}
	}
	p := directory.Partition{
		History: "h", Master: directory.Member{Addr: "m", Run: "once"}, Replicas: []directory.Member{{Addr: "r", Run: "once"}},
		Leaving: &directory.Member{Addr: "l", Run: "once"},
	}
	for _, tc := range []struct {
		reports map[string]members.Report
		want    string
	}{
		{map[string]members.Report{"r": at(4)}, ""},
		{map[string]members.Report{"r": at(4), "l": at(5)}, "l"},
		{map[string]members.Report{"m": at(5), "r": at(4)}, "m"},
	} {
		if got, err := (ballot{fleet: "f", p: p, reports: tc.reports, confirmed: 1, maxAge: time.Hour}).elect(); got.Addr != tc.want || errors.Is(err, ErrNobody) != (tc.want == "") {
			t.Errorf("elect of %v = %q, %v, want %q", tc.reports, got.Addr, err, tc.want)
		}
	}
}

// TestElectByAStaleMap: the directory has lost maps, so the master that it names may be a
// former one. It counts like a replica, and not at all if it was restarted.
func TestElectByAStaleMap(t *testing.T) {
	t.Parallel()
	at := func(run string, offset int64) members.Report {
		return members.Report{Identity: "f/0", History: "h", Offset: offset, Run: run}
	}
	for _, tc := range []struct {
		name    string
		reports map[string]members.Report
		want    string
	}{
		{"not the master alone", map[string]members.Report{"m": at("once", 5)}, ""},
		{"the master as one of two", map[string]members.Report{"m": at("once", 5), "r1": at("once", 4)}, "m"},
		{"not the master as one of two, if it was restarted", map[string]members.Report{"m": at("again", 5), "r1": at("once", 4)}, ""},
		{"a replica that was promoted since", map[string]members.Report{
			"m": at("once", 9), "r1": {Identity: "f/0", History: "x", Before: "h", Turned: 5, Offset: 6, Floor: 8, Run: "once"},
		}, "r1"},
		{"all of them, restarted or not", map[string]members.Report{"m": at("again", 5), "r1": at("again", 4), "r2": at("once", 3)}, "m"},
	} {
		p := directory.Partition{
			Stale: true, History: "h", Floor: 7, Master: directory.Member{Addr: "m", Run: "once"},
			Replicas: []directory.Member{{Addr: "r1", Run: "once"}, {Addr: "r2", Run: "once"}},
		}
		got, err := ballot{fleet: "f", p: p, reports: tc.reports, confirmed: 1, maxAge: time.Hour}.elect()
		if got.Addr != tc.want || errors.Is(err, ErrNobody) != (tc.want == "") {
			t.Errorf("%s: elect = %q, %v, want %q", tc.name, got.Addr, err, tc.want)
		}
	}
}

// TestElectRestarted members, of any files: a beat says how new each one is.
func TestElectRestarted(t *testing.T) {
	t.Parallel()
	has := func(run, history string, offset, epoch, count int64) members.Report {
		return members.Report{Identity: "f/0", History: history, Offset: offset, Run: run, Beat: members.Beat{Epoch: epoch, Count: count}}
	}
	const again, once = "again", "once"
	for _, tc := range []struct {
		name    string
		reports map[string]members.Report
		newest  members.Beat
		restore string
		want    string
		err     error
	}{
		{"a complete append-only file before an old dump", map[string]members.Report{
			"m": has(again, "chance", 3, 5, 90), "r1": has(again, "h", 900, 5, 40), "r2": {},
		}, members.Beat{Epoch: 5, Count: 90}, "", "m", nil},
		{"the same of a replica", map[string]members.Report{
			"m": has(again, "h", 900, 5, 40), "r1": has(again, "chance", 3, 5, 90), "r2": has(again, "chance 2", 900, 5, 89),
		}, members.Beat{Epoch: 5, Count: 90}, "", "r1", nil},
		{"a later promotion before a master that went on counting", map[string]members.Report{
			"m": has(again, "x", 900, 5, 95), "r1": has(again, "y", 3, 6, 91), "r2": {},
		}, members.Beat{Epoch: 6, Count: 91}, "", "r1", nil},
		{"the offset, of equal beats in one history", map[string]members.Report{
			"m": has(again, "h", 7, 5, 90), "r1": has(again, "h", 9, 5, 90), "r2": has(again, "x", 99, 5, 90),
		}, members.Beat{Epoch: 5, Count: 90}, "", "r1", nil},
		{"the last master, of equal beats", map[string]members.Report{
			"m": has(again, "x", 7, 5, 90), "r1": has(again, "y", 9, 5, 90), "r2": has(again, "z", 99, 5, 90),
		}, members.Beat{Epoch: 5, Count: 90}, "", "m", nil},
		{"one that was not restarted, of equal beats", map[string]members.Report{
			"m": has(again, "x", 7, 5, 90), "r1": has(once, "h", 9, 5, 90), "r2": has(once, "h", 8, 5, 89),
		}, members.Beat{Epoch: 5, Count: 90}, "", "r1", nil},
		{"a master whose file has more than a replica that lags", map[string]members.Report{
			"m": has(again, "x", 7, 5, 90), "r1": has(once, "h", 9, 5, 88), "r2": has(once, "h", 8, 5, 87),
		}, members.Beat{Epoch: 5, Count: 90}, "", "m", nil},
		{"none while a member is silent, and too few have all that they confirmed", map[string]members.Report{
			"m": has(again, "x", 7, 5, 90), "r1": has(again, "h", 9, 5, 90),
		}, members.Beat{Epoch: 5, Count: 90}, "", "", ErrNobody},
		{"three beats behind", map[string]members.Report{
			"m": has(again, "x", 7, 5, 87), "r1": {}, "r2": {},
		}, members.Beat{Epoch: 5, Count: 90}, "", "m", nil},
		{"not four beats behind", map[string]members.Report{
			"m": has(again, "x", 7, 5, 86), "r1": {}, "r2": {},
		}, members.Beat{Epoch: 5, Count: 90}, "", "", ErrOld},
		{"not a replica that lags so far", map[string]members.Report{
			"r1": has(once, "h", 9, 5, 86), "r2": has(once, "h", 8, 5, 85),
		}, members.Beat{Epoch: 5, Count: 90}, "", "", ErrOld},
		{"any data while no newer beat is known", map[string]members.Report{
			"m": has(again, "x", 7, 0, 0), "r1": {}, "r2": {},
		}, members.Beat{}, "", "m", nil},
		{"the chosen one, with older data", map[string]members.Report{
			"m": has(again, "x", 7, 5, 90), "r2": has(again, "x", 7, 5, 3),
		}, members.Beat{Epoch: 5, Count: 90}, "r2", "r2", nil},
		{"not another than the chosen one", map[string]members.Report{
			"m": has(once, "h", 7, 5, 90), "r1": has(once, "h", 7, 5, 90),
		}, members.Beat{Epoch: 5, Count: 90}, "r2", "", ErrNobody},
		{"the chosen one, with the chosen file", map[string]members.Report{
			"m": has(once, "h", 7, 5, 90), "r2": has(once, "file", 1, 5, 3),
		}, members.Beat{Epoch: 5, Count: 90}, "r2 file", "r2", nil},
		{"not the chosen one before it has the chosen file", map[string]members.Report{
			"m": has(once, "h", 7, 5, 90), "r2": has(once, "h", 7, 5, 90),
		}, members.Beat{Epoch: 5, Count: 90}, "r2 file", "", ErrNobody},
		{"not a member that is left with the file of a choice that was taken back", map[string]members.Report{
			"m": has(again, "x", 7, 5, 89), "r1": has(once, "h", 9, 5, 90), "r2": has(once, "file", 99, 5, 3),
		}, members.Beat{Epoch: 5, Count: 90}, "", "r1", nil},
		{"not the chosen one without data", map[string]members.Report{
			"m": has(once, "h", 7, 5, 90), "r2": {},
		}, members.Beat{Epoch: 5, Count: 90}, "r2", "", ErrNobody},
	} {
		addr, history, _ := strings.Cut(tc.restore, " ")
		p := directory.Partition{
			History: "h", Restore: addr, RestoreHistory: history, Master: directory.Member{Addr: "m", Run: once},
			Replicas: []directory.Member{{Addr: "r1", Run: once}, {Addr: "r2", Run: once}},
		}
		got, err := ballot{"f", p, tc.reports, 1, tc.newest, 3 * time.Second}.elect()
		if got.Addr != tc.want && tc.err == nil || !errors.Is(err, tc.err) {
			t.Errorf("%s: elect = %q, %v, want %q, %v", tc.name, got.Addr, err, tc.want, tc.err)
		}
	}
}
