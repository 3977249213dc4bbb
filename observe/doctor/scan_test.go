package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/observe/doctor"
)

// lost makes n queues, Icks and leases without an entry in the registry.
func lost(t *testing.T, client rueidis.Client, n int) {
	t.Helper()
	locker, err := lease.New(client, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprint("n", i)
		q, err := fairqueue.New(client, name, fairqueue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "a"}); err != nil {
			t.Fatal(err)
		}
		k, err := ick.New(client, name, ick.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.AddNow(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := locker.Acquire(t.Context(), name, time.Hour, lease.AcquireConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	registry.Settle(t.Context(), client)
	for shard := range registry.DueShards {
		for _, key := range []string{registry.LeasesKey(shard), fmt.Sprintf("mr:registry:{%d}", shard)} {
			if err := client.Do(t.Context(), client.B().Del().Key(key).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// listed returns how many of each are listed, and the last error.
func listed(t *testing.T, client rueidis.Client) (queues, icks, leases int, failed error) {
	t.Helper()
	count := func(n *int) func(string, error) bool {
		return func(_ string, err error) bool {
			if err == nil {
				*n++
			} else {
				failed = err
			}
			return true
		}
	}
	fairqueue.List(t.Context(), client)(count(&queues))
	ick.List(t.Context(), client)(count(&icks))
	lease.List(t.Context(), client)(count(&leases))
	return queues, icks, leases, failed
}

// scanned examines all servers and scans their keys.
func scanned(t *testing.T, client rueidis.Client, progress func(addr string, visited, keys int64)) doctor.Report {
	t.Helper()
	r, err := doctor.Examine(t.Context(), client, doctor.Config{Scan: true, Progress: progress})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// findings returns the findings about the registry, by the server.
func findings(r doctor.Report) map[string]doctor.Finding {
	found := map[string]doctor.Finding{}
	for addr, all := range r.Parts() {
		for _, f := range all {
			if f.Check == "registry" {
				found[addr] = f
			}
		}
	}
	return found
}

// TestScan registers unregistered structures, and then finds nothing to do.
func TestScan(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	lost(t, client, 20)
	foreign := make(rueidis.Commands, 5000)
	for i := range foreign {
		foreign[i] = client.B().Set().Key(fmt.Sprint("foreign:", i)).Value("x").Build()
	}
	client.DoMulti(t.Context(), foreign...)
	if queues, icks, leases, err := listed(t, client); queues+icks+leases != 0 || err != nil {
		t.Fatalf("%d queues, %d Icks, %d leases are listed before (%v), want none", queues, icks, leases, err)
	}
	type step struct {
		addr          string
		visited, keys int64
	}
	var steps []step
	r := scanned(t, client, func(addr string, visited, keys int64) { steps = append(steps, step{addr, visited, keys}) })
	f := findings(r)[server.Addr()]
	if f.Severity != doctor.Note || !strings.Contains(f.Text, "60 structures registered that were not before") || f.Advice == "" {
		t.Errorf("the finding is %+v, want 60 structures registered", f)
	}
	if queues, icks, leases, err := listed(t, client); queues != 20 || icks != 20 || leases != 20 || err != nil {
		t.Errorf("%d queues, %d Icks, %d leases are listed (%v), want 20 of each", queues, icks, leases, err)
	}
	if last := steps[len(steps)-1]; len(steps) < 5 || last.visited < 5000 || last.keys < 5000 || last.addr != server.Addr() {
		t.Errorf("%d steps were told, the last one %+v", len(steps), last)
	}
	again := findings(scanned(t, client, nil))[server.Addr()]
	if again.Severity != doctor.OK || !strings.Contains(again.Text, "all structures are registered") {
		t.Errorf("the next finding is %+v, want all registered", again)
	}
}

// TestScanWithASilentNode: structures on the other masters are registered, as far as their
// entry lies there, and the silent one is reported.
func TestScanWithASilentNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	for _, node := range cluster.Nodes {
		alone := node.Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
		if err := alone.Do(t.Context(), alone.B().Arbitrary("CONFIG", "SET", "cluster-require-full-coverage", "no").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	client := cluster.Client(t)
	lost(t, client, 30)
	silent := cluster.Nodes[1]
	silent.Pause()
	found := findings(scanned(t, client, nil))
	silent.Resume()
	if len(found) != 3 {
		t.Errorf("findings = %v, want one for each master", found)
	}
	for addr, f := range found {
		want := "visited"
		if addr == silent.Addr() {
			want = "no answer within"
		}
		if !strings.Contains(f.Text, want) || f.Severity == doctor.OK {
			t.Errorf("%s: %+v, want it to say %q", addr, f, want)
		}
	}
	if queues, icks, leases, err := listed(t, client); queues == 0 || icks == 0 || leases == 0 || queues == 30 || err != nil {
		t.Errorf("%d queues, %d Icks, %d leases are listed (%v), want some", queues, icks, leases, err)
	}
	r := scanned(t, client, nil)
	if queues, icks, leases, err := listed(t, client); queues != 30 || icks != 30 || leases != 30 || err != nil || !r.OK {
		t.Errorf("%d queues, %d Icks, %d leases are listed (%v), want 30 of each", queues, icks, leases, err)
	}
}

// TestScanOfReplicas: only masters are gone through.
func TestScanOfReplicas(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 1)
	found := findings(scanned(t, cluster.Client(t), nil))
	var want []string
	for _, node := range cluster.Nodes[:3] {
		want = append(want, node.Addr())
	}
	if len(found) != 3 || slices.ContainsFunc(want, func(addr string) bool { return found[addr].Check == "" }) {
		t.Errorf("findings = %v, want those of %v", found, want)
	}
}
