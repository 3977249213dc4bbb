package fairqueue

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/script/scripttest"
)

// holders returns who has which message, by the messages' ids.
func holders(t *testing.T, q *Queue) map[string]string {
	t.Helper()
	found := map[string]string{}
	all, _ := browse(t, q, BrowseConfig{Place: InFlight, Max: 1000})
	for _, m := range all {
		found[m.ID] = m.Consumer
	}
	return found
}

// TestReadersHaveNames: what readers take who read at the same time is each under
// the name of its own reader, and stays so whoever extends it.
func TestReadersHaveNames(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Consumer: "process"})
	for i := range 10 {
		write(t, q, fmt.Sprintf("tenant%d:1 tenant%d:2 tenant%d:3", i, i, i))
	}
	wanted := map[string]string{}
	var receipts []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			cfg := ReadConfig{Consumer: fmt.Sprint("reader/", i%10)}
			if i%10 == 0 {
				cfg.Consumer = ""
			}
			messages, err := q.Read(t.Context(), cfg)
			if err != nil || len(messages) != 1 {
				t.Errorf("read = %d messages, %v", len(messages), err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			wanted[messages[0].ID] = cfg.Consumer
			if cfg.Consumer == "" {
				wanted[messages[0].ID] = "process"
			}
			receipts = append(receipts, messages[0].Receipt)
		})
	}
	all.Wait()
	want(t, "holders", holders(t, q), wanted, nil)
	other := openOn(t, q.run.Client, q.name, Config{Consumer: "other"})
	if _, err := other.Extend(t.Context(), time.Hour, receipts...); err != nil {
		t.Fatal(err)
	}
	want(t, "holders after others extended", holders(t, q), wanted, nil)
	found, _ := browse(t, q, BrowseConfig{Place: InFlight})
	if left := found[0].Until.Sub(stats(t, q).At); left < 50*time.Minute || left > time.Hour {
		t.Errorf("in flight for another %v, want an hour: it was extended", left)
	}
	n, err := q.Ack(t.Context(), receipts...)
	want(t, "acknowledged", n, 30, err)
}

// TestManyNames: readers that never use a name twice leave no more in Redis than
// those of the last minute, and upkeep looks at them seldom.
func TestManyNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{Streams: 1})
	const names = 1000
	var drafts [names]Draft
	for i := range drafts {
		drafts[i].Tenant = "a"
	}
	if _, err := q.WriteBatch(t.Context(), drafts[:]...); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		n, err := do(t, q.run.Client, "MEMORY", "USAGE", baseKey("x")+":s:0", "SAMPLES", "0").AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() {
			messages, err := q.Read(t.Context(), ReadConfig{Consumer: fmt.Sprint("request ", i)})
			if err == nil {
				_, err = q.Ack(t.Context(), messages[0].Receipt)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if each := size() / names; each > 400 {
		t.Errorf("a name takes %d bytes, want some 300", each)
	}
	const look = "for _, one in ipairs(redis.call('XINFO', 'CONSUMERS', key, group)) do"
	upkeep := script.Runner{Client: q.run.Client, Scripts: scripttest.Without(t, library, look, "redis.call('HINCRBY', K, 'looks', 1) "+look)}
	const visits = 200
	for range visits {
		if _, err := upkeep.Run(t.Context(), "tend", baseKey("x")); err != nil {
			t.Fatal(err)
		}
	}
	looks, err := do(t, q.run.Client, "HGET", baseKey("x"), "looks").AsInt64()
	if err != nil || looks > visits/3 {
		t.Errorf("upkeep looked at %d names %d times of %d (%v), want one of ten", names, looks, visits, err)
	}
	upkeep.Scripts = scripttest.Without(t, library, "> 60000", "> 1")
	redistest.Eventually(t, "the names are forgotten", func() bool {
		if _, err := upkeep.Run(t.Context(), "tend", baseKey("x")); err != nil {
			t.Fatal(err)
		}
		return size() < 20_000
	})
}

// TestReadersWhoCameLater: those that came, or woke up, while the reads of others
// were under way are not told what these found, because a message may have come
// since.
func TestReadersWhoCameLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	q, straight := openOn(t, proxy.Client(t), "x", Config{}), openOn(t, server.Client(t), "x", Config{})
	scripttest.Load(t, straight.run.Client, library)
	calls := func() (n int) {
		if _, err := fmt.Sscanf(server.Info("commandstats")["cmdstat_evalsha"], "calls=%d,", &n); err != nil {
			return 0 // none yet
		}
		return n
	}
	var others sync.WaitGroup
	before := calls()
	proxy.Delay(300 * time.Millisecond)
	for i := range callsAtOnce { // so that the next one stands in line
		others.Go(func() {
			if _, err := q.Read(t.Context(), ReadConfig{Consumer: fmt.Sprint(i)}); !errors.Is(err, ErrEmpty) {
				t.Errorf("read of an empty queue = %v, want ErrEmpty", err)
			}
		})
	}
	redistest.Eventually(t, "the server answers", func() bool { return calls() == before+callsAtOnce })
	write(t, straight, "a:1")
	messages, err := q.Read(t.Context(), ReadConfig{Consumer: "late"})
	others.Wait()
	want(t, "read by one who came later", bodies(messages), "1", err)
	proxy.Heal()

	got := make(chan Message)
	go func() { got <- eventually(t, q) }()
	blockedReaders(t, server, 1)
	desk := q.desk
	desk.mu.Lock()
	desk.begun += callsAtOnce // as if so many reads were under way
	desk.calls += callsAtOnce
	desk.mu.Unlock()
	write(t, straight, "a:2")
	redistest.Eventually(t, "the reader wakes up", func() bool {
		desk.mu.Lock()
		defer desk.mu.Unlock()
		return len(desk.asking) == 1
	})
	desk.mu.Lock()
	if early := desk.before(desk.begun); len(early) > 0 {
		t.Error("one who woke up is told what was found before")
		desk.asking = early
	}
	desk.calls -= callsAtOnce
	desk.callMore()
	desk.mu.Unlock()
	want(t, "read by one who woke up", string((<-got).Body), "2", nil)
}
