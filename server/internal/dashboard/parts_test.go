package dashboard

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/steal"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		readable.Number(0): "0", readable.Number(-1234): "-1,234", readable.Number(1234567): "1,234,567",
		rate(0): "0", rate(0.04): "< 0.1", rate(12.34): "12.3", rate(1204.4): "1,204", rate(math.NaN()): "–",
		percent(0): "0%", percent(0.006): "0.6%", percent(0.78): "78%", percent(1): "100%",
		odds(0): "never", odds(1): "always", odds(1.0 / 120): "once in 120 pairs", odds(0.5): "in 50% of all pairs",
		ago(0): "–", ago(65 * time.Second): "1m5s", readable.Count(1, "mark"): "1 mark", readable.Count(1200, "mark"): "1,200 marks",
		inUnit("bytes", 2048): "2 kB", inUnit("rate", 2): "2/s", inUnit("count", 2000): "2,000",
		sentence("i/o timeout"): "I/o timeout.", sentence(""): "",
		clock(time.Unix(1_700_000_000, 0), time.Unix(1_700_003_599, 0)):                "23:13:19 UTC",
		clock(time.Unix(1_700_000_000, 0), time.Unix(1_700_007_200, 0).In(time.Local)): "2023-11-15 00:13:20 UTC",
		exact(time.Unix(1_700_000_000, 5e6).In(time.FixedZone("there", 3600))):         "2023-11-14 22:13:20.005 UTC",
		left(90*time.Second + 900*time.Millisecond):                                    "1m30s",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPreviews(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		want preview
	}{
		{"", preview{Kind: "text", Size: "0 B"}},
		{`{"a": [1,2]}`, preview{Kind: "JSON", Text: "{\n  \"a\": [\n    1,\n    2\n  ]\n}", Size: "12 B", Excerpt: `{"a":[1,2]}`}},
		{"one\n two", preview{Kind: "text", Text: "one\n two", Size: "8 B", Excerpt: "one two"}},
		{"\x00\xff", preview{Kind: "bytes", Text: "00000000  00 ff                                             |..|\n", Size: "2 B", Excerpt: "00ff"}},
	} {
		if diff := cmp.Diff(c.want, newPreview([]byte(c.body))); diff != "" {
			t.Errorf("%q: %s", c.body, diff)
		}
	}
	for size := maxText - 5; size < maxText+5; size++ { // characters of three bytes end where they like
		p := newPreview([]byte(strings.Repeat("a", size%3) + strings.Repeat("€", size/3+10)))
		if p.Kind != "text" || !p.Cut || len(p.Text) > maxText || len(p.Text) < maxText-3 {
			t.Errorf("a text of %s is %s, %d bytes shown, cut %v", p.Size, p.Kind, len(p.Text), p.Cut)
		}
	}
	if p := newPreview(slices.Repeat([]byte{0}, maxHex+1)); !p.Cut || p.Kind != "bytes" {
		t.Errorf("%d zeros are %+v", maxHex+1, p)
	}
	if p := newPreview([]byte(`"` + strings.Repeat("x", maxJSON) + `"`)); p.Kind != "text" || !p.Cut {
		t.Errorf("large JSON is %s, cut %v", p.Kind, p.Cut)
	}
}

// Deeply nested JSON is not indented: indenting would square its size.
func TestDeepDocumentsAreNotIndented(t *testing.T) {
	t.Parallel()
	nested := func(inner string, depth int) []byte {
		return []byte(strings.Repeat("["+inner, depth) + "7" + strings.Repeat("]", depth))
	}
	for _, inner := range []string{"", `"]",`, "1e999,"} {
		if p := newPreview(nested(inner, maxNested)); p.Kind != "JSON" {
			t.Errorf("what is nested %d deep behind %q is %s", maxNested, inner, p.Kind)
		}
		for _, depth := range []int{maxNested + 1, 5000} {
			if p := newPreview(nested(inner, depth)); p.Kind != "text" || strings.Contains(p.Text, "\n") {
				t.Errorf("what is nested %d deep behind %q is %s and indented", depth, inner, p.Kind)
			}
		}
	}
}

