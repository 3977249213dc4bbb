package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/reqid"
)

// routeBrowse adds the operations that show messages without taking them, and those on dead ones.
func (a *API) routeBrowse() {
	onQueue(a, op(http.MethodGet, queuePath+"/browse", "browseMessages", "Show messages without taking them",
		"Waiting messages flow by flow, in order; others by the time when they become visible. A call visits 1,000 messages at most, so for one of many tenants it may return fewer than max, or none, and still a next.",
		http.StatusNotFound), browseMessages)
	onQueue(a, op(http.MethodGet, queuePath+"/dead", "listDead", "List dead messages, the oldest death first",
		"Messages that were delivered too often, or that a reader made dead. A page ends early after a mebibyte, so it may have fewer than max messages, and still a next.",
		http.StatusNotFound), listDead)
	askQueue(a, ops.SearchMessages)
	onQueue(a, op(http.MethodGet, queuePath+"/dead/groups", "groupDead", "Count dead messages by their reason, the largest group first",
		"Of dead messages that match, among a limited number that it examines; it says where to continue.",
		http.StatusNotFound), groupDead)
	onQueue(a, op(http.MethodPost, queuePath+"/dead/redrive", "redriveDead", "Redeliver dead messages",
		"They wait again, as if they had never been delivered, and without their deadline. Messages that are not dead are ignored. With match, a call examines a limited number of messages, and says where to continue.",
		http.StatusNotFound, http.StatusInsufficientStorage),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[deadChoice]) (doc redriven, err error) {
			if len(in.Body.IDs) == 0 {
				// A repeat finds fewer dead messages: under the request id of the first
				// call it would count as done.
				ctx = reqid.With(ctx, "")
			}
			doc.Redriven.Redriven, doc.Search, err = in.Body.change(ctx, q, q.Dead().Redrive, q.Dead().RedriveMatching)
			return doc, err
		})
	onQueue(a, op(http.MethodPost, queuePath+"/dead/purge", "purgeDead", "Delete dead messages",
		"Messages that are not dead are ignored. With match, a call examines a limited number of messages, and says where to continue.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[deadChoice]) (doc purged, err error) {
			doc.Purged.Purged, doc.Search, err = in.Body.change(ctx, q, q.Dead().Purge, q.Dead().PurgeMatching)
			return doc, err
		})
	onQueue(a, op(http.MethodPost, queuePath+"/dead/keep", "keepDead", "Limit how many dead messages are kept, and for how long",
		"When another message dies, the oldest are dropped and counted.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[keepRequest]) (document.KeptDead, error) {
			most, age := fairqueue.DefaultDeadMost, fairqueue.DefaultDeadAge
			if in.Body.Max != nil {
				most = *in.Body.Max
			}
			if in.Body.Age != nil {
				age = in.Body.Age.Duration
			}
			return document.KeptDead{Max: most, Age: age.Milliseconds()}, q.Dead().Keep(ctx, most, age)
		})
}

// Page selects a page of messages.
type Page struct {
	Max   int    `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"The largest number of messages."`
	After string `query:"after" doc:"Where to continue: next of the previous page. Defaults to the beginning."`
}

type browseRequest struct {
	Named
	Page

	Place  string `query:"place" default:"waiting" enum:"waiting,in_flight,delayed" doc:"The state of the messages."`
	Tenant string `query:"tenant" doc:"Only the messages of this tenant. Defaults to all tenants." example:"acme"`
}

type browsedMessages struct {
	Messages []ops.BrowsedMessage `json:"messages"`
	Next     string               `json:"next" doc:"Where to continue; empty at the end."`
}

func browseMessages(ctx context.Context, q *fairqueue.Queue, in *browseRequest) (browsedMessages, error) {
	messages, next, err := q.Browse(ctx, fairqueue.BrowseConfig{
		State: fairqueue.State(in.Place), Tenant: in.Tenant, Max: in.Max, After: in.After,
	})
	return browsedMessages{ops.BrowsedMessages(messages), next}, err
}

