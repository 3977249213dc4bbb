package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/readable"
)

type queueTenants struct {
	watchable
	queueName
	Sort   string `enum:"waiting,inflight,handling,age,name" default:"waiting" help:"What comes first: the most waiting, inflight, the longest handling, the oldest age; or name."`
	Most   int    `default:"40" placeholder:"N" help:"How many to show; 0 for all. Defaults to 40."`
	Limits bool   `help:"Show the limits that are stored, by name, also of tenants without messages. The order is then by name."`
}

func (*queueTenants) Help() string {
	return `STATE is why its next message waits. ready: for its turn. held: it has its share of the handlers, or its most in flight. asleep: by its rate, or for a pause that ends. paused: until it is resumed. Tenants whose messages are all in flight are not listed. At most 1,024 are examined.

Examples:

    millrace queue tenants orders
    millrace queue tenants orders --sort handling --most 10
    millrace queue tenants orders --limits`
}

func (c *queueTenants) Run(ctx context.Context, a *app) error {
	if c.Most < 0 {
		return millrace.ErrBadArgument.Errorf("--most is negative: %d", c.Most)
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		if c.Limits {
			return c.storedLimits(ctx, q)
		}
		s, err := q.Stats(ctx)
		if err != nil {
			return nil, nil, err
		}
		if s.Streams > 0 {
			return nil, nil, millrace.ErrBadArgument.Errorf("the flows of this queue are streams, so it does not count its tenants").
				WithHint("Show its streams with: millrace queue stats")
		}
		all, err := q.Limits().Get(ctx, "")
		if err != nil {
			return nil, nil, err
		}
		doc := document.OfTenants(s, all.Limits)
		sortTenants(doc.Tenants, c.Sort)
		if c.Most > 0 {
			doc.Tenants = doc.Tenants[:min(len(doc.Tenants), c.Most)]
		}
		return doc, func(w io.Writer) { tableOfTenants(w, doc, s.At) }, nil
	})
}

func sortTenants(list []document.TenantStats, by string) {
	slices.SortStableFunc(list, func(a, b document.TenantStats) int {
		order := map[string]int{
			"waiting": cmp.Compare(b.Waiting, a.Waiting), "inflight": cmp.Compare(b.InFlight, a.InFlight),
			"handling": cmp.Compare(b.Handling, a.Handling), "age": cmp.Compare(b.OldestAge, a.OldestAge),
		}[by]
		return cmp.Or(order, cmp.Compare(a.String(), b.String()))
	})
}

