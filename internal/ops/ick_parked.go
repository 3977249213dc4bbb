package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
)

// ListParked lists members that failed.
var ListParked = operation(Row{
	ID: "listParked", Words: "ick parked ls", Method: http.MethodGet, Path: ickPath + "/parked", Statuses: []int{http.StatusNotFound, http.StatusConflict}, Class: Look,
	Summary:  "List parked members, the next retry first",
	Detail:   "Members that wait for a retry because a consumer's handler failed on them.",
	Examples: []string{"ick parked ls search", "ick parked search --json"},
}, func(ctx context.Context, k *ick.Ick, in ParkedQuery) (doc ParkedPage, err error) {
	doc.Parked = []ParkedMember{}
	for p, err := range k.Parked(ctx) {
		if doc.More = err == nil && in.Max > 0 && len(doc.Parked) == in.Max; err != nil || doc.More {
			return doc, err
		}
		doc.Parked = append(doc.Parked, ParkedMember{
			Member: jsontype.Text(p.Member), Score: jsontype.Score(p.Score), Attempts: p.Attempts,
			ParkedAt: p.At.UTC(), Until: jsontype.Time(p.Until), Reason: p.Reason,
		})
	}
	return doc, nil
})

// ParkedQuery is the In of [ListParked]. The command asks for all: its Max is 0.
type ParkedQuery struct {
	Ick

	Max int `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"The largest number of members."`
}

// ParkedPage is the Out of [ListParked].
type ParkedPage struct {
	ParkedList

	More bool `json:"more" doc:"There are more members."`
}

// ParkedList is members that failed and wait for a retry.
type ParkedList struct {
	Parked []ParkedMember `json:"parked" doc:"The next retry first."`
}

// ParkedMember is a member that failed and waits for a retry.
type ParkedMember struct {
	Member   jsontype.Text  `json:"member" example:"\"doc:17\""`
	Score    jsontype.Score `json:"score" example:"1700000000"`
	Attempts int            `json:"attempts" doc:"How often it failed." example:"1"`
	ParkedAt time.Time      `json:"parked_at" doc:"By the server's clock, in UTC."`
	Until    *time.Time     `json:"until,omitempty" doc:"When it is retried. Absent if only a new mark or an operator ends the wait."`
	Reason   string         `json:"reason" doc:"Why it failed last." example:"too large"`
}

// RetryParked retries members that failed.
var RetryParked = operation(Row{
	ID: "retryParked", Words: "ick parked retry", Method: http.MethodPost, Path: ickPath + "/parked/retry", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "ick.retry", Form: "icks/retry",
	Summary:  "Retry parked members now",
	Detail:   "With their old scores; their attempts are kept. Members that are not parked are ignored.",
	Examples: []string{"ick parked retry search doc:17 doc:18", "ick parked retry search --all"},
}, func(ctx context.Context, k *ick.Ick, in ParkedChoice) (doc Retried, err error) {
	doc.Retried, err = in.each(ctx, k, k.Retry)
	return doc, err
})

// Retried is the Out of [RetryParked].
type Retried struct {
	Retried int `json:"retried" doc:"How many of them were parked, and are retried." example:"1"`
}

// DropParked deletes members that failed.
var DropParked = operation(Row{
	ID: "dropParked", Words: "ick parked rm", Method: http.MethodPost, Path: ickPath + "/parked/drop", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "ick.drop", Form: "icks/drop",
	Summary:  "Delete parked members",
	Detail:   "Members that are not parked are ignored.",
	Examples: []string{"ick parked rm search doc:17", "ick parked rm search --all"},
}, func(ctx context.Context, k *ick.Ick, in ParkedChoice) (doc Dropped, err error) {
	doc.Dropped, err = in.each(ctx, k, k.Drop)
	return doc, err
})

// Dropped is the Out of [DropParked].
type Dropped struct {
	Dropped int `json:"dropped" doc:"How many of them were parked, and are deleted." example:"1"`
}

// ParkedChoice is the In of [RetryParked] and [DropParked].
type ParkedChoice struct {
	Members []jsontype.Text `json:"members,omitempty" arg:"" optional:"" name:"member" minItems:"1" maxItems:"1000" doc:"Parked members." example:"[\"doc:17\"]"`
	All     bool            `json:"all,omitempty" doc:"All parked members, instead of members."`
}

// Chosen reports whether either members or all are chosen.
func (c ParkedChoice) Chosen() bool { return c.All != (len(c.Members) > 0) }

// each calls do with the chosen members, and returns how many it counted.
func (c ParkedChoice) each(ctx context.Context, k *ick.Ick, do func(context.Context, ...string) (int, error)) (int, error) {
	if !c.Chosen() {
		return 0, ErrRequest.Errorf("give either members or all")
	}
	members := jsontype.Strings(c.Members)
	if c.All {
		for p, err := range k.Parked(ctx) {
			if err != nil {
				return 0, err
			}
			members = append(members, p.Member)
		}
	}
	return do(ctx, members...)
}
