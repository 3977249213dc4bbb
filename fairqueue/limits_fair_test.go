package fairqueue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace/internal/redistest"
)

// contest are the pairs of rivals of which both have messages: units, and tenants of the same
// account. It checks each delivery: see pair.
type contest struct {
	weights map[Owner]float64 // of units; 1 if absent
	waiting map[Owner]int
	pairs   map[[2]Owner]*pair
}

func (c *contest) weight(of Owner) float64 {
	if w, ok := c.weights[of]; ok {
		return w
	}
	return 1
}

// rivals reports whether two owners take turns with each other.
func rivals(a, b Owner) bool {
	isTenant := func(of Owner) bool { return of.Account != "" && of.Tenant != "" }
	if isTenant(a) || isTenant(b) {
		return isTenant(a) && isTenant(b) && a.Account == b.Account && a.Tenant != b.Tenant
	}
	return a != b
}

// wrote notes that n messages of a tenant wait.
func (c *contest) wrote(account, tenant string, n int) {
	for _, of := range ownersOf(account, tenant) {
		for other, m := range c.waiting {
			if c.waiting[of] == 0 && m > 0 && rivals(of, other) {
				key := [2]Owner{of, other}
				if fmt.Sprint(other) < fmt.Sprint(of) {
					key = [2]Owner{other, of}
				}
				c.pairs[key] = &pair{
					names:   [2]string{fmt.Sprint(key[0]), fmt.Sprint(key[1])},
					weights: [2]float64{c.weight(key[0]), c.weight(key[1])},
				}
			}
		}
		c.waiting[of] += n
	}
}

// deliver notes a delivery.
func (c *contest) deliver(r *rapid.T, account, tenant string) {
	for _, of := range ownersOf(account, tenant) {
		c.waiting[of]--
		for key, p := range c.pairs {
			for i := range key {
				if key[i] == of {
					p.deliver(r, i)
					if c.waiting[of] == 0 {
						delete(c.pairs, key)
					}
				}
			}
		}
	}
}

// TestAccountsTakeTurns: accounts and tenants without one take turns by their weights, and the
// tenants of an account take turns inside, on random arrivals and however large reads are.
func TestAccountsTakeTurns(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	rapid.Check(t, func(r *rapid.T) {
		ctx := t.Context()
		q := openOn(t, client, redistest.Name(t), Config{MaxAttempts: 1000})
		must := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		c := &contest{weights: map[Owner]float64{}, waiting: map[Owner]int{}, pairs: map[[2]Owner]*pair{}}
		if rapid.Bool().Draw(r, "weighted") {
			for _, of := range []Owner{{Tenant: "a"}, {Account: "x"}, {Account: "y\x01"}} {
				c.weights[of] = rapid.SampledFrom([]float64{0.5, 1, 2, 4}).Draw(r, "weight")
				must(q.ChangeLimits(ctx, of, func(l *Limits) { l.Weight = c.weights[of] }))
			}
		}
		var held []Message
		r.Repeat(map[string]func(*rapid.T){
			"write": func(r *rapid.T) {
				of := someLimitedTenant.Draw(r, "tenant")
				drafts := make([]Draft, rapid.IntRange(1, 20).Draw(r, "messages"))
				for i := range drafts {
					drafts[i] = Draft{Account: of.Account, Tenant: of.Tenant}
				}
				_, err := q.WriteBatch(ctx, drafts...)
				must(err)
				c.wrote(of.Account, of.Tenant, len(drafts))
			},
			"read": func(r *rapid.T) {
				for _, m := range mustRead(r, q, rapid.SampledFrom([]int{1, 2, 3, 7, 20}).Draw(r, "max")) {
					c.deliver(r, m.Account, m.Tenant)
					held = append(held, m)
				}
			},
			"nack": func(r *rapid.T) {
				if len(held) == 0 {
					r.Skip("nothing is held")
				}
				m := held[0]
				held = held[1:]
				_, err := q.Nack(ctx, NackConfig{}, m.Receipt)
				must(err)
				c.wrote(m.Account, m.Tenant, 1)
			},
		})
		_, err := q.Delete(ctx)
		must(err)
	})
}

// TestManyNamesWinNothing: an account that spreads its messages over 1,000 tenants gets what it
// would get with one: turns, handlers, deliveries at once, and room to wait.
func TestManyNamesWinNothing(t *testing.T) {
	t.Parallel()
	const names = 1000
	q := open(t, Config{})
	splits := make([]Draft, names)
	for i := range splits {
		splits[i] = Draft{Account: "split", Tenant: fmt.Sprint("name", i)}
	}
	plain := make([]Draft, 100)
	for i := range plain {
		plain[i] = Draft{Tenant: "plain"}
	}
	for _, drafts := range [][]Draft{splits, plain} {
		if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
			t.Fatal(err)
		}
	}
	shares := func(messages []Message) (of [2]int) {
		for _, m := range messages {
			if m.Account == "split" {
				of[0]++
			} else {
				of[1]++
			}
		}
		return of
	}
	got := read(t, q, 100)
	want(t, "turns of the two", shares(got), [2]int{50, 50}, nil)
	seen := map[string]bool{}
	for _, m := range got {
		if m.Account != "" {
			seen[m.Tenant] = true
		}
	}
	want(t, "tenants of the account that had a turn", len(seen), 50, nil)
	ack(t, q, got...)

	err := q.ChangeLimits(t.Context(), Owner{}, func(l *Limits) { l.MaxInFlight, l.MaxWaiting = 3, 960 })
	want(t, "limits", nil, nil, err)
	want(t, "deliveries at once of the two", shares(read(t, q, 100)), [2]int{3, 3}, nil)
	for i := range 13 { // 947 wait
		_, err = q.Write(t.Context(), Draft{Account: "split", Tenant: fmt.Sprint("newcomer", i)})
		want(t, "write", nil, nil, err)
	}
	_, err = q.Write(t.Context(), Draft{Account: "split", Tenant: "one too many"})
	wantError(t, err, ErrTenantFull)

	want(t, "limits", nil, nil, q.ClearLimits(t.Context(), Owner{}))
	if _, err := q.beat(t.Context(), time.Hour, reader{id: "reader", handlers: 10}, nil); err != nil {
		t.Fatal(err)
	}
	answers, err := q.shared.work(t.Context(), []workRequest{{q: q, consume: true, max: 10, visibility: time.Hour}}, false)
	if of := shares(answers[0].messages); err != nil || min(of[0], of[1]) != 3 || max(of[0], of[1]) != 4 {
		t.Errorf("handlers of the two, which both count as slow: %v, %v, want 3 and 4 of 10", of, err)
	}
}
