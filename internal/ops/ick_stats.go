package ops

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
)

// GetIckStats shows the numbers of a dirty list.
var GetIckStats = operation(Row{
	ID: "getIckStats", Words: "ick stats", Method: http.MethodGet, Path: ickPath + "/stats", Statuses: []int{http.StatusNotFound, http.StatusConflict}, Class: Look,
	Summary:  "Show sizes, ages and counters",
	Detail:   "Ages read scores as Unix seconds. The counters count since the list began, over all processes of Millrace.",
	Examples: []string{"ick stats search", "ick stats search --json"},
}, func(ctx context.Context, k *ick.Ick, _ Ick) (IckStats, error) {
	s, err := k.Stats(ctx)
	doc := IckStats{
		Key: jsontype.Text(s.Name), Version: s.Version, PsetKey: jsontype.Text(s.Waiting.Key), CsetKey: jsontype.Text(s.Reserved.Key),
		PsetSize: s.Waiting.Size, CsetSize: s.Reserved.Size,
		TotalSize: s.Total, DistinctSize: s.Distinct, ParkedSize: s.Parked,
		Counters: IckCounters(s.Counters), At: s.At,
	}
	doc.PsetOldest, doc.PsetNewest = bounds(s.Waiting)
	doc.CsetOldest, doc.CsetNewest = bounds(s.Reserved)
	doc.Oldest, doc.Newest = cmp.Or(doc.PsetOldest, doc.CsetOldest), cmp.Or(doc.PsetNewest, doc.CsetNewest)
	if doc.PsetOldest != nil && doc.CsetOldest != nil {
		oldest, newest := min(*doc.PsetOldest, *doc.CsetOldest), max(*doc.PsetNewest, *doc.CsetNewest)
		doc.Oldest, doc.Newest = &oldest, &newest
	}
	if doc.Oldest != nil && !math.IsInf(float64(*doc.Oldest), 0) {
		seconds := s.OldestAge.Seconds()
		doc.OldestAge = &seconds
	}
	return doc, err
})

// IckStats is the Out of [GetIckStats]: the numbers of the gem and ours.
type IckStats struct {
	Key          jsontype.Text   `json:"key" example:"\"search\""`
	Version      string          `json:"version" example:"ick.v1"`
	PsetKey      jsontype.Text   `json:"pset_key"`
	CsetKey      jsontype.Text   `json:"cset_key"`
	PsetSize     int             `json:"pset_size" doc:"Marks that wait."`
	CsetSize     int             `json:"cset_size" doc:"Marks that are reserved."`
	TotalSize    int             `json:"total_size" doc:"Both; a member in both counts twice."`
	DistinctSize int             `json:"distinct_size" doc:"Both; a member in both counts once."`
	ParkedSize   int             `json:"parked_size"`
	Oldest       *jsontype.Score `json:"oldest_score,omitempty" doc:"The lowest score. Absent when there are no marks."`
	Newest       *jsontype.Score `json:"newest_score,omitempty"`
	PsetOldest   *jsontype.Score `json:"pset_oldest,omitempty"`
	PsetNewest   *jsontype.Score `json:"pset_newest,omitempty"`
	CsetOldest   *jsontype.Score `json:"cset_oldest,omitempty"`
	CsetNewest   *jsontype.Score `json:"cset_newest,omitempty"`
	OldestAge    *float64        `json:"oldest_age_s,omitempty" doc:"In seconds. Absent if there are no marks, or if the oldest score is infinite."`
	Counters     IckCounters     `json:"counters"`
	At           time.Time       `json:"-"` // by the server's clock
}

// IckCounters count since the list began, over all processes of Millrace.
type IckCounters ick.Counters

func bounds(s ick.SetStats) (oldest, newest *jsontype.Score) {
	if s.Size == 0 {
		return nil, nil
	}
	return (*jsontype.Score)(&s.Oldest), (*jsontype.Score)(&s.Newest)
}
