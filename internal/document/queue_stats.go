package document

import (
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// QueueStats is what a queue holds.
type QueueStats struct {
	Name      Text          `json:"name" example:"\"orders\""`
	Waiting   int           `json:"waiting" doc:"Messages that may be read."`
	InFlight  int           `json:"in_flight" doc:"Messages that a reader has."`
	Delayed   int           `json:"delayed" doc:"Messages that are set aside until their time."`
	Dead      int           `json:"dead" doc:"Messages that were delivered too often, or given up."`
	OldestAge int64         `json:"oldest_age_ms" doc:"For how long the message that has waited longest of those that come next in their flows could have been read; 0 when none waits."`
	Paused    bool          `json:"paused" doc:"Reading is switched off."`
	Shape     Shape         `json:"shape"`
	FlowCount int           `json:"flow_count" doc:"Flows in which messages wait." example:"2"`
	Flows     []FlowStats   `json:"flows" doc:"Those of them that come next, 1,024 at most, the fullest first."`
	Capacity  int           `json:"capacity" doc:"How many handlers the readers run at once, all together." example:"10"`
	Readers   []ReaderStats `json:"readers" doc:"Programs that consume with the library, by name. Who reads over HTTP is not among them."`
	Counters  QueueCounters `json:"counters"`
}

// Shape is what the flows of a queue are.
type Shape struct {
	Streams   int `json:"streams" doc:"How many streams the flows are; 0 if each tenant is a flow." example:"64"`
	PerTenant int `json:"per_tenant" doc:"How many of them a tenant has; 0 if each tenant is a flow." example:"4"`
}

// Resized is a queue's shape after a change, and before it.
type Resized struct {
	Shape

	Before Shape `json:"before"`
}

// FlowStats is one flow: a tenant, or a stream.
type FlowStats struct {
	Tenant    Text  `json:"tenant,omitempty" doc:"The tenant. Absent if the flow is a stream." example:"\"acme\""`
	Stream    int   `json:"stream" doc:"The index of the stream; -1 if the flow is a tenant." example:"-1"`
	Waiting   int   `json:"waiting" example:"17"`
	InFlight  int   `json:"in_flight" doc:"Messages with handlers of the readers; 0 for a stream, of which nobody knows." example:"2"`
	OldestAge int64 `json:"oldest_age_ms" doc:"For how long its next message could have been read." example:"310"`
	Handling  int64 `json:"handling_ms" doc:"How long handlers took for its last messages, on average; -1 if nobody knows." example:"42"`
	Held      bool  `json:"held" doc:"Its next message waits for its own handlers, which have their share of all."`
}

// ReaderStats is a program that consumes.
type ReaderStats struct {
	Name        Text      `json:"name" doc:"Of the program, or its process." example:"\"worker-1\""`
	Host        Text      `json:"host" example:"\"app-3\""`
	Concurrency int       `json:"concurrency" doc:"How many handlers it runs at once." example:"10"`
	InFlight    int       `json:"in_flight" doc:"Messages in its hands." example:"4"`
	LastSeenAt  time.Time `json:"last_seen_at" doc:"By the server's clock, in UTC. Each says every 5 seconds that it is there."`
}

// QueueCounters count since the queue began, over all processes.
type QueueCounters struct {
	Written   int64 `json:"written" doc:"Messages written, also those with a delay."`
	Delivered int64 `json:"delivered" doc:"Deliveries."`
	Acked     int64 `json:"acked" doc:"Messages acknowledged."`
	Nacked    int64 `json:"nacked" doc:"Deliveries given back because they failed."`
	Returned  int64 `json:"returned" doc:"Deliveries handed back because nobody was there any more."`
	Reclaimed int64 `json:"reclaimed" doc:"Deliveries whose reader did not finish in time."`
	Expired   int64 `json:"expired" doc:"Messages whose deadline came before their turn."`
	Cancelled int64 `json:"cancelled" doc:"Messages cancelled."`
	Buried    int64 `json:"buried" doc:"Messages that died."`
	Redriven  int64 `json:"redriven" doc:"Dead messages that were given another try."`
	Purged    int64 `json:"purged" doc:"Dead messages that were forgotten."`
	Dropped   int64 `json:"dropped" doc:"Dead messages that were dropped because there were too many, or for their age."`
	Lost      int64 `json:"lost" doc:"Messages whose body somebody deleted past the library."`
}

// OfShape makes a document of a queue's shape.
func OfShape(s fairqueue.Stats) Shape { return Shape{s.Streams, s.PerTenant} }

// OfQueueStats makes a document of what a queue holds.
func OfQueueStats(s fairqueue.Stats) QueueStats {
	doc := QueueStats{
		Name: Text(s.Name), Waiting: s.Waiting, InFlight: s.InFlight, Delayed: s.Delayed, Dead: s.Dead,
		OldestAge: s.OldestAge.Milliseconds(), Paused: s.Paused, Shape: OfShape(s),
		FlowCount: s.FlowCount, Flows: make([]FlowStats, len(s.Flows)),
		Capacity: s.Capacity, Readers: make([]ReaderStats, len(s.Readers)), Counters: QueueCounters(s.Counters),
	}
	for i, f := range s.Flows {
		doc.Flows[i] = FlowStats{Text(f.Tenant), f.Stream, f.Waiting, f.InFlight, f.OldestAge.Milliseconds(), -1, f.Held}
		if f.Handling >= 0 {
			doc.Flows[i].Handling = f.Handling.Milliseconds()
		}
	}
	for i, r := range s.Readers {
		doc.Readers[i] = ReaderStats{Text(r.Name), Text(r.Host), r.Concurrency, r.InFlight, r.LastSeen.UTC()}
	}
	return doc
}

// Paused is whether reading is switched off.
type Paused struct {
	Paused bool `json:"paused" doc:"Reading is switched off."`
}

// Weight is how many turns a tenant has for each one of others.
type Weight struct {
	Tenant Text    `json:"tenant" example:"\"acme\""`
	Weight float64 `json:"weight" doc:"1 for as many as others." example:"2.5"`
}
