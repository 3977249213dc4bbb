package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
)

const (
	batchesPath = queuePath + "/batches"
	batchPath   = batchesPath + "/{batch}"
)

// BatchID names a batch of a queue.
type BatchID struct {
	Queue jsontype.Text `arg:"" path:"name" complete:"queue" doc:"The queue's name, 1 to 512 bytes." example:"\"imports\""`
	ID    string        `arg:"" name:"id" path:"batch" doc:"The id of the batch." example:"1795226400100321"`
}

// Structure returns the name of the queue.
func (b BatchID) Structure() string { return string(b.Queue) }

// CreateBatch makes a batch.
var CreateBatch = operation(Row{
	ID: "createBatch", Words: "batch create", Method: http.MethodPost, Path: batchesPath,
	Statuses: []int{http.StatusCreated, http.StatusInsufficientStorage},
	Class:    Work, Only: "programs create batches, and write their messages",
	Summary: "Create a batch",
	Detail:  "A batch counts messages that are written with its id. When all of them were acknowledged, have died, expired or were cancelled, or after 30 days, the queue writes the message that is described here, once, with the counts in headers that begin with millrace-batch. Creates the queue if there is none.",
	Examples: []string{
		`batch create imports --total 300 --tenant acme --body '{"import":17}'`,
		"batch create imports --tenant acme --body done",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in BatchDraft) (doc CreatedBatch, err error) {
	done := Draft{
		Tenant: in.Tenant, Body: in.Body, JSON: in.JSON, Headers: in.Headers, Priority: in.Priority, Cost: in.Cost, Deadline: in.Deadline,
	}
	if err := done.Check(); err != nil {
		return doc, err
	}
	doc.ID, err = q.Batches().Create(ctx, in.Total, done.Message())
	return doc, err
})

// BatchDraft is the In of [CreateBatch]: how many messages, and the message of the end.
type BatchDraft struct {
	Total    int                      `json:"total,omitempty" placeholder:"N" minimum:"0" maximum:"1000000000" doc:"How many messages it will have. Defaults to 0: any number, until it is closed." example:"300"`
	Tenant   jsontype.Text            `json:"tenant" placeholder:"T" required:"true" doc:"The tenant of the message that says that it is done; 1 to 512 bytes." example:"\"acme\""`
	Body     jsontype.Text            `json:"body,omitempty" placeholder:"TEXT" doc:"The content of that message; with its tenant and headers at most 16 KiB." example:"\"{\\\"import\\\":17}\""`
	JSON     jsontype.JSON            `json:"json,omitempty" kong:"-" doc:"The content as a JSON value, instead of body. It is stored without blanks."`
	Headers  map[string]jsontype.Text `json:"headers,omitempty" name:"header" placeholder:"K=V" doc:"Metadata beside the body, as UTF-8 text. Defaults to none."`
	Priority int                      `json:"priority,omitempty" placeholder:"P" minimum:"-4" maximum:"4" doc:"The rank of that message among those of its tenant, from -4 for last to 4 for first. Defaults to 0." example:"1"`
	Cost     int                      `json:"cost,omitempty" placeholder:"N" minimum:"1" maximum:"1000000" doc:"What that message costs. Defaults to 1." example:"350"`
	Deadline jsontype.Duration        `json:"deadline,omitzero" placeholder:"DURATION" doc:"How long after the end that message expires. Defaults to never." example:"1h"`
}

// CreatedBatch is the Out of [CreateBatch].
type CreatedBatch struct {
	ID string `json:"id" doc:"The batch's id, for its messages. Write it down before them." example:"1795226400100321"`
}

// ListBatches lists batches of a queue.
var ListBatches = operation(Row{
	ID: "listBatches", Words: "batch ls", Method: http.MethodGet, Path: batchesPath,
	Class:    Look,
	Summary:  "List batches",
	Detail:   "Those that are not done, the newest first, and then those that are. 10,000 deadlines are examined, of batches and of messages, the latest ones. A queue that does not exist has none.",
	Examples: []string{"batch ls imports", "batch ls imports --json"},
}, func(ctx context.Context, q *fairqueue.Queue, _ Queue) (Batches, error) {
	doc := Batches{Batches: []Batch{}}
	for b, err := range q.Batches().All(ctx) {
		if err != nil {
			return doc, err
		}
		doc.Batches = append(doc.Batches, OfBatch(b))
	}
	return doc, nil
})

// GetBatch shows a batch.
var GetBatch = operation(Row{
	ID: "getBatch", Words: "batch show", Method: http.MethodGet, Path: batchPath, Statuses: []int{http.StatusNotFound},
	Class:    Look,
	Summary:  "Show the progress of a batch",
	Detail:   "How many messages it has, and how they ended. A batch that is done is forgotten after a day, or after a minute if the queue has more than 10,000.",
	Examples: []string{"batch show imports 1795226400100321", "batch show imports 1795226400100321 --json | jq .left"},
}, func(ctx context.Context, q *fairqueue.Queue, in BatchID) (Batch, error) {
	b, err := q.Batches().Get(ctx, in.ID)
	return OfBatch(b), err
})

// CloseBatch says that a batch has all its messages.
var CloseBatch = operation(Row{
	ID: "closeBatch", Words: "batch close", Method: http.MethodPost, Path: batchPath + "/close", Statuses: []int{http.StatusNotFound},
	Class: Work, Form: "batches/close",
	Summary:  "Say that a batch has all its messages",
	Detail:   "It takes no more, and is done when those that it has have ended. A batch with a total needs that only if it gets fewer. One that is cancelled or done stays as it is.",
	Examples: []string{"batch close imports 1795226400100321"},
}, func(ctx context.Context, q *fairqueue.Queue, in BatchID) (Batch, error) {
	b, err := q.Batches().Close(ctx, in.ID)
	return OfBatch(b), err
})

// CancelBatch ends a batch early.
var CancelBatch = operation(Row{
	ID: "cancelBatch", Words: "batch cancel", Method: http.MethodPost, Path: batchPath + "/cancel", Statuses: []int{http.StatusNotFound},
	Class: Withdraw, Action: "batch.cancel", Form: "batches/cancel",
	Summary:  "Cancel the messages of a batch that wait",
	Detail:   "None of them is delivered from now on. Each is removed when its turn comes, or when its delay has ended. Those in flight may end. Then the batch is done, and its message is written.",
	Examples: []string{"batch cancel imports 1795226400100321"},
}, func(ctx context.Context, q *fairqueue.Queue, in BatchID) (Batch, error) {
	b, err := q.Batches().Cancel(ctx, in.ID)
	return OfBatch(b), err
})

// Batch is a batch and what became of its messages so far.
type Batch struct {
	ID        string    `json:"id" example:"1795226400100321"`
	State     string    `json:"state" enum:"open,cancelled,done" doc:"Open: its messages are counted. Cancelled: none that waits is delivered. Done: its message was written." example:"open"`
	Total     *int      `json:"total,omitempty" doc:"How many messages it will have. Absent until that is known." example:"300"`
	Written   int       `json:"written" doc:"How many it has." example:"300"`
	Left      int       `json:"left" doc:"How many of them have not ended." example:"12"`
	Handled   int       `json:"handled" doc:"How many were acknowledged." example:"286"`
	Dead      int       `json:"dead" doc:"How many died. One that is redriven counts no more." example:"2"`
	Cancelled int       `json:"cancelled" doc:"How many were cancelled."`
	Expired   int       `json:"expired" doc:"How many expired."`
	CreatedAt time.Time `json:"created_at" doc:"By the server's clock, in UTC."`
	Until     time.Time `json:"until" doc:"When it is done at the latest; of one that is done when it is forgotten. In UTC."`
}

// Batches is the Out of [ListBatches].
type Batches struct {
	Batches []Batch `json:"batches"`
}

// OfBatch converts a batch.
func OfBatch(b fairqueue.Batch) Batch {
	doc := Batch{
		ID: b.ID, State: b.State, Written: b.Written, Left: b.Left, Handled: b.Handled, Dead: b.Dead, Cancelled: b.Cancelled, Expired: b.Expired,
		CreatedAt: b.Created.UTC(), Until: b.Until.UTC(),
	}
	if b.Total >= 0 {
		doc.Total = &b.Total
	}
	return doc
}

// Ended returns how many of its messages have ended.
func (b Batch) Ended() int { return b.Written - b.Left }
