package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/server/document"
)

// writtenDoc is the document of queue write.
type writtenDoc struct {
	ID         string
	Duplicate  bool
	IDs        []string
	Duplicates int
}

// delivery is a message in the document of queue read.
type delivery struct {
	ID          string
	Receipt     string
	Tenant      json.RawMessage
	Body        json.RawMessage
	Attempt     int
	PickupDelay int64 `json:"pickup_delay_ms"`
	Headers     map[string]json.RawMessage
}

// deliveries is the document of queue read.
type deliveries struct {
	Messages []delivery
	Paused   bool
}

// take reads from a queue.
func (s shell) take(name string, args ...string) deliveries {
	s.t.Helper()
	return answer[deliveries](s, append([]string{"queue", "read", name}, args...)...)
}

// takeOne reads the one message that a queue has.
func (s shell) takeOne(name string, args ...string) delivery {
	s.t.Helper()
	got := s.take(name, args...)
	if len(got.Messages) != 1 {
		s.t.Fatalf("read = %+v, want one message", got)
	}
	return got.Messages[0]
}

// put writes a message and returns its id.
func (s shell) put(name, tenant, body string) string {
	s.t.Helper()
	return answer[writtenDoc](s, "queue", "write", name, "--tenant", tenant, "--body", body).ID
}

// wantSizes checks how many messages wait, are in flight, delayed and dead.
func (s shell) wantSizes(name string, waiting, inFlight, delayed, dead int) {
	s.t.Helper()
	got := answer[document.QueueStats](s, "queue", "stats", name)
	sizes := [4]int{got.Waiting, got.InFlight, got.Delayed, got.Dead}
	if want := [4]int{waiting, inFlight, delayed, dead}; sizes != want {
		s.t.Errorf("waiting, in flight, delayed, dead = %v, want %v", sizes, want)
	}
}

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
	second := s.takeOne(name, "--block", "20s") // nobody settled it in time
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
	s.want("there was nothing to delete\n", "queue", "delete", name)

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

TENANT WAITING IN FLIGHT OLDEST HANDLING HELD
a b 1 0 - - -
all 1 0 -

0 delayed, 0 dead

