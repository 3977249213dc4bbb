package ops

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/redis/reqid"
)

const deadPath = queuePath + "/dead"

// ListDead lists dead messages. The command searches among them.
var ListDead = operation(Row{
	ID: "listDead", Words: "queue dead ls", Method: http.MethodGet, Path: deadPath, Statuses: []int{http.StatusNotFound},
	Class:   Look,
	Summary: "List dead messages, the oldest death first",
	Detail:  "Messages that were delivered too often, or that a reader made dead. A page ends early after a mebibyte, so it may have fewer messages than were asked for, and still say where to continue.",
	Examples: []string{
		"queue dead ls orders",
		"queue dead orders --tenant acme --reason 'card expired' --json",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in DeadPage) (DeadMessages, error) {
	messages, next, err := q.Browse(ctx, fairqueue.BrowseConfig{State: fairqueue.Dead, Max: in.Max, After: in.After})
	return DeadMessages{OfDead(messages), next}, err
})

// DeadPage is the In of [ListDead].
type DeadPage struct {
	Queue
	Page
}

// DeadMessages is the Out of [ListDead].
type DeadMessages struct {
	Dead []DeadMessage `json:"dead"`
	Next string        `json:"next" doc:"Where to continue; empty at the end."`
}

// GroupDead counts dead messages by their reason.
var GroupDead = operation(Row{
	ID: "groupDead", Words: "queue dead groups", Method: http.MethodGet, Path: deadPath + "/groups", Statuses: []int{http.StatusNotFound},
	Class:    Look,
	Summary:  "Count dead messages by their reason, the largest group first",
	Detail:   "Of dead messages that match, among a limited number that it examines; it says where to continue. Reasons that differ in numbers only are one, with # in place of those numbers.",
	Examples: []string{"queue dead groups orders", "queue dead groups orders --tenant acme"},
}, func(ctx context.Context, q *fairqueue.Queue, in DeadSearch) (doc DeadGroups, err error) {
	cfg, err := in.Config()
	if err != nil {
		return doc, err
	}
	cfg.State = fairqueue.Dead
	all, found, err := q.Failures(ctx, cfg)
	return OfGroups(all, found), err
})

// DeadSearch selects messages that failed.
type DeadSearch struct {
	Queue
	Search
	Reason jsontype.Text `query:"reason" placeholder:"TEXT" doc:"Their reason: the whole text, or one with # in place of numbers. Defaults to any." example:"\"no such article\""`
}

// Config returns the selection. Errors: [millrace.ErrBadArgument].
func (d DeadSearch) Config() (fairqueue.SearchConfig, error) {
	cfg, err := d.Search.Config()
	cfg.Reason = string(d.Reason)
	return cfg, err
}

// DeadGroups is the Out of [GroupDead].
type DeadGroups struct {
	Groups []Group `json:"groups"`
	Searched
}

// RedriveDead retries dead messages.
var RedriveDead = operation(Row{
	ID: "redriveDead", Words: "queue dead redrive", Method: http.MethodPost, Path: deadPath + "/redrive",
	Statuses: []int{http.StatusNotFound, http.StatusInsufficientStorage},
	Class:    Change, Action: "queue.redrive", Form: "queues/redrive",
	Summary: "Redeliver dead messages",
	Detail:  "They wait again, as if they had never been delivered, and without their deadline. Messages that are not dead are ignored, and a message must have all that is given. With match, a call over HTTP examines a limited number of messages, and says where to continue.",
	Examples: []string{
		"queue dead redrive orders 1795226400123456",
		"queue dead redrive orders --reason 'card expired' --dry-run",
		"queue dead redrive orders --tenant acme",
		"queue dead redrive orders --all",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in DeadChoice) (doc Redriven, err error) {
	if len(in.IDs) == 0 {
		// A repeat finds fewer dead messages: under the request id of the first call it
		// would count as done.
		ctx = reqid.With(ctx, "")
	}
	doc.Redriven, doc.Search, err = in.change(ctx, q, q.Dead().Redrive, func(ctx context.Context, cfg fairqueue.SearchConfig) (int, fairqueue.Found, error) {
		cfg.State = fairqueue.Dead
		return q.Retry(ctx, cfg)
	})
	return doc, err
})

// PurgeDead deletes dead messages.
var PurgeDead = operation(Row{
	ID: "purgeDead", Words: "queue dead purge", Method: http.MethodPost, Path: deadPath + "/purge", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "queue.purge", Form: "queues/purge",
	Summary: "Delete dead messages",
	Detail:  "Messages that are not dead are ignored, and a message must have all that is given. With match, a call over HTTP examines a limited number of messages, and says where to continue.",
	Examples: []string{
		"queue dead purge orders 1795226400123456",
		"queue dead purge orders --reason 'card expired' --dry-run",
		"queue dead purge orders --all --yes",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in DeadChoice) (doc Purged, err error) {
	doc.Purged, doc.Search, err = in.change(ctx, q, q.Dead().Purge, q.Dead().PurgeMatching)
	return doc, err
})

// DeadChoice is the In of [RedriveDead] and [PurgeDead].
type DeadChoice struct {
	IDs   []string `json:"ids,omitempty" minItems:"1" maxItems:"1000" doc:"Ids of dead messages." example:"[\"1795226400110405\"]"`
	All   bool     `json:"all,omitempty" doc:"All dead messages, instead of ids."`
	Match *Match   `json:"match,omitempty" doc:"Dead messages that have all this, instead of ids."`
}

// Match selects messages that failed.
type Match struct {
	Reason  jsontype.Text            `json:"reason,omitempty" doc:"The reason: the whole text, or one with # in place of numbers. Defaults to any." example:"\"no such article\""`
	Tenant  jsontype.Text            `json:"tenant,omitempty" doc:"The tenant. Defaults to any." example:"\"acme\""`
	Headers map[string]jsontype.Text `json:"headers,omitempty" doc:"Headers with these values."`
	Text    jsontype.Text            `json:"text,omitempty" doc:"In the body. Defaults to any." example:"\"order\""`
	Look    int                      `json:"look,omitempty" minimum:"1" maximum:"100000" doc:"How many messages to examine. Defaults to 10000." example:"10000"`
	After   string                   `json:"after,omitempty" doc:"Where to continue: next of the call before. Defaults to the beginning."`
}

func (m Match) config() fairqueue.SearchConfig {
	cfg := fairqueue.SearchConfig{
		Reason: string(m.Reason), Tenant: string(m.Tenant), Text: string(m.Text), Look: cmp.Or(m.Look, 10_000), After: m.After,
		Headers: make(map[string]string, len(m.Headers)),
	}
	for name, value := range m.Headers {
		cfg.Headers[name] = string(value)
	}
	return cfg
}

// Redriven is the Out of [RedriveDead].
type Redriven struct {
	Redriven int `json:"redriven" doc:"How many of them were dead, and wait again." example:"1"`

	Search *Searched `json:"search,omitempty" doc:"With match, how far the call came."`
}

// Purged is the Out of [PurgeDead].
type Purged struct {
	Purged int `json:"purged" doc:"How many of them were dead, and are deleted." example:"1"`

	Search *Searched `json:"search,omitempty" doc:"With match, how far the call came."`
}

// change redrives or purges the chosen messages.
func (c DeadChoice) change(ctx context.Context, q *fairqueue.Queue, named func(context.Context, ...string) (int, error),
	matching func(context.Context, fairqueue.SearchConfig) (int, fairqueue.Found, error),
) (int, *Searched, error) {
	if c.Match != nil && !c.All && len(c.IDs) == 0 {
		n, found, err := matching(ctx, c.Match.config())
		far := SearchedOf(found)
		return n, &far, err
	}
	ids, err := c.ids(ctx, q)
	if err != nil {
		return 0, nil, err
	}
	n, err := named(ctx, ids...)
	return n, nil, err
}

// ids returns the ids of the chosen messages.
func (c DeadChoice) ids(ctx context.Context, q *fairqueue.Queue) (ids []string, err error) {
	if c.All == (len(c.IDs) > 0) || c.Match != nil {
		return nil, ErrRequest.Errorf("give one of ids, match and all")
	}
	if !c.All {
		return c.IDs, nil
	}
	if _, err := q.Stats(ctx); err != nil { // Dead yields nothing for a missing queue
		return nil, err
	}
	for m, err := range q.Dead().All(ctx) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, m.ID)
	}
	return ids, nil
}

// KeepDead limits the dead messages of a queue.
var KeepDead = operation(Row{
	ID: "keepDead", Words: "queue dead keep", Method: http.MethodPost, Path: deadPath + "/keep", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "queue.keep-dead", Only: "an operator sets it once, and the pages do not show it",
	Summary:  "Limit how many dead messages are kept, and for how long",
	Detail:   "When another message dies, the oldest are dropped and counted.",
	Examples: []string{"queue dead keep orders --most 1000 --age 720h", "queue dead keep orders --most 0 --age 0"},
}, func(ctx context.Context, q *fairqueue.Queue, in DeadLimits) (KeptDead, error) {
	most, age := fairqueue.DefaultDeadMost, fairqueue.DefaultDeadAge
	if in.Max != nil {
		most = *in.Max
	}
	if in.Age != nil {
		age = in.Age.Duration
	}
	return KeptDead{Max: most, Age: age.Milliseconds()}, q.Dead().Keep(ctx, most, age)
})

// DeadLimits is the In of [KeepDead].
type DeadLimits struct {
	Max *int               `json:"max,omitempty" name:"most" placeholder:"N" minimum:"0" doc:"How many; 0 for all. Defaults to 10000." example:"10000"`
	Age *jsontype.Duration `json:"age,omitempty" placeholder:"DURATION" doc:"How long; 0s for ever. Defaults to 2160h, 90 days." example:"720h"`
}

// DeadAfter sets after how many attempts a message is dead.
var DeadAfter = operation(Row{
	ID: "deadAfter", Words: "queue dead after", Method: http.MethodPost, Path: deadPath + "/after", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "queue.dead-after", Only: "an operator sets it once, and the pages do not show it",
	Summary:  "Set after how many attempts a message is dead",
	Detail:   "It counts for the service, the command, and programs that set no MaxAttempts of their own. A program that does sets its number with its next write.",
	Examples: []string{"queue dead after orders --attempts 25", "queue dead after orders"},
}, func(ctx context.Context, q *fairqueue.Queue, in Attempts) (Attempts, error) {
	return in, q.Dead().After(ctx, in.Attempts)
})

// Attempts is the In and the answer of [DeadAfter].
type Attempts struct {
	Attempts int `json:"attempts" placeholder:"N" minimum:"0" maximum:"1000000" doc:"The deliveries of a message without an acknowledgement; 0 for the default, 5." example:"25"`
}

// DeadMessage is a message that was delivered too often, or that a reader made dead.
type DeadMessage struct {
	ID        string                   `json:"id" example:"1795226400110405"`
	Tenant    jsontype.Text            `json:"tenant" example:"\"acme\""`
	Body      jsontype.Text            `json:"body" example:"\"{\\\"order\\\":18}\""`
	Attempts  int                      `json:"attempts" doc:"How often it was delivered." example:"5"`
	WrittenAt time.Time                `json:"written_at" doc:"By the server's clock, in UTC."`
	Reason    jsontype.Text            `json:"reason" doc:"Why it is dead." example:"\"no such article\""`
	Headers   map[string]jsontype.Text `json:"headers" doc:"Empty when there are none."`
}

// OfDead converts dead messages.
func OfDead(messages []fairqueue.Message) []DeadMessage {
	list := make([]DeadMessage, len(messages))
	for i, m := range messages {
		list[i] = DeadMessage{m.ID, jsontype.Text(m.Tenant), jsontype.Text(m.Body), m.Attempt, m.Written.UTC(), jsontype.Text(m.Reason), OfHeaders(m.Headers)}
	}
	return list
}

// KeptDead limits the dead messages of a queue.
type KeptDead struct {
	Max int   `json:"max" doc:"How many; 0 for all." example:"10000"`
	Age int64 `json:"age_ms" doc:"For how long; 0 for ever." example:"2592000000"`
}
