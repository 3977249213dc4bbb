package api

import (
	"context"
	"strings"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
)

// SearchQuery selects messages by their fields.
type SearchQuery struct {
	Named

	Tenant  string   `query:"tenant" doc:"The tenant. Defaults to any." example:"acme"`
	ID      string   `query:"id" doc:"The id of one message. Defaults to any." example:"1795226400110405"`
	Headers []string `query:"header,explode" nullable:"false" maxItems:"20" doc:"A header and its value, as NAME=VALUE; may be repeated." example:"[\"kind=invoice\"]"`
	Text    string   `query:"text" doc:"In the body. Defaults to any." example:"order"`
	Reason  string   `query:"reason" doc:"The reason of dead messages, whole. Defaults to any." example:"no such article"`
	Look    int      `query:"look" default:"10000" minimum:"1" maximum:"100000" doc:"The largest number of messages to examine."`
	After   string   `query:"after" doc:"Where to continue: next of the previous page. Defaults to the beginning."`
}

func (in SearchQuery) config() (fairqueue.SearchConfig, error) {
	cfg := fairqueue.SearchConfig{
		Tenant: in.Tenant, ID: in.ID, Text: in.Text, Reason: in.Reason, Look: in.Look, After: in.After,
		Headers: make(map[string]string, len(in.Headers)),
	}
	for _, pair := range in.Headers {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return cfg, errRequest.Errorf("a header is NAME=VALUE, not %q", pair)
		}
		cfg.Headers[name] = value
	}
	return cfg, nil
}

// Searched is how far a search came.
type Searched struct {
	Looked int    `json:"looked" doc:"How many messages were examined." example:"1"`
	Total  int    `json:"total" doc:"How many messages of all tenants are in the state." example:"1"`
	Next   string `json:"next" doc:"Where to continue; empty at the end."`
}

func searchedOf(f fairqueue.Found) Searched { return Searched{f.Looked, f.Total, f.Next} }

type searchMessagesRequest struct {
	SearchQuery

	State string `query:"state" default:"waiting" enum:"waiting,in_flight,delayed,dead" doc:"The state of the messages."`
	Max   int    `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"How many matches end the search; up to 49 more are returned."`
}

type foundMessages struct {
	Messages []browsedMessage `json:"messages"`
	Searched
}

func searchMessages(ctx context.Context, q *fairqueue.Queue, in *searchMessagesRequest) (doc foundMessages, err error) {
	cfg, err := in.config()
	if err != nil {
		return doc, err
	}
	cfg.State, cfg.Max = fairqueue.State(in.State), in.Max
	found, err := q.Search(ctx, cfg)
	return foundMessages{browsed(found.Messages), searchedOf(found)}, err
}

type deadGroups struct {
	Groups []deadGroup `json:"groups"`
	Searched
}

type deadGroup struct {
	Reason document.Text `json:"reason" doc:"Why they are dead." example:"\"no such article\""`
	Count  int           `json:"count" doc:"How many have it." example:"1"`
	Oldest time.Time     `json:"oldest" doc:"The first death, in UTC."`
	Newest time.Time     `json:"newest" doc:"The last death, in UTC."`
}

func groupDead(ctx context.Context, q *fairqueue.Queue, in *SearchQuery) (doc deadGroups, err error) {
	cfg, err := in.config()
	if err != nil {
		return doc, err
	}
	groups, found, err := q.Dead().Groups(ctx, cfg)
	doc = deadGroups{make([]deadGroup, len(groups)), searchedOf(found)}
	for i, g := range groups {
		doc.Groups[i] = deadGroup{document.Text(g.Reason), g.Count, g.Oldest.UTC(), g.Newest.UTC()}
	}
	return doc, err
}
