package queuestats

import "time"

// Stats is the state of a queue at one moment. fairqueue.Queue.Stats reads it.
type Stats struct {
	Name string
	At   time.Time // by the server's clock

	Waiting  int // messages that may be read
	InFlight int // messages that a reader has
	Delayed  int // messages that wait for their time
	Dead     int

	DeadMost int           // of the dead ones so many are kept, the newest; 0 for all
	DeadAge  time.Duration // for how long they are kept; 0 for ever

	Abandoned    int           // of those in flight: their visibility has ended, and no reader and no upkeep has noticed
	AbandonedAge time.Duration // for how long, at most

	Failing []Failures // tenants whose messages failed in the last hour, 32 at most: first those of the last ten minutes, and those with the most failures

	OldestAge time.Duration // how long the head of one of Flows has waited, at most; 0 for none
	Paused    bool

	Streams   int // 0 if flows are tenants
	PerTenant int // streams of a tenant

	FlowCount int    // flows in which messages wait or that sleep
	Flows     []Flow // those of them that come next, 1,024 at most, and about 100 tenants with messages in flight, the fullest first

	Schedules        int // that the queue keeps
	OverdueSchedules int // those whose tick is late by more than a minute and their jitter; of 100 at most

	Capacity int      // handlers of all Readers
	Readers  []Reader // runs of Consume, seen in the last 15 seconds, by name
	Vanished []Reader // runs that ended without a word, and whose handlers no others have replaced, within a day; by name
	Counters Counters

	Refused string // why the server takes no writes, if it takes none and so no reader can report; else empty
}

// Flow is one flow.
type Flow struct {
	Tenant string // empty if the flow is a stream
	Stream int    // -1 if the flow is a tenant

	Waiting   int
	InFlight  int           // messages with handlers of Consume, and where there are limits also with other readers
	OldestAge time.Duration // how long the head has waited
	Handling  time.Duration // mean time of handlers for the last messages; negative if unknown
	Held      bool          // the next message waits because its tenant has its share of the handlers, or its most in flight
	NotBefore time.Time     // until when it sleeps, because of its rate, a pause or a throttle; zero if it does not
	ByRate    bool          // it sleeps because of its rate
	Paused    bool          // without an end, until it is resumed
	Limits    Limits        // those that apply
}

// Limits are the limits that apply to a tenant: see fairqueue.OwnLimits. The zero value limits nothing.
type Limits struct {
	Weight      float64 // turns for each turn of a tenant of weight 1
	MaxInFlight int     // messages in flight at once; 0 for no limit
	MaxShare    float64 // part of all handlers of Consume; 0 for no limit
	Rate        float64 // deliveries per second; 0 for no limit
	Burst       int     // deliveries that may start at once after a rest; 0 for the default
	MaxWaiting  int     // messages that may wait; 0 for no limit
	Paused      bool    // messages wait
}

// Reader is one run of fairqueue.Queue.Consume.
type Reader struct {
	Name        string // fairqueue.ConsumeConfig.Name
	Host        string
	Concurrency int
	InFlight    int
	LastSeen    time.Time
}

// Counters count since the queue was created, over all processes. None is lost on a full
// server: one step writes a counter and the change that it counts.
type Counters struct {
	Written   int64 `json:"written" doc:"Messages written, including delayed ones."`
	Delivered int64 `json:"delivered" doc:"Deliveries."`
	Cost      int64 `json:"cost" doc:"What the deliveries cost: their number, or more where messages have a cost of their own."`
	Acked     int64 `json:"acked" doc:"Messages acknowledged."`
	Nacked    int64 `json:"nacked" doc:"Deliveries that failed and were returned."`
	Returned  int64 `json:"returned" doc:"Deliveries returned without an attempt, because the reader had gone."`
	Reclaimed int64 `json:"reclaimed" doc:"Deliveries that ran out of time and were redelivered."`
	Expired   int64 `json:"expired" doc:"Messages that expired before their turn."`
	Cancelled int64 `json:"cancelled" doc:"Messages cancelled."`
	Buried    int64 `json:"buried" doc:"Messages that died."`
	Redriven  int64 `json:"redriven" doc:"Dead messages that were redelivered."`
	Purged    int64 `json:"purged" doc:"Dead messages that were purged."`
	Dropped   int64 `json:"dropped" doc:"Dead messages that were dropped because of their number or age."`
	Lost      int64 `json:"lost" doc:"Messages whose body was deleted by something else than the library."`
}

// Failures are failed deliveries, or messages that failed, that have something in common: the tenant in [Stats].Failing,
// the error in fairqueue.Queue.Failures.
type Failures struct {
	Tenant string // of all of them, if it is one
	Reason string // their error; in Stats the last one; if texts differ in numbers only, one with # in place of those
	Count  int    // messages; in Stats deliveries that failed since Oldest
	Died   int    // in Stats the messages that died since Oldest

	Oldest, Newest time.Time      // when they failed, or died; a tenant that did not fail for ten minutes begins again
	Next           time.Time      // when the first of them is tried again; zero if none is
	Tenants        map[string]int // how many messages of each; nil in Stats
}

// How many dead messages are kept and for how long, unless the queue has other settings.
const (
	DefaultDeadMost = 10_000
	DefaultDeadAge  = 90 * 24 * time.Hour
)