type deadRequest struct {
	Named
	Page
}

type deadMessages struct {
	Dead []document.DeadMessage `json:"dead"`
	Next string                 `json:"next" doc:"Where to continue; empty at the end."`
}

func listDead(ctx context.Context, q *fairqueue.Queue, in *deadRequest) (deadMessages, error) {
	messages, next, err := q.Browse(ctx, fairqueue.BrowseConfig{State: fairqueue.Dead, Max: in.Max, After: in.After})
	doc := deadMessages{make([]document.DeadMessage, len(messages)), next}
	for i, m := range messages {
		doc.Dead[i] = document.OfDead(m)
	}
	return doc, err
}

type deadChoice struct {
	IDs   []string   `json:"ids,omitempty" minItems:"1" maxItems:"1000" doc:"Ids of dead messages." example:"[\"1795226400110405\"]"`
	All   bool       `json:"all,omitempty" doc:"All dead messages, instead of ids."`
	Match *deadMatch `json:"match,omitempty" doc:"Dead messages that have all this, instead of ids."`
}

type deadMatch struct {
	Reason  document.Text            `json:"reason,omitempty" doc:"The reason, whole. Defaults to any." example:"\"no such article\""`
	Tenant  document.Text            `json:"tenant,omitempty" doc:"The tenant. Defaults to any." example:"\"acme\""`
	Headers map[string]document.Text `json:"headers,omitempty" doc:"Headers with these values."`
	Text    document.Text            `json:"text,omitempty" doc:"In the body. Defaults to any." example:"\"order\""`
	Look    int                      `json:"look,omitempty" minimum:"1" maximum:"100000" doc:"How many dead messages to examine. Defaults to 10000." example:"10000"`
	After   string                   `json:"after,omitempty" doc:"Where to continue: next of the call before. Defaults to the beginning."`
}

func (m deadMatch) config() fairqueue.SearchConfig {
	cfg := fairqueue.SearchConfig{
		Reason: string(m.Reason), Tenant: string(m.Tenant), Text: string(m.Text), Look: cmp.Or(m.Look, 10_000), After: m.After,
		Headers: make(map[string]string, len(m.Headers)),
	}
	for name, value := range m.Headers {
		cfg.Headers[name] = string(value)
	}
	return cfg
}

// redriven and purged say how far a search came, if there was one.
type redriven struct {
	document.Redriven

	Search *ops.Searched `json:"search,omitempty" doc:"With match, how far the call came."`
}

type purged struct {
	document.Purged

	Search *ops.Searched `json:"search,omitempty" doc:"With match, how far the call came."`
}

// change redrives or purges the chosen messages.
func (c deadChoice) change(ctx context.Context, q *fairqueue.Queue, named func(context.Context, ...string) (int, error),
	matching func(context.Context, fairqueue.SearchConfig) (int, fairqueue.Found, error),
) (int, *ops.Searched, error) {
	if c.Match != nil && !c.All && len(c.IDs) == 0 {
		n, found, err := matching(ctx, c.Match.config())
		far := ops.SearchedOf(found)
		return n, &far, err
	}
	ids, err := c.of(ctx, q)
	if err != nil {
		return 0, nil, err
	}
	n, err := named(ctx, ids...)
	return n, nil, err
}

// of returns the ids of the chosen messages.
func (c deadChoice) of(ctx context.Context, q *fairqueue.Queue) (ids []string, err error) {
	if c.All == (len(c.IDs) > 0) || c.Match != nil {
		return nil, errRequest.Errorf("give one of ids, match and all")
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

type keepRequest struct {
	Max *int               `json:"max,omitempty" minimum:"0" doc:"How many; 0 for all. Defaults to 10000." example:"10000"`
	Age *document.Duration `json:"age,omitempty" doc:"How long; 0s for ever. Defaults to 2160h, 90 days." example:"720h"`
}
