package doctor

import (
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

// TestEvictionAtStake: the finding names what is registered, and what of it does not stand the policy.
func TestEvictionAtStake(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{MaxMemory: "64mb"}).Client(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"orders", "mails"} {
		q, err := fairqueue.New(client, name, fairqueue.Config{})
		must(err)
		_, err = q.Write(t.Context(), fairqueue.Draft{Tenant: "acme"})
		must(err)
	}
	search, err := ick.New(client, "search", ick.Config{})
	must(err)
	_, err = search.AddNow(t.Context(), "doc:1")
	must(err)
	locker, err := lease.New(client, lease.Config{})
	must(err)
	_, err = locker.Acquire(t.Context(), "nightly", time.Hour, lease.AcquireConfig{})
	must(err)
	registry.Settle(t.Context(), client)

	for policy, want := range map[string]Finding{
		"noeviction":   ok("noeviction"),
		"volatile-lru": {Finding: note("evicts_with_ttl", "volatile-lru", "").Finding},
		"allkeys-lru": {Finding: critical("evicts",
			"allkeys-lru; may lose work: 2 queues, 1 Ick; refuse calls unless told otherwise: 1 lease", "").Finding},
	} {
		must(client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory-policy", policy).Build()).Error())
		if got := found(t, client, "eviction"); got.Severity != want.Severity || got.Code != want.Code || got.Text != want.Text {
			t.Errorf("%s: %+v, want %s %s %q", policy, got, want.Severity, want.Code, want.Text)
		}
	}
}
