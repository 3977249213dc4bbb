package ops

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
)

// ickPath is the path of a dirty list.
const ickPath = "/v1/icks/{name}"

// Ick names a dirty list.
type Ick struct {
	Name jsontype.Text `arg:"" path:"name" complete:"ick" doc:"The list's name, which is its version key in Redis." example:"\"search\""`
}

// Structure returns the name.
func (k Ick) Structure() string { return string(k.Name) }

// ListIcks lists the dirty lists.
var ListIcks = Row{
	ID: "listIcks", Words: "ick ls", Method: http.MethodGet, Path: "/v1/icks", Class: Look,
	Summary:  "List the dirty lists by name",
	Detail:   "All registered lists. Every Millrace program that uses a list registers it; register lists that only programs with the gem use.",
	Examples: []string{"ick ls", "ick ls --json"},
	Out:      reflect.TypeFor[Icks](),
}

// Icks are the names of dirty lists.
type Icks struct {
	Icks []jsontype.Text `json:"icks" doc:"Their names, sorted by their bytes."`
	Incomplete
}

// DeleteIck deletes a dirty list.
var DeleteIck = operation(Row{
	ID: "deleteIck", Words: "ick rm", Method: http.MethodDelete, Path: ickPath,
	Class: Change, Action: "ick.delete", Only: "the pages drop parked members alone: of deleted marks no consumer ever learns",
	Summary:  "Delete a dirty list with all its marks",
	Detail:   "Marks that wait, are reserved or parked. The answer counts the keys that a list has in the gem, at most 3; it is 0 if there is no such list.",
	Examples: []string{"ick rm search", "ick rm search --force"},
}, func(ctx context.Context, k *ick.Ick, in IckDelete) (doc Deleted, err error) {
	remove := k.Delete
	if in.Force {
		remove = k.ForceDelete
	}
	doc.Deleted, err = remove(ctx)
	return doc, err
})

// IckDelete is the In of [DeleteIck].
type IckDelete struct {
	Ick

	Force bool `query:"force" doc:"Delete its keys whatever they hold, also if the list is broken."`
}

// AddMarks marks members as dirty.
var AddMarks = operation(Row{
	ID: "addMarks", Words: "ick add", Method: http.MethodPost, Path: ickPath + "/marks", Statuses: []int{http.StatusInsufficientStorage}, Class: Work,
	Summary:  "Mark members as dirty",
	Detail:   "Either members, with the server's time as score, or marks with scores. A member that waits already keeps the lower score. All of them or none.",
	Examples: []string{"ick add search now doc:17", "ick add search 1700000000 doc:17 1700000003.5 doc:18 -inf doc:19", "ick add search now -- --a-member-with-hyphens"},
}, func(ctx context.Context, k *ick.Ick, in Marks) (Marked, error) { return in.add(ctx, k) })

// Marks is the In of [AddMarks] and [AddToChannel].
type Marks struct {
	Members []jsontype.Text `json:"members,omitempty" minItems:"1" maxItems:"1000" doc:"Dirty members, with the score of now." example:"[\"doc:17\"]"`
	Marks   []Entry         `json:"marks,omitempty" minItems:"1" maxItems:"1000" doc:"Dirty members with scores."`
}

// add adds them to an Ick or a channel.
func (m Marks) add(ctx context.Context, to interface {
	Add(ctx context.Context, marks ...ick.Entry) (ick.Added, error)
	AddNow(ctx context.Context, members ...string) (ick.Added, error)
},
) (doc Marked, err error) {
	if (len(m.Members) > 0) == (len(m.Marks) > 0) {
		return doc, ErrRequest.Errorf("give either members or marks")
	}
	if len(m.Members) > 0 {
		added, err := to.AddNow(ctx, jsontype.Strings(m.Members)...)
		return Marked(added), err
	}
	marks := make([]ick.Entry, len(m.Marks))
	for i, mark := range m.Marks {
		marks[i] = ick.Entry{Member: string(mark.Member), Score: float64(mark.Score)}
	}
	added, err := to.Add(ctx, marks...)
	return Marked(added), err
}

// Entry is a member with its score.
type Entry struct {
	Member jsontype.Text  `json:"member" example:"\"doc:17\""`
	Score  jsontype.Score `json:"score" example:"1700000003.25"`
}

// Marked is the Out of [AddMarks].
type Marked struct {
	New     int `json:"new" doc:"Members that were not waiting." example:"2"`
	Lowered int `json:"lowered" doc:"Members that now have a lower score." example:"0"`
}

