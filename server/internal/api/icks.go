package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
)

const ickPath = "/v1/icks/{name}"

func (a *API) routeIcks() {
	register(a, op(http.MethodGet, "/v1/icks", "listIcks", "List the dirty lists by name",
		"All registered lists. Every Millrace program that uses a list registers it; register lists that only programs with the gem use."),
		func(ctx context.Context, _ *ops.Nothing) (document.Icks, error) {
			names, missing, err := a.namesOf(ctx, ick.List)
			return document.Icks{Icks: names, Incomplete: missing}, err
		})
	onIck(a, op(http.MethodDelete, ickPath, "deleteIck", "Delete a dirty list with all its marks",
		"Marks that wait, are reserved or parked. The answer counts the keys that a list has in the gem, at most 3; it is 0 if there is no such list."),
		func(ctx context.Context, k *ick.Ick, in *deleteIckRequest) (doc document.Deleted, err error) {
			remove := k.Delete
			if in.Force {
				remove = k.ForceDelete
			}
			doc.Deleted, err = remove(ctx)
			return doc, err
		})
	onIck(a, op(http.MethodGet, ickPath+"/stats", "getIckStats", "Show sizes, ages and counters",
		"Ages read scores as Unix seconds.", http.StatusNotFound),
		func(ctx context.Context, k *ick.Ick, _ *Named) (document.IckStats, error) {
			s, err := k.Stats(ctx)
			return document.OfIckStats(s), err
		})
	onIck(a, op(http.MethodPost, ickPath+"/marks", "addMarks", "Mark members as dirty",
		"Either members, with the server's time as score, or marks with scores. A member that waits already keeps the lower score. All of them or none.",
		http.StatusInsufficientStorage), addMarks)
	on(a, op(http.MethodPost, ickPath+"/reserve", "reserve", "Take the oldest marks as a batch to work on",
		"Every reserve returns reserved marks again until they are committed. An empty or a missing list is no error."),
		func(_ context.Context, in *namedWith[ReserveRequest]) (*ick.Ick, error) {
			return a.ick(in.Body.use(in.Name))
		},
		func(ctx context.Context, k *ick.Ick, in *namedWith[ReserveRequest]) (document.Reserved, error) {
			r, err := k.Reserve(ctx, in.Body.Max)
			return document.OfReservation(r), err
		})
	onIck(a, op(http.MethodPost, ickPath+"/commit", "commit", "Remove members that are done",
		"Members that were marked and reserved again after the token was issued are kept, and returned again. It is an error if nothing could be committed."),
		func(ctx context.Context, k *ick.Ick, in *namedWith[commitRequest]) (document.Committed, error) {
			done, err := k.Commit(ctx, in.Body.Token, document.Strings(in.Body.Members)...)
			return document.Committed(done), err
		})
	on(a, op(http.MethodPost, ickPath+"/exchange", "exchange", "Commit, then reserve, in one round trip",
		"If nothing could be committed, the counts say so, and it is no error. With max 0 it only commits."),
		func(_ context.Context, in *namedWith[exchangeRequest]) (*ick.Ick, error) {
			return a.ick(in.Body.use(in.Name))
		},
		exchangeMembers)
}

// ickUse is a dirty list, and how to reserve from it.
type ickUse struct {
	name     string
	settle   time.Duration
	backwash bool
}

func (a *API) ick(use ickUse) (*ick.Ick, error) {
	return a.icks.get(use, func() (*ick.Ick, error) {
		return ick.New(a.cfg.Client, use.name, ick.Config{
			Settle: use.settle, Backwash: use.backwash, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks,
		})
	})
}

// onIck registers an operation on one dirty list.
func onIck[I hasName, O any](a *API, o huma.Operation, do func(context.Context, *ick.Ick, *I) (O, error)) {
	on(a, o, func(_ context.Context, in *I) (*ick.Ick, error) { return a.ick(ickUse{name: (*in).Structure()}) }, do)
}

type deleteIckRequest struct {
	Named

	Force bool `query:"force" doc:"Delete its keys whatever they hold, also if the list is broken."`
}

type marksRequest struct {
	Members []document.Text  `json:"members,omitempty" minItems:"1" maxItems:"1000" doc:"Dirty members, with the score of now." example:"[\"doc:17\"]"`
	Marks   []document.Entry `json:"marks,omitempty" minItems:"1" maxItems:"1000" doc:"Dirty members with scores."`
}

