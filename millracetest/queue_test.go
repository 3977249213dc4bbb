package millracetest_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/millracetest"
)

type order struct {
	Number int      `json:"number"`
	Lines  []string `json:"lines"`
}

func TestWantCounts(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		q := newQueue(t, s, fairqueue.Config{})
		got := try(t, func(t testing.TB) { millracetest.WantCounts(t, q, millracetest.Counts{}) })
		wantText(t, got.failed)
		got = try(t, func(t testing.TB) { millracetest.WantCounts(t, q, millracetest.Counts{Dead: 2}) })
		wantText(t, got.failed, `queue "orders" has 0 dead, want 2`, "nothing")
		write(t, q, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}, fairqueue.Draft{Tenant: "globex", Delay: time.Hour})
		if _, err := q.Read(t.Context(), fairqueue.ReadConfig{}); err != nil {
			t.Fatal(err)
		}
		write(t, q, fairqueue.Draft{Tenant: "initech", Body: make([]byte, 300)})
		got = try(t, func(t testing.TB) {
			millracetest.WantCounts(t, q, millracetest.Counts{Waiting: 1, InFlight: 1, Delayed: 1})
		})
		wantText(t, got.failed)
		got = try(t, func(t testing.TB) { millracetest.WantCounts(t, q, millracetest.Counts{Waiting: 1}) })
		wantText(t, got.failed, "1 in_flight, want 0; 1 delayed, want 0", `in_flight: message`, `tenant "acme", body "hello", 1 deliveries`,
			`delayed: message`, `"globex"`, `waiting: message`, "and 100 bytes more")
	})
}

func TestWantMessage(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		q := newQueue(t, s, fairqueue.Config{})
		want := func(match millracetest.Match) *fakeTB {
			return try(t, func(t testing.TB) { millracetest.WantMessage(t, q, match) })
		}
		wantText(t, want(millracetest.Match{}).failed, `queue "orders" has no waiting message`, "nothing")
		typed := fairqueue.Typed[order]{Queue: q}
		if _, err := typed.Write(t.Context(), order{7, []string{"nuts", "bolts"}}, fairqueue.Draft{Tenant: "acme", Headers: map[string]string{"trace": "t"}}); err != nil {
			t.Fatal(err)
		}
		write(t, q, fairqueue.Draft{Tenant: "globex", Body: []byte("text")})
		for _, match := range []millracetest.Match{
			{},
			{Tenant: "acme", Body: order{7, []string{"nuts", "bolts"}}},
			{Tenant: "acme", Body: map[string]any{"lines": []string{"nuts", "bolts"}, "number": 7}, Headers: map[string]string{"trace": "t"}},
			{Body: "text"},
			{Body: []byte("text")},
		} {
			wantText(t, want(match).failed)
		}
		wantText(t, want(millracetest.Match{Tenant: "initech"}).failed, `tenant is "acme", want "initech"`, `tenant is "globex", want "initech"`)
		wantText(t, want(millracetest.Match{Body: order{8, []string{"nuts", "screws"}}}).failed,
			"body.number is 7, want 8", `body.lines[1] is "bolts", want "screws"`, `body is "text", which is not JSON`)
		wantText(t, want(millracetest.Match{Body: map[string]any{"number": 7, "price": 1}}).failed,
			"body.price is missing, want 1", `body.lines is ["nuts","bolts"], want none`)
		wantText(t, want(millracetest.Match{Body: "x"}).failed, `body is "text", want "x"`)
		wantText(t, want(millracetest.Match{Headers: map[string]string{"trace": "u"}}).failed,
			`header "trace" is "t", want "u"`, `header "trace" is missing, want "u"`)
		wantText(t, want(millracetest.Match{State: fairqueue.Dead}).failed, "has no dead message", "waiting: message")
		wantText(t, want(millracetest.Match{Body: make(chan int)}).fatal, "Match.Body")
	})
}

func TestWantLease(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		l, err := lease.New(s.Client, lease.Config{})
		if err != nil {
			t.Fatal(err)
		}
		free := func(name string) string {
			return try(t, func(t testing.TB) { millracetest.WantFree(t, l, name) }).failed
		}
		wantText(t, free("x"))
		wantText(t, try(t, func(t testing.TB) { millracetest.WantHeld(t, l, "x") }).failed, `the lease "x" is free, want it held`)
		if _, err := l.Acquire(t.Context(), "x", time.Minute, lease.AcquireConfig{Metadata: "host a"}); err != nil {
			t.Fatal(err)
		}
		wantText(t, free("x"), `the lease "x" is held for another`, "(host a), want it free")
		if info := millracetest.WantHeld(t, l, "x"); info.Metadata != "host a" {
			t.Errorf("WantHeld = %+v", info)
		}
		wantText(t, try(t, func(t testing.TB) { millracetest.WantFree(t, l, "{") }).fatal, "brace")
	})
}
