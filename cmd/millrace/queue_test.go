package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestQueueRound(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want(`{"messages":[]}`+"\n", "queue", "read", name, "--json")
	s.refused(1, "not_found", "queue", "stats", name) // a read creates nothing
	id := answer[writtenDoc](s, "queue", "write", name, "--tenant", "acme", "--body", "hello",
		"--header", "kind=greeting", "--header", "a=b=c,d").ID
	s.wantSizes(name, 1, 0, 0, 0)

	first := s.takeOne(name, "--visibility", "10ms")
	want := delivery{
		ID: id, Receipt: first.Receipt, Tenant: json.RawMessage(`"acme"`), Body: json.RawMessage(`"hello"`), Attempt: 1,
		PickupDelay: first.PickupDelay, Headers: map[string]json.RawMessage{"kind": []byte(`"greeting"`), "a": []byte(`"b=c,d"`)},
	}
	if diff := cmp.Diff(want, first); diff != "" || first.PickupDelay < 0 || first.PickupDelay > 60000 {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	second := s.takeOne(name, "--block", "20s") // it was not settled in time
	if second.ID != id || second.Receipt == first.Receipt || second.Attempt != 2 {
		t.Errorf("second read = %+v after %+v, want the same message under another receipt", second, first)
	}
	s.refused(1, "stale", "queue", "ack", name, first.Receipt)
	s.refused(1, "stale", "queue", "nack", name, first.Receipt)
	s.refused(1, "stale", "queue", "extend", name, first.Receipt, "1m")
	s.want(`{"extended":true}`+"\n", "queue", "extend", name, second.Receipt, "1m", "--json")
	s.wantSizes(name, 0, 1, 0, 0)
	s.want(`{"acked":1}`+"\n", "queue", "ack", name, second.Receipt, "--json")
	s.refused(1, "stale", "queue", "ack", name, second.Receipt)
	s.wantSizes(name, 0, 0, 0, 0)
}

// TestQueueAckOfSome: the receipts that are good count even if others are stale.
func TestQueueAckOfSome(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.put(name, "a", "1")
	s.put(name, "a", "2")
	got := s.take(name, "--max", "5").Messages
	s.want("1 message acknowledged\n", "queue", "ack", name, got[0].Receipt)
	f := s.refused(1, "stale", "queue", "ack", name, got[0].Receipt, got[1].Receipt)
	if !strings.Contains(f.Error, "1 of 2") || !strings.Contains(f.Error, got[0].Receipt) {
		t.Errorf("ack of one that is stale and one that is not: %+v, want how many and which", f)
	}
	s.wantSizes(name, 0, 0, 0, 0)
}

func TestQueueTables(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("nothing to read\n", "queue", "read", name)
	s.want("there was nothing to delete\n", "queue", "rm", name, "--yes")
	s.refused(1, "declined", "queue", "rm", name)
	if o := s.feed("y\n", "queue", "rm", name); o.code != 1 || !strings.Contains(o.stderr, "--yes") {
		t.Errorf("without a terminal: %+v", o)
	}

	printed := s.feed("{\n\t\"order\": 17\n}\n", "queue", "write", name, "--tenant", "a b", "--dedupe", "17").stdout
	id, ok := strings.CutSuffix(printed, " written\n")
	if !ok {
		t.Fatalf("write prints %q, want an id", printed)
	}
	s.want(id+" was written before\n", "queue", "write", name, "--tenant", "a b", "--body", "x", "--dedupe", "17")
	s.want("nothing is dead\n", "queue", "dead", name)
	s.want("paused\n", "queue", "pause", name)
	s.want("nothing to read: the queue is paused\n", "queue", "read", name)
	printed = s.run("queue", "stats", name).stdout
	if got, want := masked(printed), name+` (a flow for each tenant), paused

TENANT WAITING IN FLIGHT OLDEST HANDLING WAITS FOR
a b 1 0 - - the queue's pause
all 1 0 -

0 delayed, 0 dead

WRITTEN DELIVERED ACKED NACKED RETURNED RECLAIMED EXPIRED CANCELLED BURIED REDRIVEN PURGED DROPPED LOST
1 0 0 0 0 0 0 0 0 0 0 0 0

note: the queue is paused, and 1 message waits.
millrace queue resume `+name+`
`; got != want {
		t.Errorf("stats prints\n%s, want\n%s", got, want)
	}
	s.want("resumed\n", "queue", "resume", name)
	s.want("32 streams, 2 a tenant; before: a flow for each tenant\n", "queue", "resize", name, "32", "--per-tenant", "2")
	s.want("1000 of dead messages kept, for 30d0h\n", "queue", "dead", "keep", name, "--most", "1000", "--age", "720h")
	s.want("10000 of dead messages kept, for 90d0h\n", "queue", "dead", "keep", name)
	s.want("any number of dead messages kept, for ever\n", "queue", "dead", "keep", name, "--most", "0", "--age", "0")

	printed = s.run("queue", "read", name).stdout
	heading, row, _ := strings.Cut(printed, "\n")
	receipt, row, _ := strings.Cut(row, " ")
	if got, want := masked(heading+"\nr "+row), "RECEIPT TENANT ATTEMPT PICKED UP AFTER BODY\nr a b 1 - { \"order\": 17 }\n"; got != want {
		t.Errorf("read prints\n%s, want\n%s", got, want)
	}
	s.want("invisible for 2h0m0s\n", "queue", "extend", name, receipt, "2h")
	s.want("dead\n", "queue", "nack", name, receipt, "--dead", "--reason", "no\tsuch article")
	printed = s.run("queue", "dead", name).stdout
	if rows := strings.Split(printed, "\n"); len(rows) != 3 || !strings.HasPrefix(rows[1], id+"  a b     1         2") ||
		!strings.HasSuffix(rows[1], `  {"base64":"bm8Jc3VjaCBhcnRpY2xl"}  { "order": 17 }`) {
		t.Errorf("dead prints\n%swant the message with its reason", printed)
	}
	s.want("1 message will be tried again\n", "queue", "dead", "redrive", name, id)
	receipt = s.takeOne(name).Receipt
	s.want("given back\n", "queue", "nack", name, receipt, "--delay", "0s")
	s.want("ID"+strings.Repeat(" ", len(id))+"WAS\n"+id+"  waiting\n", "queue", "cancel", name, id)
	s.want("0 messages purged\n", "queue", "dead", "purge", name, "--all")
}

// masked returns a table with one blank between its columns, and without times.
func masked(table string) string {
	var out strings.Builder
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		for i, word := range words {
			if d, err := time.ParseDuration(word); err == nil && d != 0 || word == "0s" {
				words[i] = "-"
			}
		}
		out.WriteString(strings.Join(words, " ") + "\n")
	}
	return out.String()
}

