package api

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/document"
)

const ickPath = "/v1/icks/{name}"

func (a *API) routeIcks() {
	register(a, op(http.MethodGet, "/v1/icks", "listIcks", "List the Icks by name",
		"Those that are registered, as each is by the Millrace programs that use it. One that only programs with the gem use has to be registered by them."), a.listIcks)
	register(a, op(http.MethodDelete, ickPath, "deleteIck", "Delete an Ick with all its marks",
		"Those that wait, are reserved or parked. The count is that of the keys an Ick has in the gem, at most 3; an Ick that is not there counts 0."), a.deleteIck)
	register(a, op(http.MethodGet, ickPath+"/stats", "getIckStats", "Show sizes, ages and counters",
		"Ages take scores for Unix seconds.", http.StatusNotFound), a.ickStats)
	register(a, op(http.MethodPost, ickPath+"/marks", "addMarks", "Mark members as dirty",
		"Either members, since now by the server's clock, or marks with scores. A member that waits already keeps the lower score. All of them or none.",
		http.StatusInsufficientStorage), a.addMarks)
	register(a, op(http.MethodPost, ickPath+"/reserve", "reserve", "Take the oldest marks as a batch to work on",
		"What is reserved comes again with every reserve until it is committed. No marks, and an Ick that does not exist, are no errors."), a.reserve)
	register(a, op(http.MethodPost, ickPath+"/commit", "commit", "Remove members that were worked on",
		"Members that were marked and reserved again since the token was drawn are kept, and come again. If nothing could go it is an error."), a.commit)
	register(a, op(http.MethodPost, ickPath+"/exchange", "exchange", "Commit, then reserve, in one round trip",
		"That nothing could be committed shows in the counts, and is no error."), a.exchange)
}

// ickUse is an Ick, and how it is reserved from.
type ickUse struct {
	name     string
	settle   time.Duration
	backwash bool
}

// ick returns the Ick of that name.
func (a *API) ick(name string) (*ick.Ick, error) { return a.ickOf(ickUse{name: name}) }

func (a *API) ickOf(use ickUse) (*ick.Ick, error) {
	return a.icks.get(use, func() (*ick.Ick, error) {
		return ick.New(a.cfg.Client, use.name, ick.Config{
			Settle: use.settle, Backwash: use.backwash, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks,
		})
	})
}

func (a *API) listIcks(ctx context.Context, _ *nothing) (document.Icks, error) {
	names, part, err := a.namesOf(ctx, ick.List)
	return document.Icks{Icks: names, Incomplete: part}, err
}

// deleteIckRequest names an Ick that is to go.
type deleteIckRequest struct {
	Name  string `path:"name" doc:"The Ick's name, percent-encoded." example:"search"`
	Force bool   `query:"force" doc:"Delete a broken Ick, too: whatever its keys hold."`
}

func (a *API) deleteIck(ctx context.Context, in *deleteIckRequest) (doc document.Deleted, err error) {
	k, err := a.ick(in.Name)
	if err != nil {
		return doc, err
	}
	remove := k.Delete
	if in.Force {
		remove = k.ForceDelete
	}
	doc.Deleted, err = remove(ctx)
	return doc, err
}

func (a *API) ickStats(ctx context.Context, in *named) (doc document.IckStats, err error) {
	k, err := a.ick(in.Name)
	if err != nil {
		return doc, err
	}
	s, err := k.Stats(ctx)
	return document.OfIckStats(s), err
}

// marksRequest names what is dirty.
type marksRequest struct {
	Members []document.Text  `json:"members,omitempty" minItems:"1" maxItems:"1000" doc:"What is dirty since now." example:"[\"doc:17\"]"`
	Marks   []document.Entry `json:"marks,omitempty" minItems:"1" maxItems:"1000" doc:"What is dirty, and since when."`
}

func (a *API) addMarks(ctx context.Context, in *namedWith[marksRequest]) (doc document.Marked, err error) {
	if (len(in.Body.Members) > 0) == (len(in.Body.Marks) > 0) {
		return doc, errRequest.Errorf("give either members or marks")
	}
	k, err := a.ick(in.Name)
	if err != nil {
		return doc, err
	}
	if len(in.Body.Members) > 0 {
		added, err := k.AddNow(ctx, document.Strings(in.Body.Members)...)
		return document.OfAdded(added), err
	}
	marks := make([]ick.Entry, len(in.Body.Marks))
	for i, m := range in.Body.Marks {
		marks[i] = ick.Entry{Member: string(m.Member), Score: float64(m.Score)}
	}
	added, err := k.Add(ctx, marks...)
	return document.OfAdded(added), err
}

// reserveRequest says how much to reserve, and how.
type reserveRequest struct {
	Max      int               `json:"max" minimum:"0" maximum:"1000" doc:"How many members at most." example:"100"`
	Settle   document.Duration `json:"settle,omitzero" doc:"Leave marks that are younger than this. Defaults to 0s." example:"5s"`
	Backwash bool              `json:"backwash,omitempty" doc:"Let older marks take the place of reserved ones."`
}

func (a *API) reserve(ctx context.Context, in *namedWith[reserveRequest]) (doc document.Reserved, err error) {
	k, err := a.ickOf(ickUse{in.Name, in.Body.Settle.Duration, in.Body.Backwash})
	if err != nil {
		return doc, err
	}
	r, err := k.Reserve(ctx, in.Body.Max)
	return document.OfReservation(r), err
}

// commitRequest names what was worked on.
type commitRequest struct {
	Token   string          `json:"token" doc:"Of the reservation that handed the members out." example:"1795226400200000"`
	Members []document.Text `json:"members" minItems:"1" maxItems:"1000" doc:"What was worked on." example:"[\"doc:17\"]"`
}

func (a *API) commit(ctx context.Context, in *namedWith[commitRequest]) (doc document.Committed, err error) {
	k, err := a.ick(in.Name)
	if err != nil {
		return doc, err
	}
	done, err := k.Commit(ctx, in.Body.Token, document.Strings(in.Body.Members)...)
	return document.OfCommitted(done), err
}

// exchangeRequest names what was worked on, and says how much to reserve.
type exchangeRequest struct {
	Max      int               `json:"max" minimum:"0" maximum:"1000" doc:"How many members to reserve at most; 0 only commits." example:"100"`
	Settle   document.Duration `json:"settle,omitzero" doc:"Leave marks that are younger than this. Defaults to 0s." example:"5s"`
	Backwash bool              `json:"backwash,omitempty" doc:"Let older marks take the place of reserved ones."`
	Token    string            `json:"token,omitempty" doc:"Of the reservation that handed the members out." example:"1795226400200000"`
	Members  []document.Text   `json:"members,omitempty" maxItems:"1000" doc:"What was worked on. Defaults to nothing." example:"[\"doc:17\"]"`
}

func (a *API) exchange(ctx context.Context, in *namedWith[exchangeRequest]) (doc document.Exchanged, err error) {
	if len(in.Body.Members) > 0 && in.Body.Token == "" {
		return doc, errRequest.Errorf("members are committed under the token of their reservation, which is missing")
	}
	k, err := a.ickOf(ickUse{in.Name, in.Body.Settle.Duration, in.Body.Backwash})
	if err != nil {
		return doc, err
	}
	r, done, err := k.Exchange(ctx, in.Body.Token, document.Strings(in.Body.Members), in.Body.Max)
	return document.Exchanged{Reserved: document.OfReservation(r), Committed: document.OfCommitted(done)}, err
}
