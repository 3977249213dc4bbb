package metrics

import (
	"time"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/tracker"
)

const messagesHelp = "Messages by state."

var queueFigures = []figure[fairqueue.Stats]{
	gauge("messages", messagesHelp, func(s fairqueue.Stats) float64 { return float64(s.Waiting) }).of("waiting"),
	gauge("messages", messagesHelp, func(s fairqueue.Stats) float64 { return float64(s.InFlight) }).of("in_flight"),
	gauge("messages", messagesHelp, func(s fairqueue.Stats) float64 { return float64(s.Delayed) }).of("delayed"),
	gauge("messages", messagesHelp, func(s fairqueue.Stats) float64 { return float64(s.Dead) }).of("dead"),
	gauge("oldest_age_seconds", "For how long the message that has waited longest could have been read; 0 when none waits.",
		func(s fairqueue.Stats) float64 { return s.OldestAge.Seconds() }),
	gauge("flows", "Flows in which messages wait: tenants, or streams.", func(s fairqueue.Stats) float64 { return float64(s.FlowCount) }),
	gauge("held_flows", "Flows whose next message waits for their own handlers, which have their share of all; at most 1,024.",
		func(s fairqueue.Stats) float64 { return float64(heldFlows(s)) }),
	gauge("readers", "Programs that consume and were heard of in the last 15 seconds.",
		overReaders(func(fairqueue.ReaderStats) int { return 1 })),
	gauge("capacity", "Handlers that those programs run at once, all together.",
		overReaders(func(r fairqueue.ReaderStats) int { return r.Concurrency })),
	gauge("busy_handlers", "Handlers of those programs that work, as they last said.",
		overReaders(func(r fairqueue.ReaderStats) int { return r.InFlight })),
	gauge("paused", "Whether reading is off.", func(s fairqueue.Stats) float64 {
		if s.Paused {
			return 1
		}
		return 0
	}),
	counter("written_total", "Messages that were written.", func(s fairqueue.Stats) float64 { return float64(s.Counters.Written) }),
	counter("delivered_total", "Deliveries.", func(s fairqueue.Stats) float64 { return float64(s.Counters.Delivered) }),
	counter("acked_total", "Messages that were acknowledged.", func(s fairqueue.Stats) float64 { return float64(s.Counters.Acked) }),
	counter("nacked_total", "Deliveries that failed and were given back.",
		func(s fairqueue.Stats) float64 { return float64(s.Counters.Nacked) }),
	counter("returned_total", "Deliveries that were handed back because nobody was there any more.",
		func(s fairqueue.Stats) float64 { return float64(s.Counters.Returned) }),
	counter("reclaimed_total", "Deliveries whose reader did not finish in time.",
		func(s fairqueue.Stats) float64 { return float64(s.Counters.Reclaimed) }),
	counter("expired_total", "Messages whose deadline came before their turn.",
		func(s fairqueue.Stats) float64 { return float64(s.Counters.Expired) }),
	counter("cancelled_total", "Messages that were cancelled.", func(s fairqueue.Stats) float64 { return float64(s.Counters.Cancelled) }),
	counter("buried_total", "Messages that died.", func(s fairqueue.Stats) float64 { return float64(s.Counters.Buried) }),
	counter("redriven_total", "Dead messages that were given another try.",
		func(s fairqueue.Stats) float64 { return float64(s.Counters.Redriven) }),
	counter("purged_total", "Dead messages that were forgotten.", func(s fairqueue.Stats) float64 { return float64(s.Counters.Purged) }),
	counter("dropped_total", "Dead messages that were dropped because there were too many, or for their age.",
		func(s fairqueue.Stats) float64 { return float64(s.Counters.Dropped) }),
	counter("lost_total", "Messages whose body somebody deleted past the library.",
		func(s fairqueue.Stats) float64 { return float64(s.Counters.Lost) }),
}

func heldFlows(s fairqueue.Stats) (n int) {
	for _, f := range s.Flows {
		if f.Held {
			n++
		}
	}
	return n
}

// readerLife is for how long a reader counts that is not heard of. The queue forgets it
// then, too, but only when another one is heard of.
const readerLife = 15 * time.Second

// overReaders adds something up over the readers that are alive.
func overReaders(of func(fairqueue.ReaderStats) int) func(fairqueue.Stats) float64 {
	return func(s fairqueue.Stats) float64 {
		sum := 0
		for _, r := range s.Readers {
			if s.At.Sub(r.LastSeen) <= readerLife {
				sum += of(r)
			}
		}
		return float64(sum)
	}
}

const marksHelp = "Marks by state; a member that was marked again while reserved waits and is reserved."

