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

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
)

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
		`{"tenant":"a","cost":"1"}`:                                  `cost is a whole number, and not a JSON string`,
		`{"tenant":"a","cost":-1}`:                                   `a cost is from 1 to 1,000,000, not -1`,
		`{"tenant":"a","priority":5}`:                                `a priority is from -4 to 4, not 5`,
		`{"tenant":"a","delay":5}`:                                   `delay is a duration in quotes, such as "10m", and not a JSON number`,
		`{"tenant":"a","delay":"5"}`:                                 `"5" is not a duration such as 500ms or 10m`,
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
	s, client := shell{t: t, url: server.URL()}, server.Client(t)
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
	waiting := answer[ops.QueueStats](s, "queue", "stats", "q").Waiting
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
// interrupted before its answer is there, and returns its error.
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
	through := shell{t: s.t, url: proxy.URL()}
	code := run(ctx, append([]string{"--json"}, args...), through.env, strings.NewReader(stdin), &stdout, &stderr)
	var f failure
	if err := json.Unmarshal(stderr.Bytes(), &f); err != nil || code != 1 || stdout.Len() > 0 || f.Code != "interrupted" {
		s.t.Fatalf("millrace %s exits with %d, prints %q and says %q, want an interrupt", strings.Join(args, " "), code, &stdout, &stderr)
	}
	return f
}

// TestQueueWriteInDoubt: a write whose answer was lost.
func TestQueueWriteInDoubt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := shell{t: t, url: server.URL()}
	s.put("q", "a", "so that the server knows the script")

	f := s.cutShort(server, 1, "", "queue", "write", "q", "--tenant", "a", "--body", "x")
	if !strings.HasPrefix(f.Error, "the message may be written: ") || !strings.Contains(f.Hint, "dedupe") {
		t.Errorf("write without an answer: %+v, want it to say that it may be written", f)
	}
	redistest.Eventually(t, "it is written", func() bool {
		return answer[ops.QueueStats](s, "queue", "stats", "q").Waiting == 2
	})
	f = s.cutShort(server, 1, "", "queue", "write", "q", "--tenant", "a", "--body", "x", "--dedupe", "17")
	if !strings.HasPrefix(f.Hint, "Write again within 5 minutes") {
		t.Errorf("write with a dedupe id and no answer: %+v, want the hint to write again", f)
	}
	redistest.Eventually(t, "it is written", func() bool {
		return answer[ops.QueueStats](s, "queue", "stats", "q").Waiting == 3
	})
	if again := answer[writtenDoc](s, "queue", "write", "q", "--tenant", "a", "--body", "x", "--dedupe", "17"); !again.Duplicate {
		t.Errorf("write again = %+v, want a duplicate", again)
	}
	f = s.cutShort(server, 2, lines(2500), "queue", "write", "q", "--batch")
	if want := "100 of 2500 messages are written, and perhaps the next ones up to 100: "; !strings.HasPrefix(f.Error, want) {
		t.Errorf("write of lines without the second answer: %+v, want it to begin with %q", f, want)
	}
}

// TestQueueInterruptedInput: a command is interrupted while it waits for standard input.
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
