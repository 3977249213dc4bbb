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
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

type queueTenants struct {
	watchable
	queueName
	Sort   string `enum:"waiting,inflight,handling,age,name" default:"waiting" doc:"What comes first: the most waiting, inflight, the longest handling, the oldest age; or name."`
	Most   int    `default:"40" placeholder:"N" doc:"How many to show; 0 for all. Defaults to 40."`
	Limits bool   `doc:"Show the limits that are stored, by name, also of tenants without messages. The order is then by name."`
}

func (c *queueTenants) row() ops.Row {
	if c.Limits {
		return ops.ListLimits.Row
	}
	return ops.ListTenants.Row
}

func (c *queueTenants) Run(ctx context.Context, a *app) error {
	if c.Most < 0 {
		return millrace.ErrBadArgument.Errorf("--most is negative: %d", c.Most)
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		if c.Limits {
			return c.storedLimits(ctx, q)
		}
		doc, err := ops.ListTenants.Do(ctx, q, c.Queue)
		if err != nil {
			return nil, nil, err
		}
		sortTenants(doc.Tenants, c.Sort)
		if c.Most > 0 {
			doc.Tenants = doc.Tenants[:min(len(doc.Tenants), c.Most)]
		}
		return doc, func(w io.Writer) { tableOfTenants(w, doc) }, nil
	})
}

func sortTenants(list []ops.TenantStats, by string) {
	slices.SortStableFunc(list, func(a, b ops.TenantStats) int {
		order := map[string]int{
			"waiting": cmp.Compare(b.Waiting, a.Waiting), "inflight": cmp.Compare(b.InFlight, a.InFlight),
			"handling": cmp.Compare(b.Handling, a.Handling), "age": cmp.Compare(b.OldestAge, a.OldestAge),
		}[by]
		return cmp.Or(order, cmp.Compare(a.String(), b.String()))
	})
}

func tableOfTenants(w io.Writer, doc ops.Tenants) {
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
			state += " for " + readable.Duration(max(0, t.Until.Sub(doc.At)))
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
	Count  int                `json:"count"`
	Limits []ops.TenantLimits `json:"limits"`
}

// storedLimits lists the stored limits, by name. Limits of all others come first.
func (c *queueTenants) storedLimits(ctx context.Context, q *fairqueue.Queue) (any, table, error) {
	stored, err := ops.ListLimits.Do(ctx, q, c.Queue)
	if err != nil {
		return nil, nil, err
	}
	doc := limitsDoc{Limits: stored.Limits}
	slices.SortStableFunc(doc.Limits, func(a, b ops.TenantLimits) int {
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
	Show   tenantShow   `cmd:""`
	Set    tenantSet    `cmd:""`
	Clear  tenantClear  `cmd:""`
	Pause  tenantPause  `cmd:""`
	Resume tenantResume `cmd:""`
	Purge  tenantPurge  `cmd:""`
}

func (*queueTenant) Help() string {
	return `Limits count for all readers at once. They waste nothing: what one tenant may not use, others get. Changes act at once.

Examples:

    millrace queue tenant set orders acme --rate 100/m --max-in-flight 5
    millrace queue tenant set orders --default --max-waiting 100000
    millrace queue tenant pause orders acme --for 10m
    millrace queue tenant purge orders acme`
}

// orDefault is the flag for the limits of all that have none of their own, in place of a tenant.
type orDefault struct {
	Default bool `help:"The limits of all tenants that have none of their own."`
}

func (d orDefault) check(tenant jsontype.Text) error {
	if named := tenant != ""; named == d.Default {
		return errUsage.Errorf("this needs a tenant or --default").WithHint("--default is for all that have no limits of their own.")
	}
	return nil
}

// needsTenant rejects a command line without a tenant.
func needsTenant(q ops.Queue, t ops.Tenant) error {
	if t.Tenant == "" {
		return errUsage.Errorf("this needs a tenant").WithHint("List the tenants with: millrace queue tenants " + q.Name.String())
	}
	return nil
}

// limitsLine prints the limits that count, after a change, too.
func limitsLine(doc ops.TenantLimits) table { return says("%s: %s", doc.Tenant, doc.Line()) }

type tenantShow struct {
	watchable
	ops.LimitsOf
	orDefault
}

func (*tenantShow) Help() string { return `Those that are not its own have "(default)" behind.` }

func (c *tenantShow) Run(ctx context.Context, a *app) error {
	if err := c.check(c.Tenant); err != nil {
		return err
	}
	return onQueue(ctx, a, c.Queue, ops.GetLimits, c.LimitsOf, limitsLine)
}

type tenantSet struct {
	queueName
	ops.LimitsChange
	orDefault
}

func (c *tenantSet) Run(ctx context.Context, a *app) error {
	if c.LimitFields == (ops.LimitFields{}) {
		return errUsage.Errorf("no limit is given").WithHint("Give one, such as --rate 5/s or --max-in-flight 10.")
	}
	if err := c.check(c.Tenant.Tenant); err != nil {
		return err
	}
	return onQueue(ctx, a, c.Queue, ops.ChangeLimits, c.LimitsChange, limitsLine)
}

type tenantClear struct {
	queueName
	ops.LimitsClear
	orDefault
}

func (c *tenantClear) Run(ctx context.Context, a *app) error {
	if err := c.check(c.Tenant.Tenant); err != nil {
		return err
	}
	return onQueue(ctx, a, c.Queue, ops.ClearLimits, c.LimitsClear, limitsLine)
}

type tenantPause struct {
	queueName
	ops.TenantPause
}

func (c *tenantPause) Run(ctx context.Context, a *app) error {
	if err := needsTenant(c.Queue, c.Tenant); err != nil {
		return err
	}
	return onQueue(ctx, a, c.Queue, ops.PauseTenant, c.TenantPause, func(doc ops.PausedTenant) table {
		if c.For.Duration > 0 {
			return says("%s is paused for %s", doc.Tenant, readable.Duration(c.For.Duration))
		}
		return says("%s is paused", doc.Tenant)
	})
}

type tenantResume struct {
	queueName
	ops.Tenant
}

func (c *tenantResume) Run(ctx context.Context, a *app) error {
	if err := needsTenant(c.Queue, c.Tenant); err != nil {
		return err
	}
	return onQueue(ctx, a, c.Queue, ops.ResumeTenant, c.Tenant, func(doc ops.PausedTenant) table { return says("%s goes on", doc.Tenant) })
}

type tenantPurge struct {
	queueName
	ops.Tenant
	Yes bool `help:"Do not ask."`
}

func (c *tenantPurge) Run(ctx context.Context, a *app) error {
	if err := needsTenant(c.Queue, c.Tenant); err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		var question string
		if !c.Yes && !a.json {
			var err error
			if question, err = purgeQuestion(ctx, q, c.Tenant); err != nil {
				return nil, nil, err
			}
		}
		if err := a.ask(ctx, c.Yes, question); err != nil {
			return nil, nil, err
		}
		doc, err := ops.PurgeTenant.Do(ctx, q, c.Tenant)
		return doc, says("%s removed", readable.Count(doc.Purged, "message")), err
	})
}

// purgeQuestion counts the messages that would be removed, within a bound.
func purgeQuestion(ctx context.Context, q *fairqueue.Queue, of ops.Tenant) (string, error) {
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