func TestSpark(t *testing.T) {
	t.Parallel()
	if got := newSpark(nil); got != (spark{}) {
		t.Errorf("a spark of nothing is %+v", got)
	}
	if got := newSpark([]float64{0, 0}); got != (spark{}) {
		t.Errorf("a spark of zeros is %+v", got)
	}
	got := newSpark([]float64{0, 2})
	if want := (spark{Line: "M98.3 23L100 1", Area: "M98.3 23L100 1V24H98.3Z", Most: 2}); got != want {
		t.Errorf("spark = %+v, want %+v", got, want)
	}
	if long := newSpark(slices.Repeat([]float64{1}, 500)); !strings.HasPrefix(long.Line, "M0 1L") {
		t.Errorf("a long spark begins with %.20q", long.Line)
	}
}

func TestMemoForgetsWithTheNextView(t *testing.T) {
	t.Parallel()
	var m memo
	built := 0
	build := func() int { built++; return built }
	one, two := &survey.View{}, &survey.View{}
	got := []int{remember(&m, one, "a", build), remember(&m, one, "a", build), remember(&m, one, "b", build), remember(&m, two, "a", build)}
	if diff := cmp.Diff([]int{1, 1, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
}

// troubled is a View in which nothing is well.
func troubled() *survey.View {
	v := viewOf(5)
	v.Queues[0].Paused, v.Queues[0].Dead, v.Queues[0].OldestAge = true, 2, time.Hour
	v.Queues = append(v.Queues, fairqueue.Stats{
		Name: "flooded", Waiting: 1010, OldestAge: time.Hour, Readers: []queuestats.Reader{{}}, Flows: []queuestats.Flow{
			{Tenant: "acme", Stream: -1, Waiting: 1000, OldestAge: time.Hour}, {Tenant: "b", Stream: -1, Waiting: 10, OldestAge: 7 * time.Second},
		},
	})
	v.Icks = []ick.Stats{{Name: "documents", Parked: 3, OldestAge: time.Hour}}
	v.Channels = []ick.ChannelStats{{Name: "images", Waiting: 1}}
	v.Troubles = []survey.Trouble{{Kind: survey.Lease, Name: "broken", Err: errors.New("a key is of a wrong type")}}
	v.LeftOut = map[survey.Kind]int{survey.Queue: 7}
	v.Server.Nodes = []survey.NodeView{{Addr: "10.0.0.1:6379", Role: "master", Memory: 95, MaxMemory: 100, Evicted: 3}}
	v.Fleet = &survey.FleetView{Status: fleet.Status{State: fleet.Partial, Epoch: 7, Partitions: []fleet.PartitionStatus{
		{ID: 0, State: fleet.Healthy, Share: 0.75, Master: fleet.MemberStatus{Addr: "10.0.0.1:7001", Node: "a", State: fleet.Up},
			Replicas: []fleet.MemberStatus{{Addr: "10.0.0.2:7002", Node: "b", State: fleet.Up}}, Memory: 50, MaxMemory: 100, Tags: 1200},
		{ID: 1, Generation: 1, State: fleet.Partial, Share: 0.25, Master: fleet.MemberStatus{Addr: "10.0.0.2:7003", State: fleet.Up},
			Replicas: []fleet.MemberStatus{{Addr: "10.0.0.1:7004", State: fleet.Down, Error: "refused"}}, Busy: 0.95},
	}},
		Events:    []directory.Event{{At: time.Now(), Agent: "agent-1", Partition: 1, Epoch: 7, What: "10.0.0.1:7004 is down"}},
		Snapshots: snapshot.Ages{Now: time.Now(), Partitions: []directory.Snapshot{{Partition: 0, Saved: directory.Saved{At: time.Now().Add(-time.Hour), Addr: "10.0.0.2:7002"}}, {Partition: 1, Failed: directory.Failed{At: time.Now(), Why: "no room"}}}, Saved: snapshot.Exposure{Longest: time.Hour, None: []int{1}}, Archived: snapshot.Exposure{Partition: -1}},
	}
	return v
}

func TestOverviewNamesTrouble(t *testing.T) {
	t.Parallel()
	h := on(t, newStage(troubled()))
	page := h.get("/").want(http.StatusOK)
	for _, want := range []string{
		"Lease broken could not be read: a key is of a wrong type.", "Partition 1 is partial. 10.0.0.1:7004 is down.",
		"uses 95 B of 100 B.", "has evicted 3 keys", "Queue orders is paused, and 5 messages wait.", "Queue orders has 2 dead letters.",
		"Queue flooded is flooded by tenant acme: 1,000 of 1,010 waiting messages are its own; meanwhile 10 messages wait of others, the oldest for 7s.",
		"Stop it with: millrace queue tenant pause flooded acme.", "Dirty list documents has 3 parked", "Channel images has no consumer",
		"could not be saved: no room.",
	} {
		page.says(want)
	}
	h = on(t, newStage(viewOf(0)))
	h.get("/").want(http.StatusOK).says("All is well")
	h = on(t, newStage(&survey.View{At: time.Now(), Named: time.Now()}))
	h.get("/").want(http.StatusOK).says("This Redis is empty")
}

func TestFleetIsShown(t *testing.T) {
	t.Parallel()
	h := on(t, newStage(troubled()))
	page := h.get("/fleet").want(http.StatusOK)
	page.figures(map[string]string{"state": "partial", "epoch": "7", "partitions": "2", "tags": "1,200", "exposure": "all of partition 1, and up to 1h0m0s of the others"})
	page.says("10.0.0.1:7004 is down")
	page.says("50 B of 100 B")
	if got := page.one("data-partition", "1"); !strings.Contains(got, "partial") || !strings.Contains(got, "gen 1") || !strings.Contains(got, "95%") {
		t.Errorf("partition 1 is %q", got)
	}
}

func TestExposure(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]snapshot.Exposure{
		"everything":                 {Partition: -1},
		"up to 1m0s, of partition 3": {Partition: 3, Longest: time.Minute},
		"all of partition 1 and 2, and up to 1m0s of the others": {Partition: 3, Longest: time.Minute, None: []int{2, 1}},
		"all of 6 partitions, and up to 1m0s of the others":      {Partition: 9, Longest: time.Minute, None: []int{1, 2, 3, 4, 5, 6}},
	} {
		if got := exposure(e); got != want {
			t.Errorf("exposure = %q, want %q", got, want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	bar, words := outcomes(steal.JobStats{Worked: 5, Idle: 4, Aborted: 1})
	if want := []stripe{{"worked", "0", "50"}, {"idle", "50", "40"}, {"aborted", "90", "10"}}; !slices.Equal(bar, want) {
		t.Errorf("bar = %v, want %v", bar, want)
	}
	if want := "50% worked, 40% idle and 10% aborted"; words != want {
		t.Errorf("words = %q, want %q", words, want)
	}
	if got, want := aborts(steal.JobStats{Failed: 2, Busy: 1}), "2 failed, 1 without a slot"; got != want {
		t.Errorf("aborts = %q, want %q", got, want)
	}
	if bar, words := outcomes(steal.JobStats{}); bar != nil || words != "no slice has run yet" {
		t.Errorf("a job without recruits is %v, %q", bar, words)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	var d Dashboard
	if got := d.problem(millrace.ErrUnavailable.Wrap(errors.New("READONLY"))); got.Status != http.StatusServiceUnavailable {
		t.Errorf("a page of a server that refuses calls has the status %d, want %d", got.Status, http.StatusServiceUnavailable)
	}
	for want, err := range map[int]error{
		http.StatusNotFound:            millrace.ErrNotFound,
		http.StatusBadRequest:          millrace.ErrBadName.Errorf("no name"),
		http.StatusForbidden:           errReadOnly,
		http.StatusMethodNotAllowed:    errMethod,
		http.StatusServiceUnavailable:  fmt.Errorf("wrapped: %w", errors.New("connection refused")),
		http.StatusInternalServerError: &millrace.Error{Code: "broken", Message: "a key is of a wrong type"},
	} {
		if got := d.problem(err); got.Status != want || got.Title == "" || got.Message == "" {
			t.Errorf("problem(%v) = %+v, want %d", err, got, want)
		}
	}
}
