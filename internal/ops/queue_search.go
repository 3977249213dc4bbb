package ops

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
)

// SearchMessages looks for messages by their content.
var SearchMessages = operation(Row{
	ID: "searchMessages", Words: "queue browse", Method: http.MethodGet, Path: queuePath + "/search", Statuses: []int{http.StatusNotFound},
	Class:   Look,
	Summary: "Show messages that match, and take none",
	Detail:  "A message must have all that is given. A call examines a limited number of messages, and says where to continue: a page without a match may have a next, and one with a mebibyte of matches is the last of its call.",
	Examples: []string{
		"queue browse orders",
		`queue browse orders --tenant acme --text '"order":17'`,
		"queue browse orders --state dead --header kind=invoice",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in MessageSearch) (doc FoundMessages, err error) {
	cfg, err := in.Config()
	if err != nil {
		return doc, err
	}
	cfg.State, cfg.Reason, cfg.Max = fairqueue.State(in.State), string(in.Reason), in.Max
	found, err := q.Search(ctx, cfg)
	return FoundMessages{BrowsedMessages(found.Messages), SearchedOf(found)}, err
})

// MessageSearch is the In of [SearchMessages].
type MessageSearch struct {
	Queue
	Search

	Reason jsontype.Text `query:"reason" placeholder:"TEXT" doc:"Why messages are dead, or were given back last and are delayed: the whole text, or one with # in place of numbers. Defaults to any." example:"\"no such article\""`
	State  string        `query:"state" placeholder:"STATE" default:"waiting" enum:"waiting,in_flight,delayed,dead" doc:"The state of the messages."`
	Max    int           `query:"max" name:"most" placeholder:"N" default:"100" minimum:"1" maximum:"1000" doc:"How many matches end the search; up to 49 more are returned."`
}

// Content selects messages by what is in them.
type Content struct {
	Tenant  jsontype.Text `query:"tenant" placeholder:"NAME" complete:"tenant" doc:"The tenant. Defaults to any." example:"\"acme\""`
	Headers []string      `query:"header,explode" name:"header" sep:"none" placeholder:"NAME=VALUE" nullable:"false" maxItems:"20" doc:"A header and its value, as NAME=VALUE. May be repeated." example:"[\"kind=invoice\"]"`
	Text    jsontype.Text `query:"text" placeholder:"TEXT" doc:"In the body. Defaults to any." example:"\"order\""`
}

// Config returns the selection. Errors: [millrace.ErrBadArgument].
func (c Content) Config() (fairqueue.SearchConfig, error) {
	cfg := fairqueue.SearchConfig{Tenant: string(c.Tenant), Text: string(c.Text), Headers: make(map[string]string, len(c.Headers))}
	for _, pair := range c.Headers {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return cfg, millrace.ErrBadArgument.Errorf("a header is NAME=VALUE, not %q", pair)
		}
		cfg.Headers[name] = value
	}
	return cfg, nil
}

// Search selects messages, and says how far to look.
type Search struct {
	Content

	ID    string `query:"id" name:"id" placeholder:"ID" doc:"The id of one message. Defaults to any." example:"1795226400110405"`
	Look  int    `query:"look" placeholder:"N" default:"10000" minimum:"1" maximum:"100000" doc:"The largest number of messages to examine."`
	After string `query:"after" name:"from" placeholder:"NEXT" doc:"Where to continue: next of the previous page. Defaults to the beginning."`
}

// Config returns the selection. Errors: [millrace.ErrBadArgument].
func (s Search) Config() (fairqueue.SearchConfig, error) {
	cfg, err := s.Content.Config()
	cfg.ID, cfg.Look, cfg.After = s.ID, s.Look, s.After
	return cfg, err
}

// Searched is how far a search came.
type Searched struct {
	Looked int    `json:"looked" doc:"How many messages were examined." example:"1"`
	Total  int    `json:"total" doc:"How many messages of all tenants are in the state." example:"1"`
	Next   string `json:"next" doc:"Where to continue; empty at the end."`
}

// SearchedOf returns how far a search came.
func SearchedOf(f fairqueue.Found) Searched { return Searched{f.Looked, f.Total, f.Next} }

// FoundMessages is the Out of [SearchMessages].
type FoundMessages struct {
	Messages []BrowsedMessage `json:"messages"`
	Searched
}

