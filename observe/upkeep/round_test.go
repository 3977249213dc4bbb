package upkeep_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

// structures is how many of each kind a round finds, and slices how many slices of each
// job that are at most.
const (
	structures = 100
	slices     = 4
)

// foreign is how many keys of others are in the same Redis.
func foreign() int {
	if os.Getenv("MILLRACE_SOAK") != "" {
		return 5_000_000
	}
	return 200_000
}

// populate makes structures of all kinds that upkeep goes round.
func populate(t testing.TB, client rueidis.Client) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	locker, err := lease.New(client, lease.Config{})
	must(err)
	for i := range structures {
		name := fmt.Sprint("n", i)
		k, err := ick.New(client, name, ick.Config{})
		must(err)
		_, err = k.AddNow(t.Context(), "a")
		must(err)
		q, err := fairqueue.New(client, name, fairqueue.Config{})
		must(err)
		_, err = q.Write(t.Context(), fairqueue.Draft{Tenant: "a"})
		must(err)
		c, err := ick.NewChannel(client, "c"+name, ick.ChannelConfig{Size: 1})
		must(err)
		_, err = c.AddNow(t.Context(), "a")
		must(err)
		_, err = locker.Acquire(t.Context(), name, time.Hour, lease.AcquireConfig{})
		must(err)
	}
	registry.Settle(t.Context(), client)
}

// jobs are those that go round the registry and the index of leases.
func jobs(t testing.TB, client rueidis.Client) []millrace.Job {
	t.Helper()
	return append(append(append(ick.Jobs(client), lease.Jobs(client)...), fairqueue.Jobs(client)...), registry.TidyJob(client))
}

// round goes round all structures.
func round(t testing.TB, jobs []millrace.Job) {
	t.Helper()
	for _, job := range jobs {
		for range slices {
			if _, err := job.Slice(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// BenchmarkRound is a round of upkeep over 100 structures of each kind, in a Redis that is
// theirs alone, and in one with 200,000 keys of others, or 5,000,000 with MILLRACE_SOAK. A
// SCAN, by which a round was made before, is beside it.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{0, foreign()} {
		server := redistest.Start(b, redistest.Options{})
		client := server.Client(b)
		redistest.Fill(b, client, n)
		populate(b, client)
		all := jobs(b, client)
		measured := func(do func(b *testing.B)) func(b *testing.B) {
			return func(b *testing.B) {
				before := server.CPU()
				do(b)
				b.ReportMetric((server.CPU()-before)/float64(b.N), "server-us/op")
			}
		}
		b.Run(fmt.Sprintf("registry/foreign=%d", n), measured(func(b *testing.B) {
			for b.Loop() {
				round(b, all)
			}
		}))
		b.Run(fmt.Sprintf("scan/foreign=%d", n), measured(func(b *testing.B) {
			for b.Loop() {
				for _, err := range script.Scan(b.Context(), client, "mr:queue:{*}") {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		}))
	}
}

// TestARoundGoesRoundNoKeys: the commands of a round do not depend on the server's other
// keys.
func TestARoundGoesRoundNoKeys(t *testing.T) {
	t.Parallel()
	asked := func(n int) map[string]string {
		server := redistest.Start(t, redistest.Options{})
		client := server.Client(t)
		redistest.Fill(t, client, n)
		populate(t, client)
		all := jobs(t, client)
		if err := client.Do(t.Context(), client.B().ConfigResetstat().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		round(t, all)
		return server.Info("commandstats")
	}
	for _, stats := range []map[string]string{asked(0), asked(10_000)} {
		for _, command := range []string{"cmdstat_scan", "cmdstat_keys", "cmdstat_role"} {
			if calls := stats[command]; calls != "" {
				t.Errorf("%s: %s, want none", command, calls)
			}
		}
		if stats["cmdstat_hscan"] == "" || stats["cmdstat_evalsha"] == "" {
			t.Errorf("the round has asked for nothing: %v", stats)
		}
	}
}

// TestIdleUpkeepIsCheap: the commands of a process when its floor runs each job once, with
// nothing to look after, which is every ten seconds.
func TestIdleUpkeepIsCheap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	all := jobs(t, server.Client(t))
	floor := func() {
		for _, job := range all {
			if _, err := job.Slice(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	commands := func() int {
		n, err := strconv.Atoi(server.Info("stats")["total_commands_processed"])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	floor() // the first looks how much there is
	before := commands()
	const floors = 10
	for range floors {
		floor()
	}
	// 16 parts of the registry for each of three kinds, and 16 scripts with two commands
	// each for the index of leases.
	if got, want := (commands()-before)/floors, 100; got > want {
		t.Errorf("%d commands each time, want %d at most", got, want)
	}
}
