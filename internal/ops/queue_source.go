package ops

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
)

// GetPosition shows how far a source is.
var GetPosition = operation(Row{
	ID: "getPosition", Words: "queue position", Method: http.MethodGet, Path: queuePath + "/position",
	Class:   Look,
	Summary: "Show how far a source is",
	Detail:  "A source numbers its messages, and the queue takes each number once and in order. The position is the number of its last message that is or was in the queue: the next write of the source continues behind it. If Redis lost its last writes, the number went back with the messages.",
	Examples: []string{
		"queue position orders",
		"queue position orders 'orders table'",
		"queue position orders 'orders table' --set 17",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in SourceOf) (Position, error) {
	at, err := q.Sources().Position(ctx, string(in.Source))
	return Position{Source: in.Source, Position: at}, err
})

// SourceOf is the In of [GetPosition].
type SourceOf struct {
	Queue
	Source jsontype.Text `query:"source" required:"true" minLength:"1" maxLength:"512" doc:"The name of the source." example:"\"orders table\""`
}

// ListSources shows how far all sources are.
var ListSources = operation(Row{
	ID: "listSources", Method: http.MethodGet, Path: queuePath + "/sources",
	Only:    "queue position shows them, unless one is named",
	Class:   Look,
	Summary: "Show how far all sources are",
	Detail:  "At most 1,000, by their names.",
}, func(ctx context.Context, q *fairqueue.Queue, _ Queue) (Sources, error) {
	positions, err := q.Sources().All(ctx)
	return OfSources(positions), err
})

// SetPosition sets how far a source is.
var SetPosition = operation(Row{
	ID: "setPosition", Method: http.MethodPost, Path: queuePath + "/position", Statuses: []int{http.StatusInsufficientStorage},
	Only:  "queue position --set sets it",
	Class: Change, Action: "queue.position",
	Summary: "Set how far a source is",
	Detail:  "To begin in the middle, or to leave out what is lost. With 0 the queue forgets the source. It creates the queue if there is none.",
}, func(ctx context.Context, q *fairqueue.Queue, in Position) (Position, error) {
	return in, q.Sources().SetPosition(ctx, string(in.Source), in.Position)
})

// Position is how far a source is.
type Position struct {
	Source   jsontype.Text `json:"source" doc:"Its name." example:"\"orders table\""`
	Position int64         `json:"position" minimum:"0" maximum:"1000000000000000" doc:"The number of its last message in the queue; 0 if there is none." example:"17"`
}

// Sources are how far the sources of a queue are.
type Sources struct {
	Sources []Position `json:"sources" doc:"By their names."`
}

// OfSources converts the sources of a queue.
func OfSources(positions map[string]int64) Sources {
	all := Sources{Sources: []Position{}}
	for _, source := range slices.Sorted(maps.Keys(positions)) {
		all.Sources = append(all.Sources, Position{Source: jsontype.Text(source), Position: positions[source]})
	}
	return all
}
