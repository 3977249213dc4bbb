package ops

import (
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/jsontype"
)

// TenantStats has the numbers of a tenant.
type TenantStats struct {
	Tenant

	Waiting   int        `json:"waiting" example:"17"`
	InFlight  int        `json:"in_flight" doc:"Messages with handlers of consumers, and with other readers if there are limits." example:"2"`
	OldestAge int64      `json:"oldest_age_ms" doc:"How long its next message has been readable." example:"310"`
	Handling  int64      `json:"handling_ms" doc:"How long handlers took for its last messages, on average; -1 if unknown." example:"42"`
	State     string     `json:"state" enum:"ready,held,asleep,paused" doc:"ready: its next message waits for its turn; held: it has its share of the handlers, or its most in flight; asleep: by its rate, or a pause that ends; paused." example:"ready"`
	Until     *time.Time `json:"until,omitempty" doc:"When a tenant that is asleep goes on, in UTC. Absent in other states."`
	WaitsFor  string     `json:"waits_for" enum:"turn,handlers,in_flight,rate,pause,queue,reader,server" doc:"What its next message waits for: its turn; its handlers, of which it has its share; its most in flight; its rate; a pause or a throttle of it; the pause of the queue; a reader, of which there is none; the server, which takes no writes." example:"turn"`
	Limits    Limits     `json:"limits" doc:"Those that count for it."`
}

// Tenants are the tenants of a queue that have messages.
type Tenants struct {
	Default Limits        `json:"default" doc:"The limits of all that have none of their own."`
	Count   int           `json:"count" doc:"How many there are." example:"2"`
	Tenants []TenantStats `json:"tenants" doc:"At most 1,024 are examined."`

	At time.Time `json:"-"` // by the server's clock
}

// OfTenant converts the numbers of a flow that is a tenant, at an instant.
func OfTenant(f queuestats.Flow, why diagnosis.Why, at time.Time) TenantStats {
	doc := TenantStats{
		Tenant: Tenant{jsontype.Text(f.Tenant)}, Waiting: f.Waiting, InFlight: f.InFlight,
		OldestAge: f.OldestAge.Milliseconds(), Handling: -1, State: "ready", WaitsFor: string(why), Limits: OfLimits(f.Limits),
	}
	if f.Handling >= 0 {
		doc.Handling = f.Handling.Milliseconds()
	}
	switch {
	case f.Paused:
		doc.State = "paused"
	case f.NotBefore.After(at):
		doc.State, doc.Until = "asleep", jsontype.Time(f.NotBefore)
	case f.Held:
		doc.State = "held"
	}
	return doc
}

// OfTenants converts the numbers of a queue without streams.
func OfTenants(s fairqueue.Stats, all queuestats.Limits) Tenants {
	doc := Tenants{Default: OfLimits(all), Count: s.FlowCount, Tenants: []TenantStats{}, At: s.At}
	why := diagnosis.WhyWaits(s)
	for _, f := range s.Flows {
		if f.Stream < 0 {
			doc.Tenants = append(doc.Tenants, OfTenant(f, why(f), s.At))
		}
	}
	return doc
}
