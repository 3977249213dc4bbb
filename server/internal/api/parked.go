package api

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/document"
)

func (a *API) routeParked() {
	register(a, op(http.MethodGet, ickPath+"/parked", "listParked", "List parked members, those that are tried again soonest first",
		"Members that rest because a consumer's handler failed on them.", http.StatusNotFound), a.listParked)
	register(a, op(http.MethodPost, ickPath+"/parked/retry", "retryParked", "Have parked members tried once more now",
		"With their old scores; their attempts are kept. Members that are not parked are passed over.", http.StatusNotFound), a.retryParked)
	register(a, op(http.MethodPost, ickPath+"/parked/drop", "dropParked", "Forget parked members for good",
		"Members that are not parked are passed over.", http.StatusNotFound), a.dropParked)
}

// parkedRequest asks for parked members.
type parkedRequest struct {
	Name string `path:"name" doc:"The Ick's name, percent-encoded." example:"search"`
	Max  int    `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"How many members at most."`
}

// parkedMembers is parked members.
type parkedMembers struct {
	document.Parked

	More bool `json:"more" doc:"There are others besides."`
}

func (a *API) listParked(ctx context.Context, in *parkedRequest) (doc parkedMembers, err error) {
	k, err := a.ick(in.Name)
	if err != nil {
		return doc, err
	}
	doc.Parked.Parked = []document.ParkedMember{}
	for p, err := range k.Parked(ctx) {
		if doc.More = err == nil && len(doc.Parked.Parked) == in.Max; err != nil || doc.More {
			return doc, err
		}
		doc.Parked.Parked = append(doc.Parked.Parked, document.OfParked(p))
	}
	return doc, nil
}

// parkedChoice names parked members.
type parkedChoice struct {
	Members []document.Text `json:"members,omitempty" minItems:"1" maxItems:"1000" doc:"Parked members." example:"[\"doc:17\"]"`
	All     bool            `json:"all,omitempty" doc:"All that are parked, instead of members."`
}

// of returns the Ick and the members that are chosen.
func (c parkedChoice) of(ctx context.Context, a *API, name string) (*ick.Ick, []string, error) {
	if c.All == (len(c.Members) > 0) {
		return nil, nil, errRequest.Errorf("name members, or say that you mean all")
	}
	k, err := a.ick(name)
	members := document.Strings(c.Members)
	if err != nil || !c.All {
		return k, members, err
	}
	for p, err := range k.Parked(ctx) {
		if err != nil {
			return k, nil, err
		}
		members = append(members, p.Member)
	}
	return k, members, nil
}

func (a *API) retryParked(ctx context.Context, in *namedWith[parkedChoice]) (doc document.Retried, err error) {
	k, members, err := in.Body.of(ctx, a, in.Name)
	if err != nil {
		return doc, err
	}
	doc.Retried, err = k.Retry(ctx, members...)
	return doc, err
}

func (a *API) dropParked(ctx context.Context, in *namedWith[parkedChoice]) (doc document.Dropped, err error) {
	k, members, err := in.Body.of(ctx, a, in.Name)
	if err != nil {
		return doc, err
	}
	doc.Dropped, err = k.Drop(ctx, members...)
	return doc, err
}
