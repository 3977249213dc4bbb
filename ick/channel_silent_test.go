package ick

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestSilentRecord: producers whose Icks answer do not wait for the server that has
// the channel's record, however old their copy of it is. When it answers again,
// they read it.
func TestSilentRecord(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	servers.HoldFailovers()
	silent := servers.Nodes[1]
	has := func(name string) bool { return servers.MasterOf("{"+name+"}") == silent }
	var name string
	redistest.Eventually(t, "a channel lies on two servers", func() bool {
		name = redistest.Name(t)
		return has(name) && !has(name+"/0")
	})
	client := servers.Client(t)
	c := openChannel(t, client, name, ChannelConfig{Size: 4, Shard: digit})
	age := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.readAt = time.Time{}
	}
	add := func() {
		t.Helper()
		age()
		if _, err := c.AddNow(t.Context(), "a0"); err != nil {
			t.Fatal(err)
		}
	}
	add()
	silent.Pause()
	const calls = 20
	waits := 0
	for range calls {
		began := time.Now()
		add()
		if time.Since(began) > refreshTimeout/2 {
			waits++
		}
	}
	if waits > calls/2 { // of a busy machine some do
		t.Errorf("%d of %d calls waited", waits, calls)
	}
	silent.Resume()
	if err := openChannel(t, client, name, ChannelConfig{}).Resize(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the new size is known", func() bool {
		add()
		return c.known().size == 2
	})
}

// TestDeleteWaitsForALook: a look that is under way would create the channel anew.
func TestDeleteWaitsForALook(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	c := openChannel(t, client, redistest.Name(t), ChannelConfig{})
	if _, err := c.AddNow(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	c.refreshing <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Delete(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Delete during a look = %v, want that it waits", err)
	}
	<-c.refreshing
	lost, err := c.Delete(t.Context())
	want(t, "marks that were lost", lost, 1, err)
	_, err = c.Stats(t.Context())
	wantError(t, err, millrace.ErrNotFound)
}
