package fairqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestLegacyStreamIsReadUntilItIsEmpty, by several readers, in its order, and
// entries of a dead old reader come, too.
func TestLegacyStreamIsReadUntilItIsEmpty(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	stream := "old:" + redistest.Name(t)
	for i := range 30 {
		if err := do(t, client, "XADD", stream, "*", "customer", fmt.Sprint(i%3), "text", fmt.Sprint(i)).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if err := do(t, client, "XGROUP", "CREATE", stream, "workers", "0").Error(); err != nil {
		t.Fatal(err)
	}
	taken, err := do(t, client, "XREADGROUP", "GROUP", "workers", "died", "COUNT", "2", "STREAMS", stream, ">").AsXRead()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range taken[stream] { // a minute ago
		if err := do(t, client, "XCLAIM", stream, "workers", "died", "0", e.ID, "IDLE", "60000", "JUSTID").Error(); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Streams: 4, PerTenant: 1, Legacy: []Legacy{{Stream: stream, Group: "workers", ClaimAfter: 30 * time.Second, Draft: func(fields map[string]string) (Draft, error) {
		if fields["text"] == "7" {
			return Draft{}, errors.New("nobody knows whose this is")
		}
		return Draft{Tenant: fields["customer"], Body: []byte(fields["text"])}, nil
	}}}}
	one := openOn(t, client, redistest.Name(t), cfg)
	two := openOn(t, redistest.Shared(t).Client(t), one.name, cfg)
	write(t, one, "new:new")
	got := map[string]int{}
	for i := 0; len(got) < 31; i++ {
		m := eventually(t, []*Queue{one, two}[i%2])
		got[string(m.Body)]++
		ack(t, one, m)
	}
	for body, n := range got {
		if n != 1 {
			t.Errorf("%q was delivered %d times", body, n)
		}
	}
	if got[`{"customer":"1","text":"7"}`] != 1 || got["0"] != 1 || got["new"] != 1 {
		t.Errorf("got %v", got)
	}
	if n, err := do(t, client, "XLEN", stream).AsInt64(); err != nil || n != 0 {
		t.Errorf("the legacy stream holds %d, %v, want it empty", n, err)
	}
	_, err = one.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrEmpty)
}

// TestLegacyStreamOfNoGroup and none at all.
func TestLegacyStreamOfNoGroup(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	stream := "old:" + redistest.Name(t)
	q := openOn(t, client, redistest.Name(t), Config{Legacy: []Legacy{{Stream: stream, Group: "workers"}}})
	_, err := q.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrEmpty)
	if n, err := do(t, client, "EXISTS", stream).AsInt64(); err != nil || n != 0 {
		t.Errorf("a read created the legacy stream: %d, %v", n, err)
	}
	if err := do(t, client, "XADD", stream, "*", "a", "b").Error(); err != nil {
		t.Fatal(err)
	}
	fresh := openOn(t, client, q.name, q.cfg)
	if m := eventually(t, fresh); string(m.Body) != `{"a":"b"}` || m.Tenant != "legacy" {
		t.Errorf("message = %+v", m)
	}
}

// TestLegacyValuesThatAreNotText come as base64 (F10 in docs/DEFECTS.md), and the default
// is used for entries that a Draft function does not understand.
func TestLegacyValuesThatAreNotText(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	stream := "old:" + redistest.Name(t)
	if err := do(t, client, "XADD", stream, "*", "text", "grüße", "bytes", "\xff\x00", "na\xffme", "x").Error(); err != nil {
		t.Fatal(err)
	}
	q := openOn(t, client, redistest.Name(t), Config{Legacy: []Legacy{{Stream: stream, Group: "workers", Draft: func(map[string]string) (Draft, error) {
		return Draft{Tenant: ""}, nil
	}}}})
	m := eventually(t, q)
	var fields map[string]any
	want(t, "JSON", nil, nil, json.Unmarshal(m.Body, &fields))
	want(t, "fields", fields, map[string]any{"text": "grüße", "bytes": map[string]any{"base64": "/wA="}, "na\uFFFDme": "x"}, nil)
}

// TestLegacyEntriesCountByTheirID, whatever the Draft function says.
func TestLegacyEntriesCountByTheirID(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	stream := "old:" + redistest.Name(t)
	for range 2 {
		if err := do(t, client, "XADD", stream, "*", "a", "b").Error(); err != nil {
			t.Fatal(err)
		}
	}
	q := openOn(t, client, redistest.Name(t), Config{Legacy: []Legacy{{Stream: stream, Group: "workers", Draft: func(map[string]string) (Draft, error) {
		return Draft{Tenant: "a", Source: "s", Position: 1}, nil
	}}}})
	ack(t, q, eventually(t, q))
	ack(t, q, eventually(t, q))
}

// TestLegacyStreamIsConsumed by Consume, too, also entries that come while it sleeps.
func TestLegacyStreamIsConsumed(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	stream := "old:" + redistest.Name(t)
	add := func() {
		if err := do(t, client, "XADD", stream, "*", "a", "b").Error(); err != nil {
			t.Fatal(err)
		}
	}
	add()
	q := openOn(t, client, redistest.Name(t), Config{Legacy: []Legacy{{Stream: stream, Group: "workers"}}})
	handled := make(chan bool, 10)
	consume(t, q, ConsumeConfig{}, func(context.Context, Message) error {
		handled <- true
		return nil
	})
	<-handled
	add() // a reader that found the stream empty looks again within seconds
	<-handled
}
