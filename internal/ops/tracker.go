package ops

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/tracker"
)

// trackerPath is the path of a tracker.
const trackerPath = "/v1/trackers/{name}"

// Tracker names a tracker.
type Tracker struct {
	Name jsontype.Text `arg:"" path:"name" complete:"tracker" doc:"The tracker's name." example:"\"tasks\""`
}

// Structure returns the name.
func (t Tracker) Structure() string { return string(t.Name) }

// ListTrackers lists the trackers.
var ListTrackers = Row{
	ID: "listTrackers", Words: "tracker ls", Method: http.MethodGet, Path: "/v1/trackers", Class: Look,
	Summary:  "List the trackers by name",
	Detail:   "All registered trackers. Every program that writes to a tracker registers it.",
	Examples: []string{"tracker ls", "tracker ls --json"},
	Out:      reflect.TypeFor[Trackers](),
}

// Trackers are the names of trackers.
type Trackers struct {
	Trackers []jsontype.Text `json:"trackers" doc:"Their names, sorted by their bytes."`
	Incomplete
}

// AskTracker asks which identifiers have work queued.
var AskTracker = operation(Row{
	ID: "queued", Words: "tracker queued", Method: http.MethodGet, Path: trackerPath + "/queued", Class: Look,
	Summary:  "Ask whether identifiers have work queued",
	Detail:   "Answered from memory, all as of one moment. Until the first pass over the table is complete, an identifier that was not seen is unknown: then ask the database. Over HTTP at most 1,000 identifiers, in a URL of at most 60 KiB.",
	Examples: []string{"tracker queued tasks item-17 item-18", "tracker queued tasks item-17 --json"},
}, func(ctx context.Context, t *tracker.Tracker, in TrackerQuery) (doc TrackerAnswers, err error) {
	answers, err := t.Queued(ctx, in.IDs...)
	doc.Answers = make([]TrackerAnswer, len(answers))
	for i, a := range answers {
		doc.Answers[i] = TrackerAnswer{jsontype.Text(in.IDs[i]), strings.ReplaceAll(string(a.State), " ", "_"), a.Age.Milliseconds()}
	}
	return doc, err
})

// TrackerQuery is the In of [AskTracker].
type TrackerQuery struct {
	Tracker

	IDs []string `query:"id,explode" required:"true" nullable:"false" minItems:"1" maxItems:"1000" doc:"An identifier; may be repeated." example:"[\"item-17\"]"`
}

// TrackerAnswers is the Out of [AskTracker].
type TrackerAnswers struct {
	Answers []TrackerAnswer `json:"answers" doc:"In the order of the request."`
}

// TrackerAnswer is what a tracker knows about one identifier.
type TrackerAnswer struct {
	ID    jsontype.Text `json:"id" example:"\"item-17\""`
	State string        `json:"state" enum:"queued,not_queued,unknown" doc:"Whether it has work queued; unknown until the first pass over the table is complete." example:"queued"`
	Age   int64         `json:"age_ms" doc:"How old that knowledge is: of queued since it was last seen with work, of not_queued since the last complete pass over the table began." example:"310"`
}

// AddToTracker records that identifiers have work queued.
var AddToTracker = operation(Row{
	ID: "addToTracker", Words: "tracker add", Method: http.MethodPost, Path: trackerPath + "/add", Statuses: []int{http.StatusInsufficientStorage}, Class: Work,
	Summary:  "Record that identifiers have work queued, as of now",
	Detail:   "For producers, after they committed the transaction that queued the work. A pass over the table finds what they do not add.",
	Examples: []string{"tracker add tasks item-17"},
}, func(ctx context.Context, t *tracker.Tracker, in TrackerIDs) (Nothing, error) {
	return Nothing{}, t.Add(ctx, jsontype.Strings(in.IDs)...)
})

// TrackerIDs is the In of [AddToTracker].
type TrackerIDs struct {
	IDs []jsontype.Text `json:"ids" arg:"" name:"id" minItems:"1" maxItems:"1000" doc:"Identifiers of 1 to 512 bytes." example:"[\"item-17\"]"`
}

// GetTrackerStats shows the numbers of a tracker.
var GetTrackerStats = operation(Row{
	ID: "getTrackerStats", Words: "tracker stats", Method: http.MethodGet, Path: trackerPath + "/stats", Class: Look,
	Summary:  "Show how many identifiers are tracked, and how far its passes are",
	Detail:   "A tracker that was never written to tracks nothing and has no pass.",
	Examples: []string{"tracker stats tasks", "tracker stats tasks --json"},
}, func(ctx context.Context, t *tracker.Tracker, _ Tracker) (TrackerStats, error) {
	s, err := t.Stats(ctx)
	return TrackerStats{
		jsontype.Text(s.Name), s.Tracked, s.OldestCheck.Milliseconds(), s.Passes,
		s.PassAge.Milliseconds(), s.PassTime.Milliseconds(), s.CursorAge.Milliseconds(), s.Counters,
	}, err
})

// TrackerStats is the Out of [GetTrackerStats].
type TrackerStats struct {
	Name        jsontype.Text    `json:"name" example:"\"tasks\""`
	Tracked     int              `json:"tracked" doc:"Identifiers." example:"4000"`
	OldestCheck int64            `json:"oldest_check_ms" doc:"The longest time since an identifier was last seen with work: finished work is shown so long at most, and a moment." example:"4100"`
	Passes      int64            `json:"passes" doc:"Complete passes over the table; before the first, answers are unknown." example:"17"`
	PassAge     int64            `json:"pass_age_ms" doc:"Since the last complete pass began; 0 before the first." example:"67000"`
	PassTime    int64            `json:"pass_time_ms" doc:"How long it took." example:"61000"`
	CursorAge   int64            `json:"cursor_age_ms" doc:"Since a row was last read; 0 before the first." example:"900"`
	Counters    tracker.Counters `json:"counters" doc:"Since the tracker began, over all processes."`
}

// DeleteTracker deletes a tracker.
var DeleteTracker = operation(Row{
	ID: "deleteTracker", Words: "tracker rm", Method: http.MethodDelete, Path: trackerPath,
	Class: Change, Action: "tracker.delete", Only: "it is for a server that was restarted from an old snapshot",
	Summary:  "Forget all that a tracker knows",
	Detail:   "Answers are unknown until the next pass over the table is complete. After a restart from an old snapshot, and when the table changes. The answer counts keys.",
	Examples: []string{"tracker rm tasks"},
}, func(ctx context.Context, t *tracker.Tracker, _ Tracker) (doc Deleted, err error) {
	doc.Deleted, err = t.Delete(ctx)
	return doc, err
})
