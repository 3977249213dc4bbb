package ops

import (
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/jsontype"
)

// QueueStats has the numbers of a queue.
type QueueStats struct {
	Name      jsontype.Text `json:"name" example:"\"orders\""`
	Waiting   int           `json:"waiting" doc:"Messages that can be read."`
	InFlight  int           `json:"in_flight" doc:"Messages that readers work on."`
	Delayed   int           `json:"delayed" doc:"Messages that cannot be read yet."`
	Dead      int           `json:"dead" doc:"Messages that were delivered too often, or that a reader made dead."`
	OldestAge int64         `json:"oldest_age_ms" doc:"How long the oldest of the next messages of all flows has been readable; 0 if none waits."`
	Paused    bool          `json:"paused" doc:"Reading is paused."`
	Shape     Shape         `json:"shape"`
	FlowCount int           `json:"flow_count" doc:"Flows with waiting messages." example:"2"`
	Flows     []FlowStats   `json:"flows" doc:"The flows that are next, 1,024 at most, and about 100 tenants with messages in flight, the fullest first."`
	Capacity  int           `json:"capacity" doc:"How many handlers all readers run at once." example:"10"`
	Readers   []ReaderStats `json:"readers" doc:"Programs that consume with the library, and workers that read by a name, also over HTTP; those without one are not included."`
	Counters  QueueCounters `json:"counters"`
	Notices   []Notice      `json:"notices" doc:"What is wrong, and who is the cause, the most urgent first."`
}

// Notice is something that is wrong with a queue.
type Notice struct {
	Cause    string        `json:"cause" enum:"never_read,readers_gone,reader_lost,no_reader,no_writes,schedule_late,paused,flood,slow,failing,tenant_full,tenant_paused,limited,old,dead_dropped" example:"flood"`
	Severity string        `json:"severity" enum:"critical,warning,note" doc:"critical: nothing moves; warning: somebody waits who should not; note: nobody waits because of it." example:"warning"`
	Tenant   jsontype.Text `json:"tenant,omitempty" doc:"The tenant that is the cause. Absent if none is." example:"\"acme\""`
	Text     string        `json:"text" doc:"In words, to be read behind the queue's name." example:"is paused, and 3 messages wait"`
	Command  string        `json:"command,omitempty" doc:"What stops it, without the program's name." example:"queue resume orders"`
	Advice   string        `json:"advice,omitempty" doc:"What else to do."`
	Waits    int64         `json:"waits_ms" doc:"For how long the oldest message waits that suffers from it; 0 if none does." example:"4200"`
}

// Shape describes the flows of a queue.
type Shape struct {
	Streams   int `json:"streams" doc:"How many streams; 0 if each tenant is a flow." example:"64"`
	PerTenant int `json:"per_tenant" doc:"How many of them each tenant uses; 0 if each tenant is a flow." example:"4"`
}

// FlowStats has the numbers of one flow: a tenant or a stream.
type FlowStats struct {
	Tenant    jsontype.Text `json:"tenant,omitempty" doc:"The tenant. Absent if the flow is a stream." example:"\"acme\""`
	Stream    int           `json:"stream" doc:"The index of the stream; -1 if the flow is a tenant." example:"-1"`
	Waiting   int           `json:"waiting" example:"17"`
	InFlight  int           `json:"in_flight" doc:"Messages with handlers of the readers; 0 for a stream, where it is unknown." example:"2"`
	OldestAge int64         `json:"oldest_age_ms" doc:"How long its next message has been readable." example:"310"`
	Handling  int64         `json:"handling_ms" doc:"How long handlers took for its last messages, on average; -1 if unknown." example:"42"`
	Held      bool          `json:"held" doc:"It has its full share of handlers, so its next message waits."`
}

// ReaderStats has the numbers of a program that consumes.
type ReaderStats struct {
	Name        jsontype.Text `json:"name" doc:"The name of the program or process." example:"\"worker-1\""`
	Host        jsontype.Text `json:"host" example:"\"app-3\""`
	Concurrency int           `json:"concurrency" doc:"How many handlers it runs at once." example:"10"`
	InFlight    int           `json:"in_flight" doc:"Messages that it works on." example:"4"`
	LastSeenAt  time.Time     `json:"last_seen_at" doc:"By the server's clock, in UTC. A live reader reports every 5 seconds."`
}

// QueueCounters count since the queue began, over all processes.
type QueueCounters queuestats.Counters

// OfShape returns the shape of a queue.
func OfShape(s fairqueue.Stats) Shape { return Shape{s.Streams, s.PerTenant} }

// ofFindings converts the problems of a queue.
func ofFindings(all []diagnosis.Finding) []Notice {
	notices := make([]Notice, len(all))
	for i, f := range all {
		notices[i] = Notice{
			f.Code, f.Severity.String(), jsontype.Text(f.Tenant), f.Text, f.Command, f.Advice, f.Waits.Milliseconds(),
		}
	}
	return notices
}

// OfQueueStats converts the numbers of a queue, and adds its problems.
func OfQueueStats(s fairqueue.Stats) QueueStats {
	doc := QueueStats{
		Name: jsontype.Text(s.Name), Waiting: s.Waiting, InFlight: s.InFlight, Delayed: s.Delayed, Dead: s.Dead,
		OldestAge: s.OldestAge.Milliseconds(), Paused: s.Paused, Shape: OfShape(s),
		FlowCount: s.FlowCount, Flows: make([]FlowStats, len(s.Flows)),
		Capacity: s.Capacity, Readers: make([]ReaderStats, len(s.Readers)), Counters: QueueCounters(s.Counters),
		Notices: ofFindings(diagnosis.OfQueue(s)),
	}
	for i, f := range s.Flows {
		doc.Flows[i] = FlowStats{jsontype.Text(f.Tenant), f.Stream, f.Waiting, f.InFlight, f.OldestAge.Milliseconds(), -1, f.Held}
		if f.Handling >= 0 {
			doc.Flows[i].Handling = f.Handling.Milliseconds()
		}
	}
	for i, r := range s.Readers {
		doc.Readers[i] = ReaderStats{jsontype.Text(r.Name), jsontype.Text(r.Host), r.Concurrency, r.InFlight, r.LastSeen.UTC()}
	}
	return doc
}