WRITTEN DELIVERED ACKED NACKED RETURNED RECLAIMED EXPIRED CANCELLED BURIED REDRIVEN PURGED DROPPED LOST
1 0 0 0 0 0 0 0 0 0 0 0 0
`; got != want {
		t.Errorf("stats prints\n%s, want\n%s", got, want)
	}
	s.want("resumed\n", "queue", "resume", name)
	s.want("32 streams, 2 a tenant; before: a flow for each tenant\n", "queue", "resize", name, "32", "--per-tenant", "2")
	s.want("a b has the weight 2.5\n", "queue", "weight", name, "a b", "2.5")
	s.want("1000 of dead messages kept, for 30d0h\n", "queue", "dead", "keep", name, "--most", "1000", "--age", "720h")
	s.want("any number of dead messages kept, for ever\n", "queue", "dead", "keep", name)

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
	s.want("given back\n", "queue", "nack", name, receipt)
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
		if got := excerpt(document.Text(body)); got != want {
			t.Errorf("excerpt(%q) = %q, want %q", body, got, want)
		}
	}
}

func TestQueueOfBytes(t *testing.T) {
	t.Parallel()
	s := sharedShell(t)
	name := redistest.Name(t) + "\xff"
	const form = `{"base64":"AA=="}` // a body that reads like an encoded one
	s.feed("\xff\x00\r\n", "queue", "write", document.Text(name).String(), "--tenant", `{"base64":"//4="}`)
	s.feed(form, "queue", "write", name, "--tenant", "b", "--header", "form="+document.Text(form).String(), "--header", "amp=<&>")
	s.run("queue", "write", name, "--tenant", "c", "--body", form)
	s.run("queue", "write", name, "--tenant", "d", "--body=", "--header", "empty=")

	// What was read is written again, as lines, and read again.
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
			`"b"`:               document.Text(form).String() + ` {"amp":"\u003c\u0026\u003e","form":` + document.Text(form).String() + `}`,
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
	s.run("queue", "delete", name)
}

// written reads the document of a queue write that was fed.
func (s shell) written(stdin, name string) writtenDoc {
	s.t.Helper()
	got := s.feed(stdin, "queue", "write", name, "--batch", "--json")
	var doc writtenDoc
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.code != 0 || got.stderr != "" {
		s.t.Fatalf("write = %+v, want a document (%v)", got, err)
	}
	return doc
}

func TestQueueBatch(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	if o := s.feed("\n  \n", "queue", "write", name, "--batch", "--json"); o.stdout != `{"ids":[]}`+"\n" {
		t.Errorf("write of no lines = %+v", o)
	}
	s.refused(1, "not_found", "queue", "stats", name)

	doc := s.written(`{"tenant":"a","dedupe":"1"}`+"\n\r\n"+`{"tenant":"a","delay":"1h","deadline":"2h"}`+"\n"+
		`{"tenant":"a","dedupe":"1"}`, name) // whose line does not end
	if len(doc.IDs) != 3 || doc.Duplicates != 1 || doc.IDs[0] != doc.IDs[2] || doc.IDs[0] == doc.IDs[1] {
		t.Errorf("write = %+v, want 3 ids, the last one a duplicate of the first", doc)
	}
	s.wantSizes(name, 1, 0, 1, 0)

	many := s.written(lines(2500), name)
	seen := make(map[string]bool)
	for _, id := range many.IDs {
		seen[id] = true
	}
	if len(many.IDs) != 2500 || len(seen) != 2500 {
		t.Errorf("write of 2500 lines prints %d ids, %d of them different", len(many.IDs), len(seen))
	}
	s.wantSizes(name, 2501, 0, 1, 0)
	last := s.run("queue", "cancel", name, many.IDs[2499], "--json").stdout
	if want := `{"cancelled":1,"messages":[{"id":"` + many.IDs[2499] + `","was":"waiting"}]}` + "\n"; last != want {
		t.Errorf("cancel of the last = %s, want %s", last, want)
	}
}

// lines are n messages for queue write --batch.
func lines(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `{"tenant":"t%d","body":"%d"}`+"\n", i%50, i)
	}
	return out.String()
}

func TestQueueBadLines(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	for line, want := range map[string]string{
		`hello`:                                `invalid character 'h' looking for beginning of value`,
		`[]`:                                   `it is a JSON array and no object`,
		`"x"`:                                  `it is a JSON string and no object`,
		`{"tenant":"a"`:                        `the object does not end`,
		`{"tenant":"a"} {"tenant":"b"}`:        `something follows the object`,
		`{"tennant":"a"}`:                      `unknown field "tennant"`,
		`{"body":"a"}`:                         `the message has no tenant`,
		`{"tenant":5}`:                         `tenant is a string or {"base64":"..."}, and not a JSON number`,
		`{"tenant":"a","body":{"x":"y"}}`:      `body is a string or {"base64":"..."}, and not a JSON object`,
		`{"tenant":"a","body":{"base64":"x"}}`: `"x" is not base64`,
		`{"tenant":"a","headers":["x"]}`:       `headers are an object of strings`,
		`{"tenant":"a","headers":{"x":1}}`:     `headers are an object of strings`,
		`{"tenant":"a","headers":{"x":{"base64":"/w=="}}}`:           `the header "x" is not UTF-8`,
		`{"tenant":"a","priority":"1"}`:                              `priority is a whole number, and not a JSON string`,
		`{"tenant":"a","priority":0.5}`:                              `priority is a whole number, and not a JSON number 0.5`,
		`{"tenant":"a","priority":5}`:                                `a priority is from -4 to 4, not 5`,
		`{"tenant":"a","delay":5}`:                                   `delay is a duration in quotes, such as "10m", and not a JSON number`,
		`{"tenant":"a","delay":"5"}`:                                 `"5" is no duration such as 500ms or 10m`,
		`{"tenant":"a","delay":"-5s"}`:                               `the delay is negative: -5s`,
		`{"tenant":"a","deadline":"-5s"}`:                            `the deadline is not a millisecond away: -5s`,
		`{"tenant":"a","deadline":"1us"}`:                            `the deadline is not a millisecond away: 1µs`,
		`{"tenant":"` + strings.Repeat("x", 513) + `"}`:              `the tenant is 513 bytes long, more than 512`,
		`{"tenant":"a","dedupe":"` + fmt.Sprintf("%0513d", 1) + `"}`: `the dedupe id is 513 bytes long, more than 512`,
		"{\"tenant\":\"a\xff\"}":                                     `it is not UTF-8; bytes are given as {"base64":"..."}`,
	} {
		f := s.refusedFed(lines(3)+"\n"+line+"\n"+lines(1), 2, "bad_line", "queue", "write", name, "--batch")
		if got, want := f.Error, "line 5: "+want; got != want {
			t.Errorf("write of %s: %q, want %q", line, got, want)
		}
		if !strings.HasPrefix(f.Hint, "Nothing was written.") {
			t.Errorf("write of %s: hint %q", line, f.Hint)
		}
	}
	s.refused(1, "not_found", "queue", "stats", name)
}

// TestQueueBatchEndsInBetween: how many messages are written is told.
func TestQueueBatchEndsInBetween(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s, client := shell{t, server.URL()}, server.Client(t)
	limit := func(bytes int) {
		t.Helper()
		set := client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", strconv.Itoa(bytes)).Build()
		if err := client.Do(t.Context(), set).Error(); err != nil {
			t.Fatal(err)
		}
	}
	used, err := strconv.Atoi(server.Info("memory")["used_memory"])
	if err != nil {
		t.Fatal(err)
	}
	limit(used + 3<<20)
	lines := strings.Repeat(`{"tenant":"a","body":"`+strings.Repeat("x", 1000)+`"}`+"\n", 4000)
	f := s.refusedFed(lines, 1, "full", "queue", "write", "q", "--batch")
	waiting := answer[document.QueueStats](s, "queue", "stats", "q").Waiting
	if want := fmt.Sprintf("%d of 4000 messages are written: ", waiting); waiting == 0 || !strings.HasPrefix(f.Error, want) || f.Hint == "" {
		t.Errorf("write on a server that gets full: %+v, want it to begin with %q, and a hint", f, want)
	}
	limit(1)
	if f := s.refused(1, "full", "queue", "write", "q", "--tenant", "a", "--body", "x"); strings.Contains(f.Error, "may be written") {
		t.Errorf("write on a full server: %+v, want no doubt", f)
	}
	s.want("1 message acknowledged\n", "queue", "ack", "q", s.takeOne("q").Receipt)
}

// cutShort runs a command with --json whose n-th script call is done, and
// interrupted before its answer is there, and returns what it says.
func (s shell) cutShort(server *redistest.Server, n int, stdin string, args ...string) failure {
	s.t.Helper()
	proxy := redistest.NewProxy(s.t, server.Addr())
	ctx, interrupt := context.WithCancel(s.t.Context())
	defer interrupt()
	calls := 0
	proxy.DropReplyWhen(func(cmd []string) bool {
		if !redistest.Named("EVALSHA")(cmd) {
			return false
		}
		if calls++; calls < n {
			return false
		}
		interrupt()
		return true
	})
	var stdout, stderr bytes.Buffer
	through := shell{s.t, proxy.URL()}
	code := run(ctx, append([]string{"--json"}, args...), through.env, strings.NewReader(stdin), &stdout, &stderr)
	var f failure
	if err := json.Unmarshal(stderr.Bytes(), &f); err != nil || code != 1 || stdout.Len() > 0 || f.Code != "interrupted" {
		s.t.Fatalf("millrace %s exits with %d, prints %q and says %q, want an interrupt", strings.Join(args, " "), code, &stdout, &stderr)
	}
	return f
}

// TestQueueWriteInDoubt: a write whose answer nobody got.
func TestQueueWriteInDoubt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := shell{t, server.URL()}
	s.put("q", "a", "so that the server knows the script")

	f := s.cutShort(server, 1, "", "queue", "write", "q", "--tenant", "a", "--body", "x")
	if !strings.HasPrefix(f.Error, "the message may be written: ") || !strings.Contains(f.Hint, "dedupe") {
		t.Errorf("write without an answer: %+v, want it to say that it may be written", f)
	}
	redistest.Eventually(t, "it is written", func() bool {
		return answer[document.QueueStats](s, "queue", "stats", "q").Waiting == 2
	})
	f = s.cutShort(server, 1, "", "queue", "write", "q", "--tenant", "a", "--body", "x", "--dedupe", "17")
	if !strings.HasPrefix(f.Hint, "Write again within 5 minutes") {
		t.Errorf("write with a dedupe id and no answer: %+v, want the hint to write again", f)
	}
	redistest.Eventually(t, "it is written", func() bool {
		return answer[document.QueueStats](s, "queue", "stats", "q").Waiting == 3
	})
	if again := answer[writtenDoc](s, "queue", "write", "q", "--tenant", "a", "--body", "x", "--dedupe", "17"); !again.Duplicate {
		t.Errorf("write again = %+v, want a duplicate", again)
	}
	f = s.cutShort(server, 2, lines(2500), "queue", "write", "q", "--batch")
	if want := "1000 of 2500 messages are written, and perhaps the next ones up to 1,000: "; !strings.HasPrefix(f.Error, want) {
		t.Errorf("write of lines without the second answer: %+v, want it to begin with %q", f, want)
	}
}

func TestQueueBlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := shell{t, server.URL()}
	began := time.Now()
	s.want(`{"messages":[]}`+"\n", "queue", "read", "q", "--block", "30ms", "--json")
	if waited := time.Since(began); waited < 30*time.Millisecond {
		t.Errorf("gave up after %s, want no less than 30ms", waited)
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

// TestQueueInterruptedInput: nobody writes to standard input.
func TestQueueInterruptedInput(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	for _, args := range [][]string{{"--tenant", "a"}, {"--batch"}} {
		stdin, typist := io.Pipe()
		ctx, interrupt := context.WithCancel(t.Context())
		var stdout, stderr strings.Builder
		code := make(chan int, 1)
		go func() {
			code <- run(ctx, append([]string{"queue", "write", name, "--json"}, args...), s.env, stdin, &stdout, &stderr)
		}()
		if _, err := typist.Write([]byte(`{"tenant":"a"}`)); err != nil { // returns when the command reads
			t.Fatal(err)
		}
		interrupt()
		want := outcome{1, "", `{"error":"interrupted","code":"interrupted","hint":""}` + "\n"}
		if got := (outcome{<-code, stdout.String(), stderr.String()}); got != want {
			t.Errorf("write %v = %+v, want %+v", args, got, want)
		}
		typist.Close()
	}
	s.refused(1, "not_found", "queue", "stats", name)
}

func TestQueuePause(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(1, "not_found", "queue", "pause", name)
	s.refused(1, "not_found", "queue", "resume", name)
	s.put(name, "a", "hello")
	for range 2 {
		s.want(`{"paused":true}`+"\n", "queue", "pause", name, "--json")
	}
	s.want(`{"messages":[],"paused":true}`+"\n", "queue", "read", name, "--json", "--block", "10ms")
	if !answer[document.QueueStats](s, "queue", "stats", name).Paused {
		t.Error("stats does not tell that the queue is paused")
	}
	s.want(`{"paused":false}`+"\n", "queue", "resume", name, "--json")
	s.takeOne(name)
}

func TestQueueDead(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(1, "not_found", "queue", "dead", "ls", name)
	s.refused(1, "not_found", "queue", "dead", "purge", name, "--all")
	ids := s.written(`{"tenant":"a","body":"1","headers":{"k":"v"}}`+"\n"+`{"tenant":"a","body":"2"}`+"\n"+`{"tenant":"a","body":"3"}`, name).IDs
	for _, m := range s.take(name, "--max", "9").Messages {
		s.want(`{"nacked":true}`+"\n", "queue", "nack", name, m.Receipt, "--dead", "--reason", "broken", "--json")
	}
	listed := answer[struct{ Dead []document.DeadMessage }](s, "queue", "dead", "ls", name).Dead
	bodies := make(map[string]string)
	for _, d := range listed {
		bodies[d.ID] = string(d.Body)
		if d.Tenant != "a" || d.Attempts != 1 || d.Reason != "broken" || time.Since(d.WrittenAt).Abs() > time.Minute {
			t.Errorf("dead = %+v", d)
		}
		if (d.ID == ids[0]) != (d.Headers["k"] == "v") {
			t.Errorf("headers of %s = %v", d.ID, d.Headers)
		}
	}
	if diff := cmp.Diff(map[string]string{ids[0]: "1", ids[1]: "2", ids[2]: "3"}, bodies); diff != "" {
		t.Errorf("dead (-want +got):\n%s", diff)
	}
	s.want(`{"redriven":1}`+"\n", "queue", "dead", "redrive", name, ids[0], "1795226400000000", "--json")
	s.want(`{"purged":1}`+"\n", "queue", "dead", "purge", name, ids[1], ids[1], "--json")
	s.wantSizes(name, 1, 0, 0, 1)
	if m := s.takeOne(name); m.ID != ids[0] || m.Attempt != 1 {
		t.Errorf("read = %+v, want what was redriven, as if it were new", m)
	}
	s.want("1 message purged\n", "queue", "dead", "purge", name, "--all")
	s.want(`{"dead":[]}`+"\n", "queue", "dead", name, "--json")
}

func TestQueueNackAndCancel(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	ids := []string{s.put(name, "a", "1"), s.put(name, "a", "2"), s.put(name, "a", "3")}
	var kept string
	for _, m := range s.take(name, "--max", "9").Messages {
		switch m.ID {
		case ids[2]:
			kept = m.Receipt
		case ids[0]:
			s.want("given back\n", "queue", "nack", name, m.Receipt)
		case ids[1]:
			s.want("given back\n", "queue", "nack", name, m.Receipt, "--delay", "1h")
		}
	}
	s.wantSizes(name, 1, 1, 1, 0)
	got := s.run("queue", "cancel", name, ids[0], ids[1], ids[2], "1795226400000000", "--json").stdout
	want := fmt.Sprintf(`{"cancelled":3,"messages":[{"id":%q,"was":"waiting"},{"id":%q,"was":"delayed"},`+
		`{"id":%q,"was":"in_flight"},{"id":"1795226400000000","was":"nowhere"}]}`+"\n", ids[0], ids[1], ids[2])
	if got != want {
		t.Errorf("cancel = %s, want %s", got, want)
	}
	s.refused(1, "not_found", "queue", "cancel", name, ids[0])
	s.refused(1, "not_found", "queue", "cancel", name+"-of-none", ids[0])
	s.wantSizes(name, 0, 1, 0, 0) // a reader has it until it is told
	s.refused(1, "stale", "queue", "ack", name, kept)
	s.wantSizes(name, 0, 0, 0, 0)
}

func TestQueueResize(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(1, "not_found", "queue", "resize", name, "8")
	s.refused(1, "not_found", "queue", "stats", name) // a name that was mistyped became no queue
	s.run("queue", "write", name, "--tenant", "a", "--body", "x", "--streams", "8", "--per-tenant", "3")
	s.run("queue", "write", name, "--tenant", "a", "--body", "x", "--streams", "99") // it is not new
	s.want(`{"streams":16,"per_tenant":4,"before":{"streams":8,"per_tenant":3}}`+"\n", "queue", "resize", name, "16", "--json")
	s.want(`{"streams":2,"per_tenant":2,"before":{"streams":16,"per_tenant":4}}`+"\n", "queue", "resize", name, "2", "--json")
	s.put(name, "a", "x")
	s.want(`{"streams":0,"per_tenant":0,"before":{"streams":2,"per_tenant":2}}`+"\n", "queue", "resize", name, "0", "--json")
	s.put(name, "a", "x")
	flows := 0
	for _, f := range answer[document.QueueStats](s, "queue", "stats", name).Flows {
		if (f.Tenant == "a") != (f.Stream == -1) {
			t.Errorf("flow = %+v, want a tenant or a stream", f)
		}
		flows += f.Waiting
	}
	if flows != 4 {
		t.Errorf("%d messages wait in flows, want 4", flows)
	}
	if got := s.run("queue", "stats", name).stdout; !strings.Contains(got, "\nTENANT ") || !strings.Contains(got, "\nstream ") || !strings.Contains(got, "\na ") {
		t.Errorf("stats prints\n%s, want streams, and a tenant", got)
	}
	if got := s.take(name, "--max", "9").Messages; len(got) != 4 {
		t.Errorf("read = %+v, want all messages, wherever they wait", got)
	}
}

// A tenant of weight 3 has three turns for each one of others, and a message of a higher
// priority goes before the tenant's others.
func TestQueueTurns(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(1, "not_found", "queue", "weight", name, "a", "3")
	s.put(name, "b", "0")
	s.want(`{"tenant":"a","weight":3}`+"\n", "queue", "weight", name, "a", "3", "--json")
	var lines strings.Builder
	for i := range 6 {
		fmt.Fprintf(&lines, `{"tenant":"a","body":"%d"}`+"\n"+`{"tenant":"b","body":"%d"}`+"\n", i, i)
	}
	fmt.Fprintln(&lines, `{"tenant":"a","body":"urgent","priority":4}`)
	s.written(lines.String(), name)
	s.run("queue", "write", name, "--tenant", "a", "--body", "late", "--priority", "-4")
	turns, bodies := map[string]int{}, []string{}
	for _, m := range s.take(name, "--max", "8").Messages {
		turns[string(m.Tenant)]++
		if string(m.Tenant) == `"a"` {
			bodies = append(bodies, string(m.Body))
		}
	}
	if got := turns[`"a"`]; got < 5 || got > 7 {
		t.Errorf("turns of 8 = %v, want 3 of a for each one of b", turns)
	}
	if len(bodies) < 2 || bodies[0] != `"urgent"` || bodies[1] != `"0"` {
		t.Errorf("messages of a = %v, want what is urgent first", bodies)
	}
}

// Programs that consume are shown as readers.
func TestQueueReaders(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	q, err := fairqueue.New(redistest.Shared(t).Client(t), name, fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.put(name, "a", "x")
	ctx, stop := context.WithCancel(t.Context())
	started, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = q.Consume(ctx, fairqueue.ConsumeConfig{Name: "worker-1", Concurrency: 7, Drain: time.Nanosecond}, func(ctx context.Context, _ fairqueue.Message) error {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-started
	doc := answer[document.QueueStats](s, "queue", "stats", name)
	if doc.Capacity != 7 || len(doc.Readers) != 1 || doc.Readers[0].Name != "worker-1" || doc.Readers[0].Concurrency != 7 {
		t.Errorf("capacity %d, readers %+v, want 7 handlers of worker-1", doc.Capacity, doc.Readers)
	}
	printed := s.run("queue", "stats", name).stdout
	if got := masked(printed); !strings.Contains(got, "\nREADER HOST HANDLERS IN FLIGHT LAST SEEN\nworker-1 ") || !strings.Contains(got, "\nall 7\n") {
		t.Errorf("stats prints\n%s, want the reader", printed)
	}
	stop()
	<-done
	if readers := answer[document.QueueStats](s, "queue", "stats", name).Readers; len(readers) != 0 {
		t.Errorf("readers = %+v when it has left, want none", readers)
	}
}

func TestQueueKeepDead(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(1, "not_found", "queue", "dead", "keep", name, "--most", "1")
	for _, body := range []string{"1", "2"} {
		s.put(name, "a", body)
	}
	s.want(`{"most":1,"age_ms":0}`+"\n", "queue", "dead", "keep", name, "--most", "1", "--json")
	for range 2 {
		s.run("queue", "nack", name, s.takeOne(name).Receipt, "--dead")
	}
	dead := answer[struct{ Dead []document.DeadMessage }](s, "queue", "dead", name).Dead
	if dropped := answer[document.QueueStats](s, "queue", "stats", name).Counters.Dropped; len(dead) != 1 || dead[0].Body != "2" || dropped != 1 {
		t.Errorf("dead = %+v, %d dropped, want the last one, and one dropped", dead, dropped)
	}
}

func TestQueueLs(t *testing.T) {
	t.Parallel()
	s := shell{t, redistest.Start(t, redistest.Options{}).URL()}
	s.want("there are no queues\n", "queue", "ls")
	s.want(`{"queues":[]}`+"\n", "queue", "ls", "--json")
	for _, name := range []string{"b", "a:s:1", "c d"} {
		s.put(name, "t", "x")
	}
	s.want("a:s:1\nb\nc d\n", "queue", "ls")
	s.want(`{"queues":["a:s:1","b","c d"]}`+"\n", "queue", "ls", "--json")
}

// TestQueueLsInPart: of a list that is not whole the names are printed that are there, and
// it is said that some are missing. A part of the registry that is something else fails
// as one that does not answer.
func TestQueueLsInPart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s, client := shell{t, server.URL()}, server.Client(t)
	s.put("orders", "t", "x") // which is in part 5
	if err := client.Do(t.Context(), client.B().Set().Key("mr:registry:{3}").Value("x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	got := s.run("queue", "ls")
	if got.code != 1 || got.stdout != "orders\n" || !strings.Contains(got.stderr, "1 of 16 parts of the registry could not be read") {
		t.Errorf("queue ls = %+v, want the queue, and that something is missing", got)
	}
	var f failure
	got = s.run("queue", "ls", "--json")
	if err := json.Unmarshal([]byte(got.stderr), &f); err != nil || got.code != 1 || f.Code != "partial" || f.Hint == "" {
		t.Errorf("queue ls --json says %q, want the code partial", got.stderr)
	}
	if want := `{"queues":["orders"],"incomplete":"1 of 16 parts of the registry could not be read"}` + "\n"; got.stdout != want {
		t.Errorf("queue ls --json = %q, want %q", got.stdout, want)
	}
}

func TestQueueBroken(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.put(name, "a", "x")
	client := redistest.Shared(t).Client(t)
	if err := client.Do(t.Context(), client.B().Hdel().Key("mr:queue:{"+name+"}").Field("version").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	f := s.refused(1, "broken", "queue", "write", name, "--tenant", "a", "--body", "x")
	if !strings.Contains(f.Hint, "millrace queue delete") {
		t.Errorf("broken: %+v, want the command that removes it", f)
	}
	if o := s.run("queue", "delete", name); o.code != 0 || !strings.HasSuffix(o.stdout, " keys deleted\n") {
		t.Errorf("delete = %+v", o)
	}
	s.put(name, "a", "x")
}

func TestQueueBadInput(t *testing.T) {
	t.Parallel()
	nowhere := shell{t, "unix:///nonexistent/redis.sock"} // what is wrong is found before Redis is
	long := strings.Repeat("x", 513)
	for args, code := range map[string]string{
		"queue write Q --tenant t --priority 5":                 "bad_argument",
		"queue write Q --tenant t --priority high":              "bad_usage",
		"queue write Q --batch --priority 1":                    "bad_usage",
		"queue weight Q t 0":                                    "bad_argument",
		"queue weight Q t 101":                                  "bad_argument",
		"queue weight Q t NaN":                                  "bad_argument",
		"queue weight Q t":                                      "bad_usage",
		"queue dead keep Q --most -1":                           "bad_argument",
		"queue dead keep Q --age -1s":                           "bad_argument",
		"queue write Q":                                         "bad_usage",
		"queue write Q --tenant=":                               "bad_usage",
		"queue write Q --tenant " + long:                        "bad_argument",
		"queue write Q --tenant t --dedupe " + long:             "bad_argument",
		"queue write Q --tenant t --delay soon":                 "bad_usage",
		"queue write Q --tenant t --delay -1s":                  "bad_argument",
		"queue write Q --tenant t --deadline 1us":               "bad_argument",
		"queue write Q --tenant t --header k":                   "bad_usage",
		"queue write Q --tenant t --header =v":                  "bad_usage",
		"queue write Q --tenant t --header k=v --header k=w":    "bad_usage",
		`queue write Q --tenant t --header k={"base64":"/w=="}`: "bad_argument",
		`queue write Q --tenant t --header k={"base64":"no"}`:   "bad_argument",
		`queue write Q --tenant t --body {"base64":"no"}`:       "bad_argument",
		"queue write Q --tenant t --streams 1025":               "bad_argument",
		"queue write Q --tenant t --per-tenant -1":              "bad_argument",
		"queue write Q --batch --tenant t":                      "bad_usage",
		"queue write Q --batch --body=":                         "bad_usage",
		"queue write Q --batch --streams -1":                    "bad_argument",
		"queue write a{b --tenant t":                            "bad_name",
		"queue write " + long + " --batch":                      "bad_name",
		"queue read Q --consumer c":                             "bad_usage",
		"queue read Q --max 0":                                  "bad_argument",
		"queue read Q --max 1001":                               "bad_argument",
		"queue read Q --block -1s":                              "bad_argument",
		"queue read Q --visibility 9ms":                         "bad_argument",
		"queue read Q --visibility 13h":                         "bad_argument",
		"queue read a}":                                         "bad_name",
		"queue ack Q":                                           "bad_usage",
		"queue ack a} 1:1-1":                                    "bad_name",
		"queue nack Q 1:1-1 --delay -1s":                        "bad_argument",
		"queue nack Q 1:1-1 --delay 1s --dead":                  "bad_usage",
		"queue extend Q 1:1-1":                                  "bad_usage",
		"queue extend Q 1:1-1 soon":                             "bad_usage",
		"queue extend Q 1:1-1 -1s":                              "bad_argument",
		"queue cancel Q":                                        "bad_usage",
		"queue resize Q -- -1":                                  "bad_argument",
		"queue resize Q 0 --per-tenant 1":                       "bad_argument",
		"queue resize Q 1025":                                   "bad_argument",
		"queue resize Q 4 --per-tenant 5":                       "bad_argument",
		"queue dead redrive Q":                                  "bad_usage",
		"queue dead purge Q 1795226400000000 --all":             "bad_usage",
		"queue stats " + long:                                   "bad_name",
	} {
		if f := nowhere.refused(2, code, strings.Fields(args)...); f.Error == "" || f.Hint == "" {
			t.Errorf("millrace %s: error %q, hint %q, want both", args, f.Error, f.Hint)
		}
	}
	nowhere.refused(1, "unreachable", "queue", "write", "Q", "--tenant", "t", "--body", "x")
	for _, args := range []string{"ack Q x", "nack Q 1795226400000000", "extend Q x 1m", "cancel Q 1:1-1", "dead redrive Q x", "dead purge Q x"} {
		sharedShell(t).refused(2, "bad_argument", strings.Fields("queue "+args)...)
	}
}
