package ops

import (
	"context"
	"slices"

	"github.com/millrace/millrace"
)

// Class says what an operation is, from which its role and its place in the audit log follow.
type Class string

// Classes.
const (
	Look   Class = "look"   // reads, and changes nothing: for the role viewer
	Work   Class = "work"   // programs do it all the time: for the role worker
	Change Class = "change" // people do it, and the audit log has it: for the role operator

	// Withdraw is a Change that programs do, too: they cancel what is obsolete. For the role worker.
	Withdraw Class = "withdraw"
)

// Row is what all surfaces say about an operation.
type Row struct {
	ID       string   // in OpenAPI: "pauseQueue"
	Words    string   // on the command line: "queue pause"
	Method   string   // of HTTP
	Path     string   // of HTTP: "/v1/queues/{name}/pause"
	Statuses []int    // of HTTP that not all operations have; the first may be that of success
	Class    Class    // who does it
	Action   string   // in the audit log: "queue.pause"; empty unless its class says that it is there
	Only     string   // why some surfaces do not have it; empty if all have it
	Form     string   // its section and word on the pages: "queues/pause"; empty for none
	Summary  string   // a sentence without its full stop
	Detail   string   // sentences
	Examples []string // command lines, without the name of the program
}

// Operation is a Row, and what it does with a structure.
type Operation[S, In, Out any] struct {
	Row
	Do func(ctx context.Context, structure S, in In) (Out, error)
}

// Nothing is the In of an operation without fields.
type Nothing struct{}

// All returns the rows of all operations.
func All() []Row {
	return []Row{
		ListQueues, GetQueueStats.Row, ListTenants.Row, ListLimits.Row, GetPosition.Row, ListSources.Row, SetPosition.Row,
		ReceiveMessages.Row, AckMessages.Row, NackMessages.Row, ExtendMessages.Row,
		WriteMessage.Row, WriteMessages.Row, CancelMessages.Row, BrowseMessages.Row, SearchMessages.Row,
		PauseQueue.Row, ResumeQueue.Row, ResizeQueue.Row, DeleteQueue.Row,
		ListDead.Row, GroupDead.Row, RedriveDead.Row, PurgeDead.Row, KeepDead.Row,
		PauseTenant.Row, ResumeTenant.Row, PurgeTenant.Row, GetLimits.Row, ChangeLimits.Row, ClearLimits.Row,
		ListSchedules.Row, GetSchedule.Row, SetSchedule.Row, RemoveSchedule.Row, PauseSchedule.Row, ResumeSchedule.Row, RunSchedule.Row,
		NextTicks.Row, PreviewTicks.Row,
	}
}

// Audited reports whether the audit log has operations of the class.
func (c Class) Audited() bool { return c == Change || c == Withdraw }

// ByID returns the row with an ID.
func ByID(id string) (Row, bool) { return find(func(r Row) bool { return r.ID == id }) }

// ByCommand returns the row with the words of a command.
func ByCommand(words string) (Row, bool) {
	return find(func(r Row) bool { return words != "" && r.Words == words })
}

func find(is func(Row) bool) (Row, bool) {
	all := All()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	return Row{}, false
}

// ErrRequest means that the fields of a request do not fit together.
var ErrRequest = &millrace.Error{
	Code: "bad_request",
	Hint: "GET /openapi.json describes the request.",
}
