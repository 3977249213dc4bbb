package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// sound is an outcome in which all went well.
func sound() outcome {
	l := newLedger()
	for _, tenant := range []string{"quiet-1", "quiet-1", goneTenant, noisyTenant} {
		number := l.post(tenant, tenant == noisyTenant)
		id := "1-" + string(rune('0'+number)) + ".1"
		l.accepted(number, id)
		if tenant != goneTenant {
			l.received(number)
		}
	}
	l.accepted(1, "1-1.1") // again, under its key
	l.failed("the endpoint answered 410 Gone")
	l.dead(letter("1-2.1", `{"number":2}`))
	l.hooks[1].together = true
	l.hooks[0].took, l.hooks[1].took, l.hooks[3].took = time.Millisecond, 2*time.Millisecond, time.Second
	return outcome{ledger: l, tenants: 3, took: time.Second}
}

func letter(id, body string) fairqueue.Message {
	return fairqueue.Message{ID: id, Body: []byte(body), Reason: "the endpoint answered 410 Gone"}
}

func TestReport(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if got, want := report(&out, sound()), exitOK; got != want {
		t.Errorf("exit code = %d, want %d", got, want)
	}
	want := `accepted          4 webhooks of 3 tenants; 1 posted twice under one key, which gave one id
delivered         3; 0 came again, which their id tells
attempts failed   1: 1 the endpoint answered 410 Gone
dead letters      1: 1 the endpoint answered 410 Gone
quiet, alone      p50 1.0 ms, p99 1.0 ms
quiet, together   p50 2.0 ms, p99 2.0 ms: 2.0 and 2.0 times as long
noisy             p50 1.0 s, p99 1.0 s
replaced          the courier, under load; 0 deliveries were cut off by it
took              1.0 s

every webhook was delivered or is a dead letter, and quiet tenants did not wait for the noisy one
`
	if got := out.String(); got != want {
		t.Errorf("report =\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsWrongIsFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		says  string
		spoil func(*outcome)
	}{
		{"webhook 0 of quiet-1 was accepted as 1-0.1, and is neither", func(o *outcome) { o.ledger.hooks[0].received = 0 }},
		{"webhook 2 of gone was accepted as 1-2.1, and is neither", func(o *outcome) { o.ledger.hooks[2].reason = "" }},
		{"webhook 3 of noisy was not accepted", func(o *outcome) { o.ledger.hooks[3].id = "" }},
		{"webhook 2 was delivered to an endpoint that is no more", func(o *outcome) { o.ledger.received(2) }},
		{"1 posts that were made again under their key got another id", func(o *outcome) { o.ledger.accepted(1, "9-9.1") }},
		{"1 deliveries had a signature", func(o *outcome) { o.ledger.forged() }},
		{"message 9-9.1 is a dead letter that nobody posted", func(o *outcome) { o.ledger.dead(letter("9-9.1", `{"number":1}`)) }},
		{"message 9-9.1 is a dead letter that nobody posted", func(o *outcome) { o.ledger.dead(letter("9-9.1", `{"number":9}`)) }},
		{"1 deliveries were cut off", func(o *outcome) { o.cut = 1 }},
		{"1 waiting, 2 in flight, 3 delayed", func(o *outcome) { o.left = fairqueue.Stats{Waiting: 1, InFlight: 2, Delayed: 3} }},
		{"nothing was posted", func(o *outcome) { o.ledger = newLedger() }},
		{"the noisy tenant delays the others", func(o *outcome) { o.ledger.hooks[1].took = time.Second }},
	}
	for _, test := range tests {
		o := sound()
		test.spoil(&o)
		var out bytes.Buffer
		if got, want := report(&out, o), exitFailed; got != want {
			t.Errorf("exit code when %q = %d, want %d", test.says, got, want)
		}
		_, wrong, _ := strings.Cut(out.String(), "\nnot everything is right, in 1 ways:\n  ")
		if !strings.Contains(wrong, test.says) {
			t.Errorf("report does not say %q alone:\n%s", test.says, out.String())
		}
	}
}