// BrowseMessages pages through messages.
var BrowseMessages = operation(Row{
	ID: "browseMessages", Method: http.MethodGet, Path: queuePath + "/browse", Statuses: []int{http.StatusNotFound},
	Only:    "queue browse searches, which shows the same messages",
	Class:   Look,
	Summary: "Show messages without taking them",
	Detail:  "Waiting messages flow by flow, in order; others by the time when they become visible. A call visits 1,000 messages at most, so for one of many tenants it may return fewer than max, or none, and still a next.",
}, func(ctx context.Context, q *fairqueue.Queue, in Browse) (BrowsedPage, error) {
	messages, next, err := q.Browse(ctx, fairqueue.BrowseConfig{
		State: fairqueue.State(in.Place), Tenant: in.Tenant, Max: in.Max, After: in.After,
	})
	return BrowsedPage{BrowsedMessages(messages), next}, err
})

// Page selects a page of messages.
type Page struct {
	Max   int    `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"The largest number of messages."`
	After string `query:"after" doc:"Where to continue: next of the previous page. Defaults to the beginning."`
}

// Browse is the In of [BrowseMessages].
type Browse struct {
	Queue
	Page
	Place  string `query:"place" default:"waiting" enum:"waiting,in_flight,delayed" doc:"The state of the messages."`
	Tenant string `query:"tenant" doc:"Only the messages of this tenant. Defaults to all tenants." example:"acme"`
}

// BrowsedPage is the Out of [BrowseMessages].
type BrowsedPage struct {
	Messages []BrowsedMessage `json:"messages"`
	Next     string           `json:"next" doc:"Where to continue; empty at the end."`
}

// BrowsedMessage is a message that is shown and not taken.
type BrowsedMessage struct {
	ID          string                   `json:"id" example:"1795226400100321"`
	Tenant      jsontype.Text            `json:"tenant" example:"\"acme\""`
	Body        jsontype.Text            `json:"body" example:"\"{\\\"order\\\":17}\""`
	Headers     map[string]jsontype.Text `json:"headers" doc:"Empty when there are none."`
	Stream      int                      `json:"stream" doc:"The index of the stream; -1 if the flow is the tenant." example:"-1"`
	Priority    int                      `json:"priority,omitempty" doc:"Its rank among the messages of its tenant. Absent if it is 0." example:"1"`
	Cost        int                      `json:"cost,omitempty" doc:"What its delivery costs. Absent if it is 1." example:"350"`
	Attempts    int                      `json:"attempts" doc:"How often it was delivered so far."`
	WrittenAt   time.Time                `json:"written_at" doc:"By the server's clock, in UTC."`
	Deadline    *time.Time               `json:"deadline,omitempty" doc:"When it expires. Absent for never."`
	Until       *time.Time               `json:"until,omitempty" doc:"Until when it is in flight or delayed."`
	Since       *time.Time               `json:"since,omitempty" doc:"When it was delivered, if it is in flight, or died; when it failed, if it is a retry that waits."`
	Batch       string                   `json:"batch,omitempty" doc:"The batch that counts it, or did until it died. Absent for none." example:"1795226400100321"`
	Consumed    bool                     `json:"consumed,omitempty" doc:"It is in flight with a handler of a consumer. Absent if it is not."`
	Reason      jsontype.Text            `json:"reason,omitempty" doc:"Why it is dead, or was given back last. Absent if it never was." example:"\"no such article\""`
	DecodeError string                   `json:"garbled,omitempty" doc:"Why no reader can decode it."`
}

// BrowsedMessages converts messages. It never returns nil.
func BrowsedMessages(messages []fairqueue.Message) []BrowsedMessage {
	list := make([]BrowsedMessage, len(messages))
	for i, m := range messages {
		list[i] = BrowsedMessage{
			ID: m.ID, Tenant: jsontype.Text(m.Tenant), Body: jsontype.Text(m.Body), Headers: OfHeaders(m.Headers),
			Stream: m.Stream, Priority: m.Priority, Cost: OfCost(m.Cost), Attempts: m.Attempt, WrittenAt: m.Written.UTC(),
			Deadline: jsontype.Time(m.Deadline), Until: jsontype.Time(m.Until), Since: jsontype.Time(m.Since),
			Batch: m.Batch, Consumed: m.Consumed, Reason: jsontype.Text(m.Reason), DecodeError: m.DecodeError,
		}
	}
	return list
}
