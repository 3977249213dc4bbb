package audit

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script/scripttest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}

// TestTheLogIsBounded in the number of its entries and in their size, and has the latest first.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	var said bytes.Buffer
	l := New(client, slog.New(slog.NewTextHandler(&said, nil)))
	for i := range Max + 5 {
		l.Note(t.Context(), Entry{Who: "ops", From: "127.0.0.1", Way: "api", Action: "queue.pause", Name: strconv.Itoa(i)})
	}
	long := strings.Repeat("é\x00", 10_000)
	l.Note(t.Context(), Entry{Who: long, From: long, Way: long, Action: long, Name: long, Result: long, Error: long})
	n, err := client.Do(t.Context(), client.B().Llen().Key(Key).Build()).AsInt64()
	if err != nil || n != Max {
		t.Errorf("%d entries, %v, want %d", n, err, Max)
	}
	raw, err := client.Do(t.Context(), client.B().Lindex().Key(Key).Index(0).Build()).ToString()
	if err != nil || len(raw) > 10<<10 {
		t.Errorf("an entry has %d bytes, %v", len(raw), err)
	}
	entries, err := l.List(t.Context(), 1, 2)
	if err != nil || len(entries) != 2 || entries[0].Name != strconv.Itoa(Max+4) || entries[1].Name != strconv.Itoa(Max+3) || entries[0].At.IsZero() {
		t.Errorf("the entries are %+v, %v", entries, err)
	}
	if said.Len() > 0 {
		t.Errorf("it logs %s", &said)
	}
	if err := client.Do(t.Context(), client.B().Del().Key(Key).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), client.B().Set().Key(Key).Value("x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	l.Note(t.Context(), Entry{Action: "queue.pause"})
	if !strings.Contains(said.String(), "missing in the audit log") {
		t.Errorf("of a write that failed it logs %q", &said)
	}
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
	var said bytes.Buffer
	l := New(client, slog.New(slog.NewTextHandler(&said, nil)))
	l.Note(t.Context(), Entry{Action: "queue.purge"})
	if entries, err := l.List(t.Context(), 0, 2); err != nil || len(entries) != 1 || said.Len() > 0 {
		t.Errorf("the entries are %+v, %v; it logs %s", entries, err, &said)
	}
}
