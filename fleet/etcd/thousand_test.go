package etcd

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/directorytest"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestThousandClients has 1,000 clients, each with its own connections, confirm a map once a
// second, a third of a ViewTTL of 3 seconds, and says how much CPU time each member of etcd
// takes for them. With MILLRACE_SOAK; else with 20 clients, and only that they are confirmed.
//
//	MILLRACE_SOAK=1 go test -count=1 -run TestThousandClients -v ./fleet/etcd
func TestThousandClients(t *testing.T) {
	clients, rounds := 20, 1
	if os.Getenv("MILLRACE_SOAK") != "" {
		clients, rounds = 1000, 20
	} else {
		t.Parallel()
	}
	const interval = time.Second
	cluster := etcdtest.Start(t, etcdtest.Options{})
	var addrs []string
	for _, m := range cluster.Members {
		addrs = append(addrs, m.Direct()) // proxies would take CPU time from etcd
	}
	url := "etcd://" + strings.Join(addrs, ",")
	if err := dial(t, url).Change(t.Context(), 0, directorytest.Sample(t, 1)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	var confirmed, failed atomic.Int64
	for range clients {
		d := dial(t, url)
		running.Go(func() {
			for retry.Sleep(ctx, interval/2+rand.N(interval)) {
				if m, err := d.Confirm(ctx, 1); err == nil && m == nil {
					confirmed.Add(1)
				} else if ctx.Err() == nil {
					failed.Add(1)
				}
			}
		})
	}
	await := func(n int64) {
		t.Helper()
		redistest.Eventually(t, fmt.Sprint(n, " confirmations"), func() bool { return confirmed.Load() >= n })
	}
	await(int64(3 * clients)) // all are connected
	failed.Store(0)
	start, before := time.Now(), make([]time.Duration, len(cluster.Members))
	for i, m := range cluster.Members {
		before[i] = cpuTime(t, m.PID())
	}
	from := confirmed.Load()
	for i := range rounds {
		await(from + int64((i+1)*clients))
	}
	took := time.Since(start)
	done := confirmed.Load() - from
	t.Logf("%d clients, %.0f confirmations a second, %d others failed", clients, float64(done)/took.Seconds(), failed.Load())
	leader := cluster.Leader()
	for i, m := range cluster.Members {
		role := "follower"
		if m == leader {
			role = "leader"
		}
		used := cpuTime(t, m.PID()) - before[i]
		t.Logf("%s: %.1f %% of a core, %v a confirmation", role, 100*float64(used)/float64(took), used/time.Duration(done))
	}
}

// cpuTime returns the CPU time that a process has used, or 0 where /proc does not tell.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