func tableOfTenants(w io.Writer, doc document.Tenants, now time.Time) {
	fmt.Fprintln(w, "TENANT\tWAITING\tOLDEST\tIN FLIGHT\tHANDLING\tSTATE\tLIMITS")
	for _, t := range doc.Tenants {
		oldest, handling, state := "-", "-", t.State
		if t.OldestAge > 0 {
			oldest = readable.Duration(time.Duration(t.OldestAge) * time.Millisecond)
		}
		if t.Handling >= 0 {
			handling = readable.Duration(time.Duration(t.Handling) * time.Millisecond)
		}
		if t.Until != nil {
			state += " for " + readable.Duration(max(0, t.Until.Sub(now)))
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%s\n", t.Tenant, t.Waiting, oldest, t.InFlight, handling, state, t.Limits)
	}
	if more := doc.Count - len(doc.Tenants); more > 0 {
		fmt.Fprintf(w, "%d more\t\t\t\t\t\t\n", more)
	}
	fmt.Fprintf(w, "all others\t\t\t\t\t\t%s\n", doc.Default)
}

// limitsDoc is the document of queue tenants --limits.
type limitsDoc struct {
	Count  int                     `json:"count"`
	Limits []document.TenantLimits `json:"limits"`
}

// storedLimits lists the stored limits, by name. Limits of all others come first.
func (c *queueTenants) storedLimits(ctx context.Context, q *fairqueue.Queue) (any, table, error) {
	doc := limitsDoc{Limits: []document.TenantLimits{}}
	for l, err := range q.Limits().All(ctx) {
		if err != nil {
			return nil, nil, err
		}
		doc.Limits = append(doc.Limits, document.OfTenantLimits(l))
	}
	slices.SortStableFunc(doc.Limits, func(a, b document.TenantLimits) int {
		return cmp.Compare(a.Tenant.Tenant, b.Tenant.Tenant)
	})
	doc.Count = len(doc.Limits)
	if c.Most > 0 {
		doc.Limits = doc.Limits[:min(doc.Count, c.Most)]
	}
	return doc, func(w io.Writer) {
		fmt.Fprintln(w, "TENANT\tLIMITS")
		for _, l := range doc.Limits {
			fmt.Fprintf(w, "%s\t%s\n", l.Tenant, l.Line())
		}
		if more := doc.Count - len(doc.Limits); more > 0 {
			fmt.Fprintf(w, "%d more\t\n", more)
		}
	}, nil
}

// queueTenant is the noun below queue for one tenant.
type queueTenant struct {
	Show   tenantShow   `cmd:"" help:"Show the limits that count for a tenant."`
	Set    tenantSet    `cmd:"" help:"Limit a tenant, or all that have no limits of their own."`
	Clear  tenantClear  `cmd:"" help:"Remove a tenant's own limits."`
	Pause  tenantPause  `cmd:"" help:"Let a tenant's messages wait, for a time or until it is resumed."`
	Resume tenantResume `cmd:"" help:"End a tenant's pause, and one by Throttle."`
	Purge  tenantPurge  `cmd:"" help:"Remove a tenant's messages that wait or are delayed."`
}

func (*queueTenant) Help() string {
	return `Limits count for all readers at once. They waste nothing: what one tenant may not use, others get. Changes act at once.

Examples:

    millrace queue tenant set orders acme --rate 100/m --max-in-flight 5
    millrace queue tenant set orders --default --max-waiting 100000
    millrace queue tenant pause orders acme --for 10m
    millrace queue tenant purge orders acme`
}

// tenantName is the argument that names a tenant.
type tenantName struct {
	queueName
	Tenant document.Text `arg:"" optional:"" complete:"tenant" help:"The tenant."`
}

// tenantOrDefault names a tenant, or the limits of all that have none of their own.
type tenantOrDefault struct {
	tenantName
	Default bool `help:"The limits of all tenants that have none of their own."`
}

func (t tenantOrDefault) check() error {
	if named := t.Tenant != ""; named == t.Default {
		return errUsage.Errorf("this needs a tenant or --default").WithHint("--default is for all that have no limits of their own.")
	}
	return nil
}

func (t tenantName) doc() document.Tenant { return document.Tenant{Tenant: t.Tenant} }

// named returns the tenant, which must be given.
func (t tenantName) named() (string, error) {
	if t.Tenant == "" {
		return "", errUsage.Errorf("this needs a tenant").
			WithHint("List the tenants with: millrace queue tenants " + t.Name.String())
	}
	return string(t.Tenant), nil
}

// show prints the limits that count after a change.
func (t tenantName) show(ctx context.Context, q *fairqueue.Queue, err error) (any, table, error) {
	if err != nil {
		return nil, nil, err
	}
	l, err := q.Limits().Get(ctx, string(t.Tenant))
	doc := document.OfTenantLimits(l)
	return doc, says("%s: %s", doc.Tenant, doc.Line()), err
}

type tenantShow struct {
	watchable
	tenantOrDefault
}

func (*tenantShow) Help() string {
	return `Those that are not its own have "(default)" behind.

Examples:

    millrace queue tenant show orders acme
    millrace queue tenant show orders --default`
}

func (c *tenantShow) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) { return c.show(ctx, q, nil) })
}

type tenantSet struct {
	tenantOrDefault
	Weight      *float64       `placeholder:"N" help:"Turns for each turn of others, 0.01 to 100; 1 for as many."`
	MaxInFlight *int           `placeholder:"N" help:"Deliveries at once; 0 for no limit."`
	MaxShare    *float64       `placeholder:"PART" help:"The part of all handlers, from 0 to 1, at least one of them; 0 for no limit."`
	Rate        *document.Rate `placeholder:"N/s" help:"Deliveries: 5/s, 100/m or 10/h; 0 for no limit."`
	Burst       *int           `placeholder:"N" help:"Deliveries at once after a rest; 0 for a tenth of a second's worth, at least 2."`
	MaxWaiting  *int           `placeholder:"N" help:"Messages that wait; writes of more are refused; 0 for no limit."`
	IfUnset     bool           `help:"Change only those that are not set, as a program does when it starts."`
}

func (*tenantSet) Help() string {
	return `Only the given limits change, and are the tenant's own then. For the rest it follows those of all others, also when these change. It creates the queue if there is none.

Examples:

    millrace queue tenant set orders acme --rate 100/m --burst 10
    millrace queue tenant set orders acme --max-in-flight 20
    millrace queue tenant set orders --default --max-share 0.5`
}

