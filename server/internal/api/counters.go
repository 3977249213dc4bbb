package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/reqid"
)

const counterPath = "/v1/counters/{name}"

func (a *API) routeCounters() {
	register(a, op(http.MethodPost, counterPath+"/add", "addToCounter", "Add to a counter, on one server",
		"A counter begins with 0. On its server it is a plain Redis number under its own name.", http.StatusInsufficientStorage), a.addToCounter)
	register(a, op(http.MethodGet, counterPath, "getCounter", "Read a counter: the sum over all servers",
		"If servers do not answer it is an error with the code partial, which has the sum of the others.", http.StatusConflict), a.getCounter)
}

// addRequest says how much is to be added.
type addRequest struct {
	N        int64         `json:"n" doc:"How much; less than 0 to take away." example:"3"`
	ShardKey document.Text `json:"shard_key,omitempty" doc:"What decides which server it goes to: the same one for the same key. Defaults to any." example:"\"ad:17\""`
}

func (a *API) addToCounter(ctx context.Context, in *namedWith[addRequest]) (doc document.Counter, err error) {
	key := string(in.Body.ShardKey)
	if key == "" {
		key = reqid.Next(ctx) // another one for each request, but not for one that is repeated
	}
	session := a.counters.Session(key)
	session.Add(in.Name, in.Body.N)
	err = session.Flush(ctx)
	return document.Counter{Added: in.Body.N, Server: session.Server()}, err
}

func (a *API) getCounter(ctx context.Context, in *named) (doc document.Counted, err error) {
	gather := a.counters.Gather()
	sum := gather.Int(in.Name)
	err = gather.Read(ctx)
	if errors.Is(err, millrace.ErrPartial) {
		p := problemOf(err)
		p.Servers, p.Answered, p.Missing = &sum.Servers, &sum.Answered, sum.Missing
		if sum.Answered > 0 {
			p.Value = &sum.Value
		}
		return doc, p
	}
	return document.Counted{Value: sum.Value, Servers: sum.Servers, Answered: sum.Answered}, err
}
