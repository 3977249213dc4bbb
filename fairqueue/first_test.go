package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestFirst(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	q, err := New(client, "x", Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for i := range 5 {
		for _, tenant := range []string{"a", "b\x01c"} {
			if _, err := q.Write(ctx, Draft{Tenant: tenant, Body: fmt.Append(nil, i), Headers: map[string]string{"h": "1"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := q.Stats(ctx)
	t.Logf("%+v %v", s, err)
	ms, err := q.Read(ctx, ReadConfig{Max: 4})
	t.Log(err)
	for _, m := range ms {
		t.Logf("%s %q %s %v %d", m.ID, m.Tenant, m.Body, m.Headers, m.Attempt)
	}
	n, err := q.Ack(ctx, ms[0].Receipt, ms[1].Receipt)
	t.Log(n, err)
	t.Log(q.Nack(ctx, ms[2].Receipt, NackConfig{Reason: "x"}))
	t.Log(q.Nack(ctx, ms[3].Receipt, NackConfig{Dead: true, Reason: "dead"}))
	for d, err := range q.Dead(ctx) {
		t.Logf("%+v %v", d, err)
	}
	p, err := q.Browse(ctx, BrowseConfig{})
	t.Logf("%d %q %v", len(p.Messages), p.Next, err)
	ctx2, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	count := 0
	err = q.Consume(ctx2, ConsumeConfig{}, func(ctx context.Context, m Message) error {
		count++
		if count == 7 {
			cancel()
		}
		return nil
	})
	t.Log(count, err)
	l, err := q.Len(ctx)
	t.Log(l, err)
	s, err = q.Stats(ctx)
	t.Logf("%+v %v", s, err)
	if !errors.Is(err, nil) {
		t.Error(err)
	}
}