// ReserveMarks takes a batch to work on.
var ReserveMarks = operation(Row{
	ID: "reserve", Words: "ick reserve", Method: http.MethodPost, Path: ickPath + "/reserve", Class: Work,
	Summary:  "Take the oldest marks as a batch to work on",
	Detail:   "Every reserve returns reserved marks again until they are committed. An empty or a missing list is no error.",
	Examples: []string{"ick reserve search 100", "ick reserve search 100 --settle 5s --json"},
}, func(ctx context.Context, k *ick.Ick, in Reserve) (Reserved, error) {
	r, err := k.Reserve(ctx, in.Max)
	return reserved(r), err
})

// Reserve is the In of [ReserveMarks]. The maximum is that of HTTP: the command may ask for more.
type Reserve struct {
	Max      int               `json:"max" arg:"" name:"n" help:"The largest number of members to reserve." minimum:"0" maximum:"1000" doc:"The largest number of members to reserve." example:"100"`
	Settle   jsontype.Duration `json:"settle,omitzero" placeholder:"DURATION" doc:"Leave marks that are younger than this. Defaults to 0s." example:"5s"`
	Backwash bool              `json:"backwash,omitempty" doc:"Let older marks replace reserved ones."`
}

// Config returns the settings of the list that reserves so.
func (r Reserve) Config() ick.Config {
	return ick.Config{Settle: r.Settle.Duration, Backwash: r.Backwash}
}

// Reserved is the Out of [ReserveMarks].
type Reserved struct {
	Token   string    `json:"token" doc:"Identifies the reservation for commit and exchange; empty if there is no such list." example:"1-DV6JPA2Y"`
	Entries []Entry   `json:"entries" doc:"The oldest marks, oldest first. Every reserve returns them again until they are committed."`
	At      time.Time `json:"-"` // by the server's clock
}

func reserved(r ick.Reservation) Reserved {
	doc := Reserved{Token: r.Token, Entries: make([]Entry, len(r.Entries)), At: r.At}
	for i, e := range r.Entries {
		doc.Entries[i] = Entry{jsontype.Text(e.Member), jsontype.Score(e.Score)}
	}
	return doc
}

// CommitMarks removes members that are done.
var CommitMarks = operation(Row{
	ID: "commit", Words: "ick commit", Method: http.MethodPost, Path: ickPath + "/commit", Class: Work,
	Summary:  "Remove members that are done",
	Detail:   "Members that were marked and reserved again after the token was issued are kept, and returned again. It is an error if nothing could be committed.",
	Examples: []string{"ick commit search 1-DV6JPA2Y doc:17 doc:18"},
}, func(ctx context.Context, k *ick.Ick, in Commit) (Committed, error) {
	done, err := k.Commit(ctx, in.Token, jsontype.Strings(in.Members)...)
	return Committed(done), err
})

// Commit is the In of [CommitMarks].
type Commit struct {
	Token   string          `json:"token" arg:"" doc:"The token of the reservation." example:"1-DV6JPA2Y"`
	Members []jsontype.Text `json:"members" arg:"" name:"member" minItems:"1" maxItems:"1000" doc:"Members that are done." example:"[\"doc:17\"]"`
}

// Committed is the Out of [CommitMarks].
type Committed struct {
	Committed int `json:"committed" doc:"Members that are done." example:"2"`
	Kept      int `json:"kept" doc:"Members that were marked and reserved again after the token was issued; they will be returned again." example:"0"`
}

// ExchangeMarks commits, and takes the next batch.
var ExchangeMarks = operation(Row{
	ID: "exchange", Words: "ick exchange", Method: http.MethodPost, Path: ickPath + "/exchange", Class: Work,
	Summary:  "Commit, then reserve, in one round trip",
	Detail:   "If nothing could be committed, the counts say so, and it is no error. If it is to reserve 0 members, it only commits.",
	Examples: []string{"ick exchange search 100 --token 1-DV6JPA2Y --commit doc:17 --commit doc:18"},
}, func(ctx context.Context, k *ick.Ick, in Exchange) (doc Exchanged, err error) {
	if len(in.Members) > 0 && in.Token == "" {
		return doc, ErrRequest.Errorf("members need the token of their reservation")
	}
	r, done, err := k.Exchange(ctx, in.Token, jsontype.Strings(in.Members), in.Max)
	return Exchanged{reserved(r), Committed(done)}, err
})

// Exchange is the In of [ExchangeMarks].
type Exchange struct {
	Reserve

	Token   string          `json:"token,omitempty" placeholder:"TOKEN" doc:"The token of the reservation." example:"1-DV6JPA2Y"`
	Members []jsontype.Text `json:"members,omitempty" name:"commit" sep:"none" placeholder:"MEMBER" help:"A member that is done; may be repeated." maxItems:"1000" doc:"Members that are done. Defaults to none." example:"[\"doc:17\"]"`
}

// Exchanged is the Out of [ExchangeMarks].
type Exchanged struct {
	Reserved
	Committed
}