func TestQueueExcerpt(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                       `""`,
		"a\n\tb ":                "a b",
		"\x00":                   `{"base64":"AA=="}`,
		strings.Repeat("ä", 60):  strings.Repeat("ä", 60),
		strings.Repeat("ä", 61):  strings.Repeat("ä", 60) + "... (122 bytes)",
		strings.Repeat("b ", 99): strings.Repeat("b ", 30) + "... (198 bytes)",
	} {
		if got := excerpt(jsontype.Text(body)); got != want {
			t.Errorf("excerpt(%q) = %q, want %q", body, got, want)
		}
	}
}

func TestQueueOfBytes(t *testing.T) {
	t.Parallel()
	s := sharedShell(t)
	name := redistest.Name(t) + "\xff"
	const form = `{"base64":"AA=="}` // a body that reads like an encoded one
	s.feed("\xff\x00\r\n", "queue", "write", jsontype.Text(name).String(), "--tenant", `{"base64":"//4="}`)
	s.feed(form, "queue", "write", name, "--tenant", "b", "--header", "form="+jsontype.Text(form).String(), "--header", "amp=<&>")
	s.run("queue", "write", name, "--tenant", "c", "--body", form)
	s.run("queue", "write", name, "--tenant", "d", "--body=", "--header", "empty=")

	// Messages that were read are written again, as lines, and read again.
	var before map[string]string
	for range 2 {
		var lines strings.Builder
		got := make(map[string]string)
		for _, m := range s.take(name, "--max", "9").Messages {
			headers, err := json.Marshal(m.Headers)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&lines, `{"tenant":%s,"body":%s,"headers":%s}`+"\n", m.Tenant, m.Body, headers)
			got[string(m.Tenant)] = string(m.Body) + " " + string(headers)
		}
		want := map[string]string{
			`{"base64":"//4="}`: `{"base64":"/wANCg=="} {}`,
			`"b"`:               jsontype.Text(form).String() + ` {"amp":"\u003c\u0026\u003e","form":` + jsontype.Text(form).String() + `}`,
			`"c"`:               `"\u0000" {}`,
			`"d"`:               `"" {"empty":""}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("read after %v (-want +got):\n%s", before, diff)
		}
		before = got
		if o := s.feed(lines.String(), "queue", "write", name, "--batch"); o.stdout != "4 messages written\n" {
			t.Errorf("write of\n%s= %+v", lines.String(), o)
		}
	}
	found := false
	for _, n := range answer[struct{ Queues []any }](s, "queue", "ls").Queues {
		found = found || cmp.Equal(n, map[string]any{"base64": encoded(name)})
	}
	if !found {
		t.Errorf("queue ls does not have %q in base64", name)
	}
	s.run("queue", "rm", name, "--yes")
}

func TestQueueBlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := shell{t: t, url: server.URL()}
	began := time.Now()
	s.want(`{"messages":[]}`+"\n", "queue", "read", "q", "--block", "1s", "--json") // which also bounds how long the server may take
	if waited := time.Since(began); waited < time.Second {
		t.Errorf("gave up after %s, want no less than 1s", waited)
	}
	got := make(chan outcome, 1)
	go func() { got <- s.run("queue", "read", "q", "--block", "1m", "--json") }()
	awaitWaiter(t, server)
	s.put("q", "a", "hello")
	var doc deliveries
	if o := <-got; o.code != 0 || json.Unmarshal([]byte(o.stdout), &doc) != nil || len(doc.Messages) != 1 {
		t.Errorf("read after a wait = %+v, want the message", o)
	}

	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.interrupted(ctx, "queue", "read", "q", "--block", "1h")
	}()
	awaitWaiter(t, server)
	interrupt()
	<-done
	s.wantSizes("q", 0, 1, 0, 0)
}

// TestQueueUnprinted: messages that were read and not printed come again soon.
func TestQueueUnprinted(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.put(name, "a", "hello")
	a := &app{env: s.env, stdout: full{}, stderr: io.Discard}
	if code := a.run(t.Context(), []string{"queue", "read", name, "--visibility", "12h"}); code != 1 {
		t.Errorf("read without a place to write exits with %d, want 1", code)
	}
	if m := s.takeOne(name, "--block", "20s"); m.Attempt != 2 {
		t.Errorf("read = %+v, want the second attempt", m)
	}
}
