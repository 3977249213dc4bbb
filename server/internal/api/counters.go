package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/redis/reqid"
)

const counterPath = "/v1/counters/{name}"

func (a *API) routeCounters() {
	register(a, op(http.MethodPost, counterPath+"/add", "addToCounter", "Add to a counter, on one server",
		"A counter starts at 0. On its server it is a plain Redis number under its own name.", http.StatusInsufficientStorage), a.addToCounter)
	register(a, op(http.MethodGet, counterPath, "getCounter", "Read a counter: the sum over all servers",
		"If servers do not answer, the error has the code partial and the sum of the others.", http.StatusConflict), a.getCounter)
}

type addRequest struct {
	N        int64         `json:"n" doc:"How much to add; may be negative." example:"3"`
	ShardKey document.Text `json:"shard_key,omitempty" doc:"Selects the server: the same key always selects the same one. Defaults to any server." example:"\"ad:17\""`
}

func (a *API) addToCounter(ctx context.Context, in *namedWith[addRequest]) (doc document.Counter, err error) {
	key := string(in.Body.ShardKey)
	if key == "" {
		key = reqid.Next(ctx) // differs for each request, but not for its repeats
	}
	session := a.counters.Session(key)
	session.Add(in.Name, in.Body.N)
	err = session.Flush(ctx)
	return document.Counter{Added: in.Body.N, Server: session.Server()}, err
}

func (a *API) getCounter(ctx context.Context, in *Named) (doc document.Counted, err error) {
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