func (c *tenantSet) Run(ctx context.Context, a *app) error {
	change := document.LimitsChange{
		Weight: c.Weight, MaxInFlight: c.MaxInFlight, MaxShare: c.MaxShare, Rate: c.Rate, Burst: c.Burst, MaxWaiting: c.MaxWaiting,
	}
	if change == (document.LimitsChange{}) {
		return errUsage.Errorf("no limit is given").WithHint("Give one, such as --rate 5/s or --max-in-flight 10.")
	}
	if err := c.check(); err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		set := fairqueue.LimitSettings.Set
		if c.IfUnset {
			set = fairqueue.LimitSettings.SetIfUnset
		}
		return c.show(ctx, q, set(q.Limits(), ctx, string(c.Tenant), change.Own()))
	})
}

type tenantClear struct {
	tenantOrDefault
	Limit []string `placeholder:"NAME" enum:"weight,max_in_flight,max_share,rate,burst,max_waiting,paused" help:"Only these: weight, max_in_flight, max_share, rate, burst, max_waiting, paused. Defaults to all."`
}

func (*tenantClear) Help() string {
	return `The limits of all others count for it again. It does not end a pause.

Examples:

    millrace queue tenant clear orders acme
    millrace queue tenant clear orders acme --limit rate,burst
    millrace queue tenant clear orders --default`
}

func (c *tenantClear) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		return c.show(ctx, q, q.Limits().Clear(ctx, string(c.Tenant), c.Limit...))
	})
}

type tenantPause struct {
	tenantName
	For document.Duration `placeholder:"TIME" help:"How long. Defaults to until it is resumed."`
}

func (*tenantPause) Help() string {
	return `Its messages in flight may be finished, and writing goes on.

Examples:

    millrace queue tenant pause orders acme
    millrace queue tenant pause orders acme --for 10m`
}

func (c *tenantPause) Run(ctx context.Context, a *app) error {
	tenant, err := c.named()
	if err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		doc := document.PausedTenant{Tenant: c.doc(), Paused: true, For: c.For.Milliseconds()}
		said := says("%s is paused", doc.Tenant)
		if c.For.Duration > 0 {
			said = says("%s is paused for %s", doc.Tenant, readable.Duration(c.For.Duration))
		}
		return doc, said, q.Limits().Pause(ctx, tenant, c.For.Duration)
	})
}

type tenantResume struct{ tenantName }

func (*tenantResume) Help() string {
	return `Examples:

    millrace queue tenant resume orders acme`
}

func (c *tenantResume) Run(ctx context.Context, a *app) error {
	tenant, err := c.named()
	if err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		doc := document.PausedTenant{Tenant: c.doc()}
		return doc, says("%s goes on", doc.Tenant), q.Limits().Resume(ctx, tenant)
	})
}

type tenantPurge struct {
	tenantName
	Yes bool `help:"Do not ask."`
}

func (*tenantPurge) Help() string {
	return `What is in flight or dead stays.

Examples:

    millrace queue tenant purge orders acme
    millrace queue tenant purge orders acme --yes`
}

func (c *tenantPurge) Run(ctx context.Context, a *app) error {
	tenant, err := c.named()
	if err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		var question string
		if !c.Yes && !a.json {
			if question, err = purgeQuestion(ctx, q, c.doc()); err != nil {
				return nil, nil, err
			}
		}
		if err := a.ask(ctx, c.Yes, question); err != nil {
			return nil, nil, err
		}
		n, err := q.PurgeTenant(ctx, tenant)
		return document.PurgedTenant{Tenant: c.doc(), Purged: n}, says("%s removed", readable.Count(n, "message")), err
	})
}

// purgeQuestion counts the messages that would be removed, within a bound.
func purgeQuestion(ctx context.Context, q *fairqueue.Queue, of document.Tenant) (string, error) {
	n, least := 0, ""
	for _, state := range []fairqueue.State{fairqueue.Waiting, fairqueue.Delayed} {
		cfg := fairqueue.SearchConfig{State: state, Tenant: string(of.Tenant), Max: 1000, Look: 1000}
		found, err := q.Search(ctx, cfg)
		if err != nil {
			return "", err
		}
		n += len(found.Messages)
		if found.Next != "" {
			least = "at least "
		}
	}
	return fmt.Sprintf("Remove all messages of %s that wait or are delayed, %s%d?", of, least, n), nil
}
