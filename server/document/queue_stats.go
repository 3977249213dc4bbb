package document

import "github.com/millrace/millrace/fairqueue"

// QueueStats is what a queue holds.
type QueueStats struct {
	Name      Text          `json:"name" example:"\"orders\""`
	Waiting   int           `json:"waiting" doc:"Messages that may be read."`
	InFlight  int           `json:"in_flight" doc:"Messages that a reader has."`
	Delayed   int           `json:"delayed" doc:"Messages that are set aside until their time."`
	Dead      int           `json:"dead" doc:"Messages that were delivered too often, or given up."`
	OldestAge int64         `json:"oldest_age_ms" doc:"For how long the message that has waited longest could have been read; 0 when none waits."`
	Paused    bool          `json:"paused" doc:"Reading is switched off."`
	Shape     Shape         `json:"shape"`
	Streams   []StreamStats `json:"streams" doc:"Those that hold messages."`
	Counters  QueueCounters `json:"counters"`
}

// Shape is how many streams writers use, and how many of them a tenant has.
type Shape struct {
	Streams   int `json:"streams" doc:"How many streams writers use." example:"64"`
	PerTenant int `json:"per_tenant" doc:"How many of them a tenant has." example:"4"`
}

// Resized is a queue's shape after a change, and before it.
type Resized struct {
	Shape

	Before Shape `json:"before"`
}

// StreamStats is what one stream holds.
type StreamStats struct {
	Index     int   `json:"index"`
	Waiting   int   `json:"waiting"`
	InFlight  int   `json:"in_flight"`
	OldestAge int64 `json:"oldest_age_ms"`
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
}

// OfShape makes a document of a queue's shape.
func OfShape(s fairqueue.Stats) Shape { return Shape{s.StreamCount, s.PerTenant} }

// OfQueueStats makes a document of what a queue holds.
func OfQueueStats(s fairqueue.Stats) QueueStats {
	doc := QueueStats{
		Name: Text(s.Name), Waiting: s.Waiting, InFlight: s.InFlight, Delayed: s.Delayed, Dead: s.Dead,
		OldestAge: s.OldestAge.Milliseconds(), Paused: s.Paused, Shape: OfShape(s),
		Streams: make([]StreamStats, len(s.Streams)), Counters: QueueCounters(s.Counters),
	}
	for i, one := range s.Streams {
		doc.Streams[i] = StreamStats{one.Index, one.Waiting, one.InFlight, one.OldestAge.Milliseconds()}
	}
	return doc
}

// Paused is whether reading is switched off.
type Paused struct {
	Paused bool `json:"paused" doc:"Reading is switched off."`
}