func addMarks(ctx context.Context, k *ick.Ick, in *namedWith[marksRequest]) (doc document.Marked, err error) {
	if (len(in.Body.Members) > 0) == (len(in.Body.Marks) > 0) {
		return doc, errRequest.Errorf("give either members or marks")
	}
	if len(in.Body.Members) > 0 {
		added, err := k.AddNow(ctx, document.Strings(in.Body.Members)...)
		return document.Marked(added), err
	}
	marks := make([]ick.Entry, len(in.Body.Marks))
	for i, m := range in.Body.Marks {
		marks[i] = ick.Entry{Member: string(m.Member), Score: float64(m.Score)}
	}
	added, err := k.Add(ctx, marks...)
	return document.Marked(added), err
}

// ReserveRequest is how to reserve members.
type ReserveRequest struct {
	Max      int               `json:"max" minimum:"0" maximum:"1000" doc:"The largest number of members to reserve." example:"100"`
	Settle   document.Duration `json:"settle,omitzero" doc:"Leave marks that are younger than this. Defaults to 0s." example:"5s"`
	Backwash bool              `json:"backwash,omitempty" doc:"Let older marks replace reserved ones."`
}

func (r ReserveRequest) use(name string) ickUse { return ickUse{name, r.Settle.Duration, r.Backwash} }

type commitRequest struct {
	Token   string          `json:"token" doc:"The token of the reservation." example:"1-DV6JPA2Y"`
	Members []document.Text `json:"members" minItems:"1" maxItems:"1000" doc:"Members that are done." example:"[\"doc:17\"]"`
}

type exchangeRequest struct {
	ReserveRequest

	Token   string          `json:"token,omitempty" doc:"The token of the reservation." example:"1-DV6JPA2Y"`
	Members []document.Text `json:"members,omitempty" maxItems:"1000" doc:"Members that are done. Defaults to none." example:"[\"doc:17\"]"`
}

func exchangeMembers(ctx context.Context, k *ick.Ick, in *namedWith[exchangeRequest]) (doc document.Exchanged, err error) {
	if len(in.Body.Members) > 0 && in.Body.Token == "" {
		return doc, errRequest.Errorf("members need the token of their reservation")
	}
	r, done, err := k.Exchange(ctx, in.Body.Token, document.Strings(in.Body.Members), in.Body.Max)
	return document.Exchanged{Reserved: document.OfReservation(r), Committed: document.Committed(done)}, err
}

func (a *API) routeParked() {
	onIck(a, op(http.MethodGet, ickPath+"/parked", "listParked", "List parked members, the next retry first",
		"Members that wait for a retry because a consumer's handler failed on them.", http.StatusNotFound), listParked)
	onIck(a, op(http.MethodPost, ickPath+"/parked/retry", "retryParked", "Retry parked members now",
		"With their old scores; their attempts are kept. Members that are not parked are ignored.", http.StatusNotFound),
		func(ctx context.Context, k *ick.Ick, in *namedWith[parkedChoice]) (doc document.Retried, err error) {
			members, err := in.Body.of(ctx, k)
			if err != nil {
				return doc, err
			}
			doc.Retried, err = k.Retry(ctx, members...)
			return doc, err
		})
	onIck(a, op(http.MethodPost, ickPath+"/parked/drop", "dropParked", "Delete parked members",
		"Members that are not parked are ignored.", http.StatusNotFound),
		func(ctx context.Context, k *ick.Ick, in *namedWith[parkedChoice]) (doc document.Dropped, err error) {
			members, err := in.Body.of(ctx, k)
			if err != nil {
				return doc, err
			}
			doc.Dropped, err = k.Drop(ctx, members...)
			return doc, err
		})
}

type parkedRequest struct {
	Named

	Max int `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"The largest number of members."`
}

type parkedMembers struct {
	document.Parked

	More bool `json:"more" doc:"There are more members."`
}

func listParked(ctx context.Context, k *ick.Ick, in *parkedRequest) (doc parkedMembers, err error) {
	doc.Parked.Parked = []document.ParkedMember{}
	for p, err := range k.Parked(ctx) {
		if doc.More = err == nil && len(doc.Parked.Parked) == in.Max; err != nil || doc.More {
			return doc, err
		}
		doc.Parked.Parked = append(doc.Parked.Parked, document.OfParked(p))
	}
	return doc, nil
}

type parkedChoice struct {
	Members []document.Text `json:"members,omitempty" minItems:"1" maxItems:"1000" doc:"Parked members." example:"[\"doc:17\"]"`
	All     bool            `json:"all,omitempty" doc:"All parked members, instead of members."`
}

// of returns the chosen members.
func (c parkedChoice) of(ctx context.Context, k *ick.Ick) ([]string, error) {
	if c.All == (len(c.Members) > 0) {
		return nil, errRequest.Errorf("give either members or all")
	}
	members := document.Strings(c.Members)
	if c.All {
		for p, err := range k.Parked(ctx) {
			if err != nil {
				return nil, err
			}
			members = append(members, p.Member)
		}
	}
	return members, nil
}
