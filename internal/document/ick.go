package document

import (
	"cmp"
	"math"
	"time"

	"github.com/millrace/millrace/ick"
)

// Icks are the names of dirty lists.
type Icks struct {
	Icks []Text `json:"icks" doc:"Their names, sorted by their bytes."`
	Incomplete
}

// Marked is the result of an add.
type Marked struct {
	New     int `json:"new" doc:"Members that were not waiting." example:"2"`
	Lowered int `json:"lowered" doc:"Members that now have a lower score." example:"0"`
}

// Entry is a member with its score.
type Entry struct {
	Member Text  `json:"member" example:"\"doc:17\""`
	Score  Score `json:"score" example:"1700000003.25"`
}

// Reserved is a batch to work on.
type Reserved struct {
	Token   string  `json:"token" doc:"Identifies the reservation for commit and exchange; empty if there is no such list." example:"1-DV6JPA2Y"`
	Entries []Entry `json:"entries" doc:"The oldest marks, oldest first. Every reserve returns them again until they are committed."`
}

// OfReservation converts a batch.
func OfReservation(r ick.Reservation) Reserved {
	doc := Reserved{Token: r.Token, Entries: make([]Entry, len(r.Entries))}
	for i, e := range r.Entries {
		doc.Entries[i] = Entry{Text(e.Member), Score(e.Score)}
	}
	return doc
}

// Committed is the result of a commit.
type Committed struct {
	Committed int `json:"committed" doc:"Members that are done." example:"2"`
	Kept      int `json:"kept" doc:"Members that were marked and reserved again after the token was issued; they will be returned again." example:"0"`
}

// Exchanged is the result of a commit with the next batch.
type Exchanged struct {
	Reserved
	Committed
}

// Parked are members that failed and wait for a retry.
type Parked struct {
	Parked []ParkedMember `json:"parked" doc:"The next retry first."`
}

// ParkedMember is a member that failed and waits for a retry.
type ParkedMember struct {
	Member   Text       `json:"member" example:"\"doc:17\""`
	Score    Score      `json:"score" example:"1700000000"`
	Attempts int        `json:"attempts" doc:"How often it failed." example:"1"`
	ParkedAt time.Time  `json:"parked_at" doc:"By the server's clock, in UTC."`
	Until    *time.Time `json:"until,omitempty" doc:"When it is retried. Absent if only a new mark or an operator ends the wait."`
	Reason   string     `json:"reason" doc:"Why it failed last." example:"too large"`
}

// OfParked converts a parked member.
func OfParked(p ick.Parked) ParkedMember {
	return ParkedMember{
		Member: Text(p.Member), Score: Score(p.Score), Attempts: p.Attempts, ParkedAt: p.At.UTC(), Until: Time(p.Until), Reason: p.Reason,
	}
}

// Retried counts parked members that are retried.
type Retried struct {
	Retried int `json:"retried" doc:"How many of them were parked, and are retried." example:"1"`
}

// Dropped counts deleted parked members.
type Dropped struct {
	Dropped int `json:"dropped" doc:"How many of them were parked, and are deleted." example:"1"`
}

// IckStats has the numbers of a dirty list, those of the gem and ours.
type IckStats struct {
	Key          Text        `json:"key" example:"\"search\""`
	Version      string      `json:"version" example:"ick.v1"`
	PsetKey      Text        `json:"pset_key"`
	CsetKey      Text        `json:"cset_key"`
	PsetSize     int         `json:"pset_size" doc:"Marks that wait."`
	CsetSize     int         `json:"cset_size" doc:"Marks that are reserved."`
	TotalSize    int         `json:"total_size" doc:"Both; a member in both counts twice."`
	DistinctSize int         `json:"distinct_size" doc:"Both; a member in both counts once."`
	ParkedSize   int         `json:"parked_size"`
	Oldest       *Score      `json:"oldest_score,omitempty" doc:"The lowest score. Absent when there are no marks."`
	Newest       *Score      `json:"newest_score,omitempty"`
	PsetOldest   *Score      `json:"pset_oldest,omitempty"`
	PsetNewest   *Score      `json:"pset_newest,omitempty"`
	CsetOldest   *Score      `json:"cset_oldest,omitempty"`
	CsetNewest   *Score      `json:"cset_newest,omitempty"`
	OldestAge    *float64    `json:"oldest_age_s,omitempty" doc:"In seconds. Absent if there are no marks, or if the oldest score is infinite."`
	Counters     IckCounters `json:"counters"`
}

// IckCounters count since the list began, over all processes of Millrace.
type IckCounters ick.Counters

// OfIckStats converts the numbers of a dirty list.
func OfIckStats(s ick.Stats) IckStats {
	doc := IckStats{
		Key: Text(s.Name), Version: s.Version, PsetKey: Text(s.Waiting.Key), CsetKey: Text(s.Reserved.Key),
		PsetSize: s.Waiting.Size, CsetSize: s.Reserved.Size,
		TotalSize: s.Total, DistinctSize: s.Distinct, ParkedSize: s.Parked,
		Counters: IckCounters(s.Counters),
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
	return doc
}

func bounds(s ick.SetStats) (oldest, newest *Score) {
	if s.Size == 0 {
		return nil, nil
	}
	return (*Score)(&s.Oldest), (*Score)(&s.Newest)
}
