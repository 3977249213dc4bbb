package doctor

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestDeep finds a message whose body another program removed, and nothing before.
func TestDeep(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	q, err := fairqueue.New(client, "orders", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "a", Body: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	keys := func() (found []Finding) {
		t.Helper()
		r, err := Examine(t.Context(), client, Config{Deep: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Work {
			if f.Check == "keys" {
				found = append(found, f)
			}
		}
		return found
	}
	if got := keys(); len(got) != 1 || got[0].Severity != OK || got[0].Text != "the keys of 1 queue agree" {
		t.Errorf("a good queue: %+v", got)
	}
	if n, err := client.Do(t.Context(), client.B().Hdel().Key("mr:queue:{orders}:hot").Field(id).Build()).AsInt64(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	got := keys()
	if len(got) != 1 || got[0].Severity != Critical || !strings.Contains(got[0].Text, "message "+id) || !strings.Contains(got[0].Advice, "queue rm orders") {
		t.Errorf("a message without a body: %+v", got)
	}
}
