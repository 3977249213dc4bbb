package fairqueue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
)

// TestFullTenantsAmongOthers has many goroutines write through a network that loses replies.
// They share calls. A full tenant, account or tenant of an account refuses what is one too many
// for it and nothing else, and whatever was repeated, each writer's answer is what happened.
func TestFullTenantsAmongOthers(t *testing.T) {
	t.Parallel()
	const writers, rounds, most = 40, 15, 100
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	name := redistest.Name(t)
	q, watch := openOn(t, proxy.Client(t), name, Config{}), openOn(t, server.Client(t), name, Config{})
	fulls := []Owner{{Tenant: "full"}, {Account: "full"}, {Account: "partly", Tenant: "full"}}
	for _, of := range fulls {
		want(t, "limit", nil, nil, watch.ChangeLimits(t.Context(), of, func(l *Limits) { l.MaxWaiting = most }))
	}
	proxy.DropReplyWhen(func(cmd []string) bool { return evalsha(cmd) && rand.IntN(10) == 0 })

	var mu sync.Mutex
	accepted := map[Owner]map[string]bool{}
	wrote := func(of Owner, id string) {
		mu.Lock()
		defer mu.Unlock()
		if accepted[of] == nil {
			accepted[of] = map[string]bool{}
		}
		accepted[of][id] = true
	}
	var working sync.WaitGroup
	for w := range writers {
		working.Go(func() {
			for i := range rounds {
				drafts := []Draft{
					{Tenant: "full"}, {Tenant: "free"}, {Account: "full", Tenant: fmt.Sprint("name", w)},
					{Account: "partly", Tenant: "full"}, {Account: "partly", Tenant: "free"},
				}
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
						wrote(Owner{d.Account, d.Tenant}, written[j].ID)
					case d.Tenant == "free":
						t.Errorf("a draft of %q was refused: %v", d.Account+"/"+d.Tenant, err)
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
	there := map[Owner]map[string]bool{}
	for _, m := range browseAll(t, watch, BrowseConfig{}) {
		of := Owner{m.Account, m.Tenant}
		if there[of] == nil {
			there[of] = map[string]bool{}
		}
		there[of][m.ID] = true
	}
	want(t, "messages by tenant: those that wait, against those that writers were told of", there, accepted, nil)
	inAccount := 0
	for of, ids := range there {
		if of.Account == "full" {
			inAccount += len(ids)
		}
	}
	want(t, "messages of the full account", inAccount, most, nil)
	for _, of := range []Owner{fulls[0], fulls[2]} {
		want(t, fmt.Sprintf("messages of %+v", of), len(there[of]), most, nil)
	}
	if proxy.Dropped() == 0 {
		t.Error("no reply was lost")
	}
}
