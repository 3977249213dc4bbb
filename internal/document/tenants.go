package document

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/fairqueue"
)

// Rate is deliveries per second. Requests may say 5/s, 100/m or 10/h; a number is per second.
type Rate float64

// UnmarshalText reads the value from a flag, a query or a string.
func (r *Rate) UnmarshalText(b []byte) error {
	text, per := string(b), 1.0
	if number, unit, found := strings.Cut(text, "/"); found {
		seconds, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
		if !ok {
			return fmt.Errorf("%.40q is not a rate such as 5/s, 100/m or 10/h", b)
		}
		text, per = number, seconds
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 1) {
		return fmt.Errorf("%.40q is not a rate such as 5/s, 100/m or 10/h", b)
	}
	*r = Rate(n / per)
	return nil
}

// UnmarshalJSON reads a number or a string.
func (r *Rate) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		return r.UnmarshalText([]byte(text))
	}
	return r.UnmarshalText(b)
}

// String writes the rate in the first unit in which it is a whole number.
func (r Rate) String() string {
	rate, unit := float64(r), "s"
	for _, larger := range []string{"m", "h"} {
		if math.Abs(rate-math.Round(rate)) > 1e-6*rate {
			rate, unit = rate*60, larger
		}
	}
	return fmt.Sprintf("%.6g/%s", rate, unit)
}

// Schema describes the value for the OpenAPI document.
func (Rate) Schema(r huma.Registry) *huma.Schema {
	return shared(r, "Rate", &huma.Schema{
		Description: "Deliveries per second, as a number, or a string such as 5/s, 100/m or 10/h. Answers have numbers.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeNumber, Minimum: new(0.0)},
			{Type: huma.TypeString, Pattern: `^[0-9]+(\.[0-9]+)?(/[smh])?$`},
		},
		Examples: []any{5},
	})
}

// Limits are limits of a tenant, or of all that have none of their own. 0 is no limit.
type Limits struct {
	Weight      float64 `json:"weight" doc:"Turns for each turn of a tenant of weight 1." example:"1"`
	MaxInFlight int     `json:"max_in_flight" doc:"Deliveries at once, over all readers; 0 for no limit." example:"5"`
	MaxShare    float64 `json:"max_share" doc:"The share of all handlers of consumers, at least one of them; 0 for no limit." example:"0.5"`
	Rate        Rate    `json:"rate" doc:"Deliveries per second; 0 for no limit."`
	Burst       int     `json:"burst" doc:"Deliveries at once after a rest; 0 for a tenth of a second's worth, at least two." example:"10"`
	MaxWaiting  int     `json:"max_waiting" doc:"Messages that wait; writes of more are refused; 0 for no limit." example:"10000"`
	Paused      bool    `json:"paused" doc:"Its messages wait."`
}

