package lease

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// list returns the names of leases that have a part in common.
func list(t *testing.T, client rueidis.Client, part string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for name, err := range List(t.Context(), client) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, part) {
			found[name] = true
		}
	}
	return found
}

func TestList(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	client, base := l.run.Client, redistest.Name(t)
	held, released, expired, abandoned := base+":held", base+" released", base+"*expired", base+"/abandoned"
	for _, name := range []string{held, released, expired, abandoned} {
		lease := acquire(t, l, name, long)
		registry.Settle(t.Context(), client)
		if name == released {
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass(t, l, expired)
	abandon(t, l, abandoned)
	must(t, client, "SET", "mr:lease:"+base, "no lease")

	wanted := map[string]bool{held: true, released: true, expired: true, abandoned: true}
	if diff := cmp.Diff(wanted, list(t, client, base)); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	if _, _, err := l.reap(t.Context(), abandoned); err != nil {
		t.Fatal(err)
	}
	delete(wanted, abandoned)
	must(t, client, "DEL", baseKey(released)) // its minute is over
	delete(wanted, released)
	if diff := cmp.Diff(wanted, list(t, client, base)); diff != "" {
		t.Errorf("List after a minute (-want +got):\n%s", diff)
	}

	n := 0
	for range List(t.Context(), client) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("a loop that ends at once saw %d names", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range List(ctx, client) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("List under a context that has ended = %q, %v", name, err)
		}
	}
}
