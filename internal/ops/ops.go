package ops

import (
	"context"
	"reflect"
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
	Only     string   // why some surfaces do not have it, whose Words, Path or Form is empty
	Form     string   // its section and word on the pages: "queues/pause"; empty for none
	Summary  string   // a sentence without its full stop
	Detail   string   // sentences
	Examples []string // command lines, without the name of the program

	Out reflect.Type // the result; of an Operation its Out
}

// Operation is a Row, and what it does with a structure.
type Operation[S, In, Out any] struct {
	Row
	Do func(ctx context.Context, structure S, in In) (Out, error)
}

// operation returns an operation, whose types are those of do.
func operation[S, In, Out any](row Row, do func(context.Context, S, In) (Out, error)) Operation[S, In, Out] {
	return Operation[S, In, Out]{row, do}
}

func (o Operation[S, In, Out]) row() Row {
	o.Out = reflect.TypeFor[Out]()
	return o.Row
}

// Audited is a request of which only some are an operator's, as its fields or its client say.
type Audited interface {
	OfOperator(ctx context.Context) bool
}

// Nothing is the In of an operation without fields.
type Nothing struct{}

// All returns the rows of all operations.
func All() []Row {
	return []Row{
		ListQueues, GetQueueStats.row(), ListTenants.row(), ListLimits.row(), GetPosition.row(), ListSources.row(), SetPosition.row(),
		WorkRound.row(), ReceiveMessages.row(), AckMessages.row(), NackMessages.row(), ExtendMessages.row(),
		WriteMessage.row(), WriteMessages.row(), CancelMessages.row(), BrowseMessages.row(), SearchMessages.row(), ShowMessage.row(),
		PauseQueue.row(), ResumeQueue.row(), ResizeQueue.row(), DeleteQueue.row(),
		GetFailures.row(), RetryMessages.row(),
		ListDead.row(), GroupDead.row(), RedriveDead.row(), PurgeDead.row(), KeepDead.row(), DeadAfter.row(),
		PauseTenant.row(), ResumeTenant.row(), PurgeTenant.row(), GetLimits.row(), ChangeLimits.row(), ClearLimits.row(),
		ListSchedules.row(), GetSchedule.row(), SetSchedule.row(), RemoveSchedule.row(), PauseSchedule.row(), ResumeSchedule.row(), RunSchedule.row(),
		NextTicks.row(), PreviewTicks.row(),
		CreateBatch.row(), ListBatches.row(), GetBatch.row(), CloseBatch.row(), CancelBatch.row(),
		ListIcks, DeleteIck.row(), GetIckStats.row(), AddMarks.row(), ReserveMarks.row(), CommitMarks.row(), ExchangeMarks.row(),
		ListParked.row(), RetryParked.row(), DropParked.row(),
		ListChannels, AddToChannel.row(), GetChannelStats.row(), ResizeChannel.row(), DeleteChannel.row(), WorkChannel.row(),
		ListLeases, ShowLeases, GetLease.row(), AcquireLease, RefreshLease.row(), ReleaseLease.row(),
		ListHashes, GetHash.row(), GetField.row(), SetFields.row(), IncrementField.row(), DeleteHash.row(), DeleteFields.row(),
		GetTTLs.row(), ExpireFields.row(), PersistFields.row(),
		ListPinned, SetPinned.row(), GetPinned.row(), GetPinnedTTL.row(), ExpirePinned.row(), DeletePinned.row(),
		ListTrackers, AskTracker.row(), AddToTracker.row(), GetTrackerStats.row(), DeleteTracker.row(),
		AddToCounter.row(), AddToCounters.row(), GetCounter.row(), GetCounters.row(), ShowCounterServers.row(),
		ListActions,
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
