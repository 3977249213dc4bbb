package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}

// said returns a log, and a buffer with its output.
func said(client rueidis.Client) (*Log, *bytes.Buffer) {
	var text bytes.Buffer
	return New(client, slog.New(slog.NewTextHandler(&text, nil)), slog.LevelWarn), &text
}

// TestTheLogIsBounded in the number of its entries and in their size, and has the latest first.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	l, text := said(client)
	for i := range Max + 5 {
		l.Note(t.Context(), Entry{ID: rand.Text(), Who: "ops", From: "127.0.0.1", Way: "api", Action: "queue.pause", Name: strconv.Itoa(i)})
	}
	long := strings.Repeat("é\x00", 10_000)
	l.Note(t.Context(), Entry{ID: rand.Text(), Who: long, From: long, Way: long, Action: "queue.pause", Name: long, Result: long, Error: long})
	key := keyPrefix + "queue.pause"
	n, err := client.Do(t.Context(), client.B().Llen().Key(key).Build()).AsInt64()
	if err != nil || n != Max {
		t.Errorf("%d entries, %v, want %d", n, err, Max)
	}
	raw, err := client.Do(t.Context(), client.B().Lindex().Key(key).Index(0).Build()).ToString()
	if err != nil || len(raw) > maxEntry+100 {
		t.Errorf("an entry has %d bytes, %v, want at most %d", len(raw), err, maxEntry+100)
	}
	entries, err := l.List(t.Context(), ListConfig{First: 1, Most: 2})
	if err != nil || len(entries) != 2 || entries[0].Name != strconv.Itoa(Max+4) || entries[1].Name != strconv.Itoa(Max+3) || entries[0].At.IsZero() {
		t.Errorf("the entries are %+v, %v", entries, err)
	}
	if text.Len() > 0 {
		t.Errorf("it logs %s", text)
	}
	for _, command := range [][]string{{"DEL", key}, {"SET", key, "x"}} {
		if err := client.Do(t.Context(), client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	l.Note(t.Context(), Entry{ID: rand.Text(), Action: "queue.pause"})
	if !strings.Contains(text.String(), "missing in the audit log") {
		t.Errorf("of a write that failed it logs %q", text)
	}
}

// TestAFloodReplacesOnlyItsOwnKind: many cancels leave a deletion in the log, which is
// found by its kind, and by a client that may see only its name; the list is in the order of all
// actions.
func TestAFloodReplacesOnlyItsOwnKind(t *testing.T) {
	t.Parallel()
	l, _ := said(redistest.Start(t, redistest.Options{}).Client(t))
	l.Note(t.Context(), Entry{ID: rand.Text(), Way: "api", Action: "queue.delete", Name: "orders"})
	cancels := 1000
	if redistest.More() {
		cancels = 10_000
	}
	for i := range cancels {
		l.Note(t.Context(), Entry{ID: rand.Text(), Way: "api", Action: "queue.cancel", Name: strconv.Itoa(i)})
	}
	for i := range 1000 {
		l.Note(t.Context(), Entry{ID: rand.Text(), Way: "api", Action: []string{"tenant.pause", "tenant.resume"}[i%2], Name: strconv.Itoa(i)})
	}
	for name, cfg := range map[string]ListConfig{
		"of its kind": {Action: "queue.delete", Most: 1},
		"of its name": {Owns: func(e Entry) bool { return strings.HasPrefix(e.Name, "ord") }, Most: 1},
	} {
		if entries, err := l.List(t.Context(), cfg); err != nil || len(entries) != 1 || entries[0].Name != "orders" {
			t.Errorf("the first entry %s is %+v, %v, want the deletion", name, entries, err)
		}
	}
	entries, err := l.List(t.Context(), ListConfig{Most: 1000})
	if err != nil || !slices.ContainsFunc(entries, func(e Entry) bool { return e.Action == "queue.delete" }) {
		t.Errorf("the log has %d entries without the deletion, %v", len(entries), err)
	}
	for i, e := range entries[:min(len(entries), Max)] { // several of a millisecond are of two lists
		if want := strconv.Itoa(999 - i); e.Name != want {
			t.Fatalf("entry %d is of action %s, want %s: the latest first", i, e.Name, want)
		}
	}
}

// TestOldEntriesGo by the server's clock, with the actions of any kind, a hundred at a time; a key
// of a foreign type is left alone.
func TestOldEntriesGo(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	l, text := said(client)
	server, err := client.Do(t.Context(), client.B().Time().Build()).AsIntSlice()
	if err != nil {
		t.Fatal(err)
	}
	day := int64(24 * time.Hour / time.Microsecond)
	now := server[0] * 1_000_000
	put := func(action string, n int, age int64) {
		t.Helper()
		for i := range n {
			line := fmt.Sprintf("%s%d %d {}", action, i, now-age)
			if err := client.Do(t.Context(), client.B().Rpush().Key(keyPrefix+action).Element(line).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("queue.delete", 1, 89*day)
	put("queue.delete", 150, 91*day)
	put("queue.cancel", 30, 91*day)
	if err := client.Do(t.Context(), client.B().Set().Key(keyPrefix+"lease.release").Value("x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{182 - 100, 3, 4} { // the deletion of 89 days ago, and those that are entered
		l.Note(t.Context(), Entry{ID: rand.Text(), Action: "schedule.run"})
		got := 0
		for _, action := range Actions() {
			if n, err := client.Do(t.Context(), client.B().Llen().Key(keyPrefix+action).Build()).AsInt64(); err == nil {
				got += int(n)
			}
		}
		if got != want {
			t.Errorf("after %d actions there are %d entries, want %d", i+1, got, want)
		}
	}
	if text.Len() > 0 {
		t.Errorf("it logs %s", text)
	}
}

// TestALostReply: an entry whose reply was lost is sent again, and is there once; so is one that
// another process enters again, and an action that failed first is there as failed and as done.
func TestALostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	l, text := said(proxy.Client(t))
	l.Note(t.Context(), Entry{ID: "warm", Action: "queue.pause"}) // loads the script
	proxy.DropReply(func(cmd []string) bool { return strings.EqualFold(cmd[0], "EVALSHA") })
	l.Note(t.Context(), Entry{ID: "a", Action: "queue.purge"})
	if proxy.Dropped() == 0 {
		t.Error("no reply was lost")
	}
	other, _ := said(server.Client(t))
	other.Note(t.Context(), Entry{ID: "a", Action: "queue.purge", From: "another port"})
	for range 2 {
		other.Note(t.Context(), Entry{ID: "b", Action: "queue.purge", Error: "timeout"})
	}
	other.Note(t.Context(), Entry{ID: "b", Action: "queue.purge"})
	if got, want := ids(t.Context(), l, "queue.purge"), "[a b b!]"; got != want || text.Len() > 0 {
		t.Errorf("the log has %s, want %s; it logs %s", got, want, text)
	}
}

// ids returns the ids of the entries of an action, sorted.
func ids(ctx context.Context, l *Log, action string) string {
	entries, err := l.List(ctx, ListConfig{Most: 100})
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, e := range entries {
		if e.Action == action {
			all = append(all, e.ID)
		}
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// TestAFullServerTakesAnEntry: operators purge while memory is full, and that is noted.
func TestAFullServerTakesAnEntry(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), client.B().Set().Key("k").Value("v").Build()).Error(); err == nil {
		t.Fatal("the server is not full")
	}
	l, text := said(client)
	l.Note(t.Context(), Entry{ID: rand.Text(), Action: "queue.purge"})
	if entries, err := l.List(t.Context(), ListConfig{Most: 2}); err != nil || len(entries) != 1 || text.Len() > 0 {
		t.Errorf("the entries are %+v, %v; it logs %s", entries, err, text)
	}
}
