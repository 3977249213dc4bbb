package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/redis/reqid"
)

// GetFailures shows who fails, and why.
var GetFailures = operation(Row{
	ID: "getFailures", Words: "queue failures", Method: http.MethodGet, Path: queuePath + "/failures", Statuses: []int{http.StatusNotFound},
	Class:   Look,
	Summary: "Show which tenants fail, with which error, and the retries that wait",
	Detail: "The tenants are those that failed in the last hour, 32 at most: since when, how often, and how many messages died of it; one that did not fail for ten minutes begins again. " +
		"A delivery fails when its handler does, or when it does not end in time. The retries are messages that failed and wait for their next attempt, by their error, among a limited number that it examines; it says where to continue. Errors that differ in numbers only are one, with # in place of those numbers.",
	Examples: []string{"queue failures orders", "queue failures orders --tenant acme", "queue failures orders --json | jq '.tenants[0]'"},
}, func(ctx context.Context, q *fairqueue.Queue, in DeadSearch) (doc Failures, err error) {
	cfg, err := in.Config()
	if err != nil {
		return doc, err
	}
	s, err := q.Stats(ctx)
	if err != nil {
		return doc, err
	}
	retries, found, err := q.Failures(ctx, cfg)
	return OfFailures(s.Failing, retries, found, cfg.Tenant), err
})

// Failures is the Out of [GetFailures].
type Failures struct {
	Tenants []FailingTenant `json:"tenants" doc:"Those that failed in the last ten minutes first, and of them those with the most failures."`
	Retries []Group         `json:"retries" doc:"The most frequent error first."`
	Searched
}

// FailingTenant is a tenant whose messages failed lately.
type FailingTenant struct {
	Tenant   jsontype.Text `json:"tenant" example:"\"acme\""`
	Failed   int           `json:"failed" doc:"How many deliveries failed since then." example:"12"`
	Died     int           `json:"died" doc:"How many messages died of it." example:"2"`
	Since    time.Time     `json:"since" doc:"The first failure after ten minutes without one, in UTC."`
	Last     time.Time     `json:"last" doc:"The last failure, in UTC."`
	Reason   jsontype.Text `json:"reason" doc:"The last error." example:"\"connection refused\""`
	Retrying int           `json:"retrying" doc:"How many of its retries wait, of those that were examined." example:"9"`
}

// Group is messages that failed with the same error.
type Group struct {
	Reason jsontype.Text `json:"reason" doc:"The error; with # in place of the numbers in which they differ." example:"\"no such article\""`
	Count  int           `json:"count" doc:"How many have it." example:"1"`
	Oldest time.Time     `json:"oldest" doc:"The first failure, or death, in UTC."`
	Newest time.Time     `json:"newest" doc:"The last failure, or death, in UTC."`
	Next   *time.Time    `json:"next_attempt,omitempty" doc:"When the first of them is tried again, in UTC. Absent if they are dead."`
	Tenant jsontype.Text `json:"tenant,omitempty" doc:"Their tenant. Absent if they have several." example:"\"acme\""`
}

// And returns the group with those of another one, which have the same error but for numbers.
func (g Group) And(other Group, alike jsontype.Text) Group {
	if other.Reason != g.Reason {
		g.Reason = alike
	}
	if other.Tenant != g.Tenant {
		g.Tenant = ""
	}
	g.Count += other.Count
	if other.Oldest.Before(g.Oldest) {
		g.Oldest = other.Oldest
	}
	if other.Newest.After(g.Newest) {
		g.Newest = other.Newest
	}
	return g // messages are examined in the order of their next attempts
}

// OfGroups converts errors, and how far their search came.
func OfGroups(all []queuestats.Failures, found fairqueue.Found) DeadGroups {
	doc := DeadGroups{make([]Group, len(all)), SearchedOf(found)}
	for i, f := range all {
		doc.Groups[i] = Group{jsontype.Text(f.Reason), f.Count, f.Oldest.UTC(), f.Newest.UTC(), jsontype.Time(f.Next), jsontype.Text(f.Tenant)}
	}
	return doc
}

// OfFailures converts the tenants that fail, or the only one, and the errors of retries.
func OfFailures(failing, retries []queuestats.Failures, found fairqueue.Found, only string) Failures {
	groups := OfGroups(retries, found)
	doc := Failures{[]FailingTenant{}, groups.Groups, groups.Searched}
	for _, f := range failing {
		if only != "" && f.Tenant != only {
			continue
		}
		one := FailingTenant{
			Tenant: jsontype.Text(f.Tenant), Failed: f.Count, Died: f.Died, Since: f.Oldest.UTC(), Last: f.Newest.UTC(), Reason: jsontype.Text(f.Reason),
		}
		for _, g := range retries {
			one.Retrying += g.Tenants[f.Tenant]
		}
		doc.Tenants = append(doc.Tenants, one)
	}
	return doc
}

// RetryMessages retries messages before their time.
var RetryMessages = operation(Row{
	ID: "retryMessages", Words: "queue retry", Method: http.MethodPost, Path: queuePath + "/retry", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "queue.retry", Form: "queues/retry",
	Summary: "Retry messages now that failed and wait for their next attempt",
	Detail:  "They wait for a reader at once, and keep their attempts: one that fails again is delayed for longer, or dies. By its id, a message that its writer delayed is delivered now, too. Messages that are not delayed are ignored. With match, a call over HTTP examines a limited number of messages, and says where to continue.",
	Examples: []string{
		"queue retry orders 1795226400123456",
		"queue retry orders --reason 'HTTP #' --dry-run",
		"queue retry orders --tenant acme",
		"queue retry orders --all",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in RetryChoice) (doc RetriedMessages, err error) {
	ways := 0
	for _, given := range []bool{len(in.IDs) > 0, in.All, in.Match != nil} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return doc, ErrRequest.Errorf("give one of ids, match and all")
	}
	if len(in.IDs) > 0 {
		doc.Retried, _, err = q.Retry(ctx, fairqueue.SearchConfig{}, in.IDs...)
		return doc, err
	}
	// A repeat finds fewer retries: under the request id of the first call it would count as done.
	ctx = reqid.With(ctx, "")
	var cfg fairqueue.SearchConfig
	if in.Match != nil {
		cfg = in.Match.config()
	}
	var found fairqueue.Found
	doc.Retried, found, err = q.Retry(ctx, cfg)
	if in.Match != nil {
		far := SearchedOf(found)
		doc.Search = &far
	}
	return doc, err
})

// RetryChoice is the In of [RetryMessages].
type RetryChoice struct {
	IDs   []string `json:"ids,omitempty" minItems:"1" maxItems:"1000" doc:"Ids of delayed messages." example:"[\"1795226400110405\"]"`
	All   bool     `json:"all,omitempty" doc:"All that failed and wait for their next attempt, instead of ids."`
	Match *Match   `json:"match,omitempty" doc:"Those of them that have all this, instead of ids."`
}

// RetriedMessages is the Out of [RetryMessages].
type RetriedMessages struct {
	Retried int `json:"retried" doc:"How many of them were delayed, and wait now." example:"1"`

	Search *Searched `json:"search,omitempty" doc:"With match, how far the call came."`
}
