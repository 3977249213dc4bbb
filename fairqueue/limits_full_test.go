package fairqueue

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestFullTenantsAmongOthers has many goroutines write through a network that loses replies.
// They share calls. A full tenant refuses only the messages beyond its limit, and each writer's answer is true, whatever was repeated.
func TestFullTenantsAmongOthers(t *testing.T) {
	t.Parallel()
	const writers, rounds, most = 40, 15, 100
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	name := redistest.Name(t)
	q, watch := openOn(t, proxy.Client(t), name, Config{}), openOn(t, server.Client(t), name, Config{})
	fulls := []string{"full", "full too"}
	for _, tenant := range fulls {
		want(t, "limit", nil, nil, watch.Limits().Set(t.Context(), tenant, OwnLimits{MaxWaiting: new(most)}))
	}
	proxy.DropReplyWhen(func(cmd []string) bool { return evalsha(cmd) && rand.IntN(10) == 0 })

	var mu sync.Mutex
	accepted := map[string]map[string]bool{}
	wrote := func(tenant, id string) {
		mu.Lock()
		defer mu.Unlock()
		if accepted[tenant] == nil {
			accepted[tenant] = map[string]bool{}
		}
		accepted[tenant][id] = true
	}
	var working sync.WaitGroup
	for range writers {
		working.Go(func() {
			for i := range rounds {
				drafts := []Draft{{Tenant: "full"}, {Tenant: "free"}, {Tenant: "full too"}, {Tenant: "free too"}}
				rand.Shuffle(len(drafts), func(i, j int) { drafts[i], drafts[j] = drafts[j], drafts[i] })
				drafts = drafts[:1+rand.IntN(len(drafts))]
				written, err := q.WriteBatch(t.Context(), drafts...)
				if len(written) != len(drafts) || err != nil && !errors.Is(err, ErrTenantFull) {
					t.Errorf("round %d: %+v, %v", i, written, err)
					return
				}
				refused := false
				for j, d := range drafts {
					switch {
					case written[j].ID != "":
						wrote(d.Tenant, written[j].ID)
					case !slices.Contains(fulls, d.Tenant):
						t.Errorf("a draft of %q was refused: %v", d.Tenant, err)
					default:
						refused = true
					}
				}
				if refused != errors.Is(err, ErrTenantFull) {
					t.Errorf("%+v, and the error is %v", written, err)
				}
			}
		})
	}
	working.Wait()
	if t.Failed() {
		return
	}
	there := map[string]map[string]bool{}
	for _, m := range browseAll(t, watch, BrowseConfig{}) {
		if there[m.Tenant] == nil {
			there[m.Tenant] = map[string]bool{}
		}
		there[m.Tenant][m.ID] = true
	}
	want(t, "messages by tenant: those that wait, against those that writers were told of", there, accepted, nil)
	for _, tenant := range fulls {
		want(t, "messages of "+tenant, len(there[tenant]), most, nil)
	}
	if proxy.Dropped() == 0 {
		t.Error("no reply was lost")
	}
}

// TestLimitsOnAFullServer: changes that free memory, or stop a flood, are not refused.
func TestLimitsOnAFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	tenants := []string{"a", "b"}
	for _, of := range tenants {
		want(t, "limits", nil, nil, q.Limits().Set(t.Context(), of, OwnLimits{MaxInFlight: new(1), Rate: new(1000.0), Burst: new(10)}))
		for range 3 {
			_, err := q.Write(t.Context(), Draft{Tenant: of})
			want(t, "write", nil, nil, err)
		}
	}
	want(t, "maxmemory", nil, nil, do(t, q.run.Client, "CONFIG", "SET", "maxmemory", "1").Error())
	_, err := q.Write(t.Context(), Draft{Tenant: "a"})
	wantError(t, err, millrace.ErrFull)

	m := read(t, q, 10)
	want(t, "messages of two tenants, one each", len(m), 2, nil)
	want(t, "throttle", nil, nil, throttle(t, q, m[0], time.Hour))
	ack(t, q, m[1])
	for _, of := range tenants {
		want(t, "pause", nil, nil, q.Limits().Pause(t.Context(), of, 0))
		want(t, "resume", nil, nil, q.Limits().Resume(t.Context(), of))
		want(t, "limits", nil, nil, q.Limits().Set(t.Context(), of, OwnLimits{MaxInFlight: new(2)}))
		want(t, "clear", nil, nil, q.Limits().Clear(t.Context(), of))
	}
	for _, m := range read(t, q, 1) {
		nack(t, q, NackConfig{}, m)
	}
	n := 0
	for _, of := range tenants {
		purged, err := q.PurgeTenant(t.Context(), of)
		want(t, "purge", nil, nil, err)
		n += purged
	}
	want(t, "purged", n, 5, nil)
	want(t, "maxmemory", nil, nil, do(t, q.run.Client, "CONFIG", "SET", "maxmemory", "0").Error())
	awaitRest(t, q)
}
