package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// oddTenants are names with whatever scripts tell names apart by.
var oddTenants = []string{
	"\x00\xff", "a", "a\x01", "a\x02", "\x01", "\x02", "\x02a", "\x02b", "a\x01b", "a\x02a", "=", "=a", "#1", "#1=a", "a,#2", "a;1", "a;1;2",
	"a:b", " ", "a b", "*", "{x}", "\n", "%s", "\xff", strings.Repeat("\x01", 512),
}

// TestOddTenants: each is a flow of its own, and its messages come out as they went in.
func TestOddTenants(t *testing.T) {
	t.Parallel()
	for name, cfg := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.MaxAttempts = 3
			q := open(t, cfg)
			ids := map[string]string{} // id -> tenant
			for _, tenant := range oddTenants {
				for _, d := range []Draft{{}, {Delay: time.Millisecond}, {DedupeID: "x\x01", TTL: time.Hour}, {DedupeID: "x\x01"}} {
					d.Tenant, d.Body = tenant, []byte(tenant)
					id, err := q.Write(t.Context(), d)
					if err != nil {
						t.Fatal(err)
					}
					ids[id] = tenant
				}
			}
			want(t, "messages", len(ids), 3*len(oddTenants), nil)
			for _, m := range browseAll(t, q, BrowseConfig{Tenant: "a\x01"}) {
				want(t, "browsed", [2]string{m.Tenant, string(m.Body)}, [2]string{"a\x01", "a\x01"}, nil)
			}
			attempts := map[string]int{}
			redistest.Eventually(t, "all die", func() bool {
				for _, m := range read(t, q, 10) {
					if m.Tenant != ids[m.ID] || string(m.Body) != m.Tenant {
						t.Fatalf("message %s of %q came as %q of %q", m.ID, ids[m.ID], m.Body, m.Tenant)
					}
					attempts[m.ID]++
					want(t, "attempt", m.Attempt, attempts[m.ID], nil)
					delay := time.Duration(len(attempts)%2) * time.Millisecond
					nack(t, q, NackConfig{Delay: delay, Reason: m.Tenant}, m)
				}
				return stats(t, q).Dead == len(ids)
			})
			var dead []string
			for m, err := range q.Dead().All(t.Context()) {
				if reason := cmp.Or(strings.TrimPrefix(settleArg(0, m.Tenant), "0 "), "no reason given"); err != nil || m.Tenant != ids[m.ID] || m.Reason != reason || m.Attempt != 3 {
					t.Errorf("dead = %+v, %v", m, err)
				}
				dead = append(dead, m.ID)
			}
			n, err := q.Dead().Redrive(t.Context(), dead...)
			want(t, "redriven", n, len(ids), err)
			for _, m := range read(t, q, 1000) {
				if m.Tenant != ids[m.ID] {
					t.Errorf("message %s of %q came as one of %q", m.ID, ids[m.ID], m.Tenant)
				}
				ack(t, q, m)
			}
			for _, f := range stats(t, q).Flows {
				t.Errorf("flow left over: %+v", f)
			}
		})
	}
}

// TestOddTenantsAreFlows: ranges of flows whose names are alike do not overlap.
func TestOddTenantsAreFlows(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for i, tenant := range oddTenants {
		for range i + 1 {
			if _, err := q.Write(t.Context(), Draft{Tenant: tenant}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, wanted := map[string]int{}, map[string]int{}
	for _, f := range stats(t, q).Flows {
		got[f.Tenant] = f.Waiting
	}
	for i, tenant := range oddTenants {
		wanted[tenant] = i + 1
	}
	want(t, "waiting", got, wanted, nil)
}

// TestManyQueuesAreOne: goroutines share calls, also over several Queues of one name on
// one client, and readers of another client find their messages.
func TestManyQueuesAreOne(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	const each, queues = 50, 20
	calls := func() (n int) {
		if _, err := fmt.Sscanf(server.Info("commandstats")["cmdstat_evalsha"], "calls=%d,", &n); err != nil {
			return 0 // none yet
		}
		return n
	}
	write(t, openOn(t, client, "x", Config{}), "first:x")
	before := calls()
	var all sync.WaitGroup
	for i := range queues {
		q := openOn(t, client, "x", Config{})
		for j := range each {
			all.Go(func() {
				if _, err := q.Write(t.Context(), Draft{Tenant: fmt.Sprint(i), Body: fmt.Append(nil, j)}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if n := calls() - before; n > each*queues/4 {
		t.Errorf("%d goroutines of %d Queues made %d calls to write", each*queues, queues, n)
	}
	before = calls()
	var mu sync.Mutex
	seen := map[string]bool{}
	for range queues {
		q := openOn(t, client, "x", Config{})
		for range each {
			all.Go(func() {
				messages, err := q.Read(t.Context(), ReadConfig{})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := q.Ack(t.Context(), messages[0].Receipt); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				seen[messages[0].ID] = true
			})
		}
	}
	all.Wait()
	if n := calls() - before; n > 2*each*queues/4 || len(seen) != each*queues {
		t.Errorf("%d goroutines made %d calls to read and acknowledge %d messages", each*queues, n, len(seen))
	}
}

// TestManyFirstReaders: processes that read and write a new queue first, all at once, see
// no error, and each message goes to one of them (Q20 in docs/DEFECTS.md).
func TestManyFirstReaders(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	var mu sync.Mutex
	seen := map[string]int{}
	var running sync.WaitGroup
	start := make(chan struct{})
	const processes, messages = 20, 50
	for i := range processes {
		q := openOn(t, redistest.Shared(t).Client(t), name, Config{})
		running.Go(func() {
			<-start
			if i%4 == 0 {
				drafts := make([]Draft, messages)
				for j := range drafts {
					drafts[j] = Draft{Tenant: fmt.Sprint("tenant", j), Body: fmt.Append(nil, i, "-", j)}
				}
				if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
					t.Errorf("write: %v", err)
				}
			}
			for {
				messages, err := q.Read(t.Context(), ReadConfig{Max: 3, Block: 200 * time.Millisecond})
				if errors.Is(err, ErrEmpty) {
					return
				}
				if errors.Is(err, context.DeadlineExceeded) { // the machine is busy
					continue
				}
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				mu.Lock()
				for _, m := range messages {
					seen[string(m.Body)]++
				}
				mu.Unlock()
			}
		})
	}
	close(start)
	running.Wait()
	for body, n := range seen {
		if n != 1 {
			t.Errorf("%s was delivered %d times", body, n)
		}
	}
	want(t, "messages", len(seen), processes/4*messages, nil)
}