var ickFigures = []figure[ick.Stats]{
	gauge("marks", marksHelp, func(s ick.Stats) float64 { return float64(s.Waiting.Size) }).of("waiting"),
	gauge("marks", marksHelp, func(s ick.Stats) float64 { return float64(s.Reserved.Size) }).of("reserved"),
	gauge("marks", marksHelp, func(s ick.Stats) float64 { return float64(s.Parked) }).of("parked"),
	gauge("members", "Members that wait or are reserved, each once.", func(s ick.Stats) float64 { return float64(s.Distinct) }),
	gauge("oldest_age_seconds", "How long the oldest mark has waited; 0 when there is none or its score does not tell.",
		func(s ick.Stats) float64 { return s.OldestAge.Seconds() }),
	counter("new_total", "Marks for members that did not wait.", func(s ick.Stats) float64 { return float64(s.Counters.New) }),
	counter("folded_total", "Marks that fell on one that waited.", func(s ick.Stats) float64 { return float64(s.Counters.Folded) }),
	counter("reserved_total", "Marks that were reserved.", func(s ick.Stats) float64 { return float64(s.Counters.Reserved) }),
	counter("committed_total", "Members that were committed.", func(s ick.Stats) float64 { return float64(s.Counters.Committed) }),
	counter("kept_total", "Members whose commit came too late.", func(s ick.Stats) float64 { return float64(s.Counters.Kept) }),
	counter("parked_total", "Failures of members that were parked.", func(s ick.Stats) float64 { return float64(s.Counters.Parked) }),
	counter("retried_total", "Parked members that were tried again, in time or by hand.",
		func(s ick.Stats) float64 { return float64(s.Counters.Retried) }),
	counter("dropped_total", "Parked members that were dropped by hand.", func(s ick.Stats) float64 { return float64(s.Counters.Dropped) }),
}

var channelFigures = []figure[ick.ChannelStats]{
	gauge("consumers", "Consumers that are alive.", func(s ick.ChannelStats) float64 { return float64(s.Consumers) }),
	gauge("used_icks", "Icks that producers use.", func(s ick.ChannelStats) float64 { return float64(s.Size) }),
	gauge("served_icks", "Icks that are served, those that are being emptied included.",
		func(s ick.ChannelStats) float64 { return float64(len(s.Icks)) }),
	gauge("unowned_icks", "Icks that are to be served and have no consumer now.", func(s ick.ChannelStats) (n float64) {
		for _, one := range s.Icks {
			if one.Owner == "" {
				n++
			}
		}
		return n
	}),
}

var hashesFigures = []figure[expiry.Stats]{
	gauge("with_deadlines", "Hashes of which some fields have a deadline.", func(s expiry.Stats) float64 { return float64(s.Hashes) }),
	gauge("overdue", "Hashes of which some fields may have expired and were not reaped yet.",
		func(s expiry.Stats) float64 { return float64(s.Overdue) }),
	gauge("oldest_overdue_seconds", "How long ago the first of the hashes that are overdue was due; 0 for none.",
		func(s expiry.Stats) float64 { return s.OldestOverdue.Seconds() }),
	gauge("shards", "Shards of the namespace; 0 when there is none.", func(s expiry.Stats) float64 { return float64(s.Shards) }),
	counter("set_total", "Fields that were written.", func(s expiry.Stats) float64 { return float64(s.Set) }),
	counter("deleted_total", "Fields that were removed while they were there.", func(s expiry.Stats) float64 { return float64(s.Deleted) }),
	counter("reaped_total", "Expired fields that were removed.", func(s expiry.Stats) float64 { return float64(s.Reaped) }),
	counter("repaired_total", "What other programs had done and the repair job undid.",
		func(s expiry.Stats) float64 { return float64(s.Repaired) }),
}

const valuesHelp = "Values by state; those that are overdue are hidden and were not reaped yet."

var keysFigures = []figure[pinned.Stats]{
	gauge("values", valuesHelp, func(s pinned.Stats) float64 { return float64(s.Keys) }).of("there"),
	gauge("values", valuesHelp, func(s pinned.Stats) float64 { return float64(s.Overdue) }).of("overdue"),
	gauge("oldest_overdue_seconds", "How long ago the first value that is overdue was due; 0 for none.",
		func(s pinned.Stats) float64 { return s.OldestOverdue.Seconds() }),
	gauge("shards", "Shards of the namespace; 0 when there is none.", func(s pinned.Stats) float64 { return float64(s.Shards) }),
	counter("set_total", "Values that were stored.", func(s pinned.Stats) float64 { return float64(s.Set) }),
	counter("deleted_total", "Values that were removed before their deadline.", func(s pinned.Stats) float64 { return float64(s.Deleted) }),
	counter("reaped_total", "Values that were removed after their deadline.", func(s pinned.Stats) float64 { return float64(s.Reaped) }),
}

var trackerFigures = []figure[tracker.Stats]{
	gauge("identifiers", "Identifiers that are tracked.", func(s tracker.Stats) float64 { return float64(s.Tracked) }),
	gauge("oldest_check_seconds", "The longest time since a tracked identifier was last seen to have work; 0 when none is tracked.",
		func(s tracker.Stats) float64 { return s.OldestCheck.Seconds() }),
	counter("passes_total", "Full passes over the source; before the first, answers are unknown.",
		func(s tracker.Stats) float64 { return float64(s.Passes) }),
	gauge("pass_age_seconds", "How long ago the last full pass began; 0 before the first.",
		func(s tracker.Stats) float64 { return s.PassAge.Seconds() }),
	gauge("pass_seconds", "How long the last full pass took; 0 before the first.",
		func(s tracker.Stats) float64 { return s.PassTime.Seconds() }),
	gauge("cursor_age_seconds", "How long ago a pass last went on; 0 before the first.",
		func(s tracker.Stats) float64 { return s.CursorAge.Seconds() }),
	counter("added_total", "Identifiers that were added, by producers and by passes.",
		func(s tracker.Stats) float64 { return float64(s.Counters.Added) }),
	counter("confirmed_total", "Identifiers that were verified and have work.",
		func(s tracker.Stats) float64 { return float64(s.Counters.Confirmed) }),
	counter("removed_total", "Identifiers that were verified and have none.",
		func(s tracker.Stats) float64 { return float64(s.Counters.Removed) }),
}