// OfLimits converts limits.
func OfLimits(l fairqueue.Limits) Limits {
	weight := l.Weight
	if weight == 0 {
		weight = 1
	}
	return Limits{weight, l.MaxInFlight, l.MaxShare, Rate(l.Rate), l.Burst, l.MaxWaiting, l.Paused}
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

// LimitsChange is a change of limits. Absent limits stay.
type LimitsChange struct {
	Weight      *float64 `json:"weight,omitempty" placeholder:"N" minimum:"0.01" maximum:"100" doc:"Turns for each turn of a tenant of weight 1, from 0.01 to 100." example:"2.5"`
	MaxInFlight *int     `json:"max_in_flight,omitempty" placeholder:"N" minimum:"0" doc:"Deliveries at once, over all readers; 0 for no limit." example:"5"`
	MaxShare    *float64 `json:"max_share,omitempty" placeholder:"PART" minimum:"0" maximum:"1" doc:"The share of all handlers of consumers, at least one of them; 0 for no limit." example:"0.5"`
	Rate        *Rate    `json:"rate,omitempty" placeholder:"N/s" doc:"Deliveries per second, or as 5/s, 100/m or 10/h; 0 for no limit."`
	Burst       *int     `json:"burst,omitempty" placeholder:"N" minimum:"0" doc:"Deliveries at once after a rest; 0 for a tenth of a second's worth, at least two." example:"10"`
	MaxWaiting  *int     `json:"max_waiting,omitempty" placeholder:"N" minimum:"0" doc:"Messages that wait; writes of more are refused; 0 for no limit." example:"10000"`
	Paused      *bool    `json:"paused,omitempty" kong:"-" doc:"Its messages wait."`
}

// Own returns the limits to set.
func (c LimitsChange) Own() fairqueue.OwnLimits {
	return fairqueue.OwnLimits{
		Weight: c.Weight, MaxInFlight: c.MaxInFlight, MaxShare: c.MaxShare, Rate: (*float64)(c.Rate), Burst: c.Burst, MaxWaiting: c.MaxWaiting,
		Paused: c.Paused,
	}
}

// Tenant names a tenant, or all that have no limits of their own if it is empty.
type Tenant struct {
	Tenant Text `json:"tenant,omitempty" arg:"" optional:"" complete:"tenant" doc:"The tenant. Absent for all that have no limits of their own." example:"\"acme-eu\""`
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
	doc := TenantLimits{Tenant: Tenant{Text(l.Tenant)}, Own: OwnNames(l.Own), Limits: OfLimits(l.Limits)}
	if l.PausedUntil.Year() < farYear {
		doc.PausedUntil = Time(l.PausedUntil)
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

// TenantStats has the numbers of a tenant.
type TenantStats struct {
	Tenant

	Waiting   int        `json:"waiting" example:"17"`
	InFlight  int        `json:"in_flight" doc:"Messages with handlers of consumers, and with other readers if there are limits." example:"2"`
	OldestAge int64      `json:"oldest_age_ms" doc:"How long its next message has been readable." example:"310"`
	Handling  int64      `json:"handling_ms" doc:"How long handlers took for its last messages, on average; -1 if unknown." example:"42"`
	State     string     `json:"state" enum:"ready,held,asleep,paused" doc:"ready: its next message waits for its turn; held: it has its share of the handlers, or its most in flight; asleep: by its rate, or a pause that ends; paused." example:"ready"`
	Until     *time.Time `json:"until,omitempty" doc:"When a tenant that is asleep goes on, in UTC. Absent in other states."`
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
func OfTenant(f fairqueue.FlowStats, at time.Time) TenantStats {
	doc := TenantStats{
		Tenant: Tenant{Text(f.Tenant)}, Waiting: f.Waiting, InFlight: f.InFlight,
		OldestAge: f.OldestAge.Milliseconds(), Handling: -1, State: "ready", Limits: OfLimits(f.Limits),
	}
	if f.Handling >= 0 {
		doc.Handling = f.Handling.Milliseconds()
	}
	switch {
	case f.Paused:
		doc.State = "paused"
	case f.NotBefore.After(at):
		doc.State, doc.Until = "asleep", Time(f.NotBefore)
	case f.Held:
		doc.State = "held"
	}
	return doc
}

// OfTenants converts the numbers of a queue without streams.
func OfTenants(s fairqueue.Stats, all fairqueue.Limits) Tenants {
	doc := Tenants{Default: OfLimits(all), Count: s.FlowCount, Tenants: []TenantStats{}, At: s.At}
	for _, f := range s.Flows {
		if f.Stream < 0 {
			doc.Tenants = append(doc.Tenants, OfTenant(f, s.At))
		}
	}
	return doc
}

// PurgedTenant counts removed messages of a tenant.
type PurgedTenant struct {
	Tenant

	Purged int `json:"purged" doc:"How many messages that waited or were delayed are removed." example:"17"`
}

// PausedTenant is the outcome of pausing or resuming a tenant.
type PausedTenant struct {
	Tenant

	Paused bool  `json:"paused"`
	For    int64 `json:"for_ms,omitempty" doc:"How long; absent for until it is resumed." example:"600000"`
}
