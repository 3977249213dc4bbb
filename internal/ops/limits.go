package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/jsontype"
)

// Limits are limits of a tenant, or of all that have none of their own. 0 is no limit.
type Limits struct {
	Weight      float64       `json:"weight" doc:"Turns for each turn of a tenant of weight 1." example:"1"`
	MaxInFlight int           `json:"max_in_flight" doc:"Deliveries at once, over all readers; 0 for no limit." example:"5"`
	MaxShare    float64       `json:"max_share" doc:"The share of all handlers of consumers, at least one of them; 0 for no limit." example:"0.5"`
	Rate        jsontype.Rate `json:"rate" doc:"Deliveries per second; 0 for no limit."`
	Burst       int           `json:"burst" doc:"Deliveries at once after a rest; 0 for a tenth of a second's worth, at least two." example:"10"`
	MaxWaiting  int           `json:"max_waiting" doc:"Messages that wait; writes of more are refused; 0 for no limit." example:"10000"`
	Paused      bool          `json:"paused" doc:"Its messages wait."`
}

// OfLimits converts limits.
func OfLimits(l queuestats.Limits) Limits {
	weight := l.Weight
	if weight == 0 {
		weight = 1
	}
	return Limits{weight, l.MaxInFlight, l.MaxShare, jsontype.Rate(l.Rate), l.Burst, l.MaxWaiting, l.Paused}
}

// phrases are the limits in words, in the order in which they are shown, "" for one that limits nothing.
func (l Limits) phrases() (list []phrase) {
	add := func(name string, limits bool, lifted, format string, value any) {
		p := phrase{name: name, lifted: lifted}
		if limits {
			p.text = fmt.Sprintf(format, value)
		}
		list = append(list, p)
	}
	add("paused", l.Paused, "not paused", "%s", "paused")
	add("weight", l.Weight != 1, "weight 1", "weight %g", l.Weight)
	add("max_in_flight", l.MaxInFlight > 0, "any number in flight", "%d in flight", l.MaxInFlight)
	add("max_share", l.MaxShare > 0, "all handlers", "%g%% of handlers", 100*l.MaxShare)
	add("rate", l.Rate > 0, "any rate", "%s", l.Rate)
	add("burst", l.Rate > 0 && l.Burst > 0, "", "in bursts of %d", l.Burst)
	add("max_waiting", l.MaxWaiting > 0, "any number waiting", "%d waiting", l.MaxWaiting)
	return list
}

// phrase is a limit in words.
type phrase struct{ name, text, lifted string }

// String returns the limits in a line.
func (l Limits) String() string {
	var words []string
	for _, p := range l.phrases() {
		if p.text != "" {
			words = append(words, p.text)
		}
	}
	return lineOf(words)
}

func lineOf(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.ReplaceAll(strings.Join(words, ", "), ", in bursts", " in bursts")
}

// LimitFields is a change of limits. Absent limits stay.
type LimitFields struct {
	Weight      *float64       `json:"weight,omitempty" placeholder:"N" minimum:"0.01" maximum:"100" doc:"Turns for each turn of a tenant of weight 1, from 0.01 to 100." example:"2.5"`
	MaxInFlight *int           `json:"max_in_flight,omitempty" placeholder:"N" minimum:"0" doc:"Deliveries at once, over all readers; 0 for no limit." example:"5"`
	MaxShare    *float64       `json:"max_share,omitempty" placeholder:"PART" minimum:"0" maximum:"1" doc:"The share of all handlers of consumers, at least one of them; 0 for no limit." example:"0.5"`
	Rate        *jsontype.Rate `json:"rate,omitempty" placeholder:"N/s" doc:"Deliveries per second, or as 5/s, 100/m or 10/h; 0 for no limit."`
	Burst       *int           `json:"burst,omitempty" placeholder:"N" minimum:"0" doc:"Deliveries at once after a rest; 0 for a tenth of a second's worth, at least two." example:"10"`
	MaxWaiting  *int           `json:"max_waiting,omitempty" placeholder:"N" minimum:"0" doc:"Messages that wait; writes of more are refused; 0 for no limit." example:"10000"`
	Paused      *bool          `json:"paused,omitempty" kong:"-" doc:"Its messages wait."`
}

// Own returns the limits to set.
func (c LimitFields) Own() fairqueue.OwnLimits {
	return fairqueue.OwnLimits{
		Weight: c.Weight, MaxInFlight: c.MaxInFlight, MaxShare: c.MaxShare, Rate: (*float64)(c.Rate), Burst: c.Burst, MaxWaiting: c.MaxWaiting,
		Paused: c.Paused,
	}
}

// Tenant names a tenant, or all that have no limits of their own if it is empty.
type Tenant struct {
	Tenant jsontype.Text `json:"tenant,omitempty" arg:"" optional:"" complete:"tenant" doc:"The tenant. Absent for all that have no limits of their own." example:"\"acme-eu\""`
}

// String returns the tenant's name for people.
func (t Tenant) String() string {
	if t.Tenant == "" {
		return "all others"
	}
	return t.Tenant.String()
}

// TenantLimits are the limits that count for a tenant.
type TenantLimits struct {
	Tenant

	Own         []string   `json:"own" nullable:"false" doc:"The names of those that are its own. The others are those of all that have none." example:"[\"rate\"]"`
	Limits      Limits     `json:"limits"`
	PausedUntil *time.Time `json:"paused_until,omitempty" doc:"When a pause or a throttle ends, in UTC. Absent without one, and for one without an end."`
}

// Line returns the limits in a line, and marks those that are defaults.
func (t TenantLimits) Line() string {
	if t.Tenant.Tenant == "" {
		return t.Limits.String()
	}
	var words []string
	for _, p := range t.Limits.phrases() {
		text, own := p.text, slices.Contains(t.Own, p.name)
		if own && text == "" {
			text = p.lifted
		}
		if text != "" && !own && p.name != "paused" {
			text += " (default)"
		}
		if text != "" {
			words = append(words, text)
		}
	}
	return lineOf(words)
}

// StoredLimits are all limits that are stored in a queue.
type StoredLimits struct {
	Limits []TenantLimits `json:"limits" doc:"Those of all others first; tenants that have none of their own are not there."`
}

// OfTenantLimits converts the limits that count for a tenant, or for all others.
func OfTenantLimits(l fairqueue.TenantLimits) TenantLimits {
	doc := TenantLimits{Tenant: Tenant{jsontype.Text(l.Tenant)}, Own: OwnNames(l.Own), Limits: OfLimits(l.Limits)}
	if l.PausedUntil.Year() < farYear {
		doc.PausedUntil = jsontype.Time(l.PausedUntil)
	}
	return doc
}

// OwnNames returns the names of the limits that are not nil, by which they are cleared.
func OwnNames(o fairqueue.OwnLimits) []string {
	names := []string{}
	for _, limit := range []struct {
		name string
		set  bool
	}{
		{"weight", o.Weight != nil}, {"max_in_flight", o.MaxInFlight != nil}, {"max_share", o.MaxShare != nil}, {"rate", o.Rate != nil},
		{"burst", o.Burst != nil}, {"max_waiting", o.MaxWaiting != nil}, {"paused", o.Paused != nil},
	} {
		if limit.set {
			names = append(names, limit.name)
		}
	}
	return names
}

// farYear is that of the end of a pause without an end.
const farYear = 9999
