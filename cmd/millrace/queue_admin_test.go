package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
)

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
	if !answer[ops.QueueStats](s, "queue", "stats", name).Paused {
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
	listed := answer[struct{ Dead []ops.DeadMessage }](s, "queue", "dead", "ls", name).Dead
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
	s.refused(1, "declined", "queue", "dead", "purge", name, "--all")
	s.want("1 message purged\n", "queue", "dead", "purge", name, "--all", "--yes")
	s.want("0 messages purged\n", "queue", "dead", "purge", name, "--all")
	s.want(`{"dead":[],"looked":0,"total":0,"next":""}`+"\n", "queue", "dead", name, "--json")
}

// TestQueueDeadMatching redrives and purges messages by their content, after a look.
func TestQueueDeadMatching(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.written(`{"tenant":"a","body":"1"}`+"\n"+`{"tenant":"b","body":"2"}`+"\n"+`{"tenant":"a","body":"3"}`, name)
	for _, m := range s.take(name, "--max", "9").Messages {
		reason := map[bool]string{true: "card expired", false: "no address"}[string(m.Tenant) == `"a"`]
		s.want(`{"nacked":true}`+"\n", "queue", "nack", name, m.Receipt, "--dead", "--reason", reason, "--json")
	}
	for _, args := range [][]string{nil, {"17", "--all"}, {"--all", "--tenant", "a"}, {"17", "--text", "x"}, {"17", "--dry-run"}} {
		s.refused(2, "bad_usage", append([]string{"queue", "dead", "redrive", name}, args...)...)
	}
	if listed := answer[struct{ Dead []ops.DeadMessage }](s, "queue", "dead", "ls", name, "--reason", "no address").Dead; len(listed) != 1 || listed[0].Tenant != "b" {
		t.Errorf("of that reason: %+v", listed)
	}
	dry := answer[ops.DeadGroups](s, "queue", "dead", "redrive", name, "--all", "--dry-run")
	if len(dry.Groups) != 2 || dry.Groups[0].Count != 2 || dry.Looked != 3 || dry.Total != 3 {
		t.Errorf("a dry run counts %+v", dry)
	}
	if got := s.run("queue", "dead", "purge", name, "--tenant", "a", "--dry-run").stdout; !strings.Contains(got, "matching: 2 dead messages") || !strings.Contains(got, "card expired") {
		t.Errorf("printed\n%s", got)
	}
	s.wantSizes(name, 0, 0, 0, 3)
	s.want(`{"redriven":1}`+"\n", "queue", "dead", "redrive", name, "--text", "1", "--json")
	if got := s.run("queue", "dead", "purge", name, "--tenant", "a"); got.code != 1 || !strings.Contains(got.stderr, "Purge 1 dead message of "+name+"?") {
		t.Errorf("it asks %+v", got)
	}
	s.want(`{"purged":1}`+"\n", "queue", "dead", "purge", name, "--reason", "card expired", "--yes", "--json")
	s.wantSizes(name, 1, 0, 0, 1)
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
			s.want("given back\n", "queue", "nack", name, m.Receipt, "--delay", "0s")
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
	for _, f := range answer[ops.QueueStats](s, "queue", "stats", name).Flows {
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

// TestQueuePosition: each position of a source is written once, and can be looked at and set.
func TestQueuePosition(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want(`{"source":"s","position":0}`+"\n", "queue", "position", name, "s", "--json")
	at := func(position string) []string {
		return []string{"queue", "write", name, "--tenant", "a", "--body", "x", "--source", "s", "--position", position}
	}
	s.written(`{"tenant":"a","source":"s","position":1}`+"\n"+`{"tenant":"b","source":"s","position":2}`, name)
	s.want("position 2 of s was written before\n", at("2")...)
	s.want(`{"id":"","duplicate":true}`+"\n", append(at("1"), "--json")...)
	s.refused(1, "position_gap", at("4")...)
	s.want("2\n", "queue", "position", name, "s")
	s.want("s 2\n", "queue", "position", name)
	s.want("s goes on behind 9\n", "queue", "position", name, "s", "--set", "9")
	s.want(`{"source":"s","position":9}`+"\n", "queue", "position", name, "s", "--json")
	for _, wrong := range [][]string{at("0"), append(at("1"), "--dedupe", "x"), {"queue", "write", name, "--tenant", "a", "--body", "x", "--position", "1"}} {
		s.refused(2, "bad_argument", wrong...)
	}
	s.refused(2, "bad_argument", "queue", "position", name, "s", "--set=-1")
}

// A tenant of weight 3 has three turns for each one of others, and a message of a higher
// priority goes before the tenant's others.
func TestQueueTurns(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("a: weight 3\n", "queue", "tenant", "set", name, "a", "--weight", "3") // creates the queue
	s.put(name, "b", "0")
	var lines strings.Builder
	for i := range 6 {
		fmt.Fprintf(&lines, `{"tenant":"a","body":"%d"}`+"\n"+`{"tenant":"b","body":"%d"}`+"\n", i, i)
	}
	fmt.Fprintln(&lines, `{"tenant":"a","body":"urgent","priority":4}`)
	s.written(lines.String(), name)
	s.run("queue", "write", name, "--tenant", "a", "--body", "late", "--priority", "-4", "--cost", "350")
	late := answer[struct{ Messages []ops.BrowsedMessage }](s, "queue", "browse", name, "--text", "late").Messages
	if len(late) != 1 || late[0].Cost != 350 {
		t.Errorf("browse shows %+v, want one message with the cost 350", late)
	}
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
	doc := answer[ops.QueueStats](s, "queue", "stats", name)
	if doc.Capacity != 7 || len(doc.Readers) != 1 || doc.Readers[0].Name != "worker-1" || doc.Readers[0].Concurrency != 7 {
		t.Errorf("capacity %d, readers %+v, want 7 handlers of worker-1", doc.Capacity, doc.Readers)
	}
	printed := s.run("queue", "stats", name).stdout
	if got := masked(printed); !strings.Contains(got, "\nREADER HOST HANDLERS IN FLIGHT LAST SEEN\nworker-1 ") || !strings.Contains(got, "\nall 7\n") {
		t.Errorf("stats prints\n%s, want the reader", printed)
	}
	stop()
	<-done
	if readers := answer[ops.QueueStats](s, "queue", "stats", name).Readers; len(readers) != 0 {
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
	s.want(`{"most":10000,"age_ms":7776000000}`+"\n", "queue", "dead", "keep", name, "--json")
	s.want(`{"most":1,"age_ms":0}`+"\n", "queue", "dead", "keep", name, "--most", "1", "--age", "0", "--json")
	for range 2 {
		s.run("queue", "nack", name, s.takeOne(name).Receipt, "--dead")
	}
	dead := answer[struct{ Dead []ops.DeadMessage }](s, "queue", "dead", name).Dead
	if dropped := answer[ops.QueueStats](s, "queue", "stats", name).Counters.Dropped; len(dead) != 1 || dead[0].Body != "2" || dropped != 1 {
		t.Errorf("dead = %+v, %d dropped, want the last one, and one dropped", dead, dropped)
	}
}

func TestQueueLs(t *testing.T) {
	t.Parallel()
	s := shell{t: t, url: redistest.Start(t, redistest.Options{}).URL()}
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
	s, client := shell{t: t, url: server.URL()}, server.Client(t)
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
	if !strings.Contains(f.Hint, "millrace queue rm") {
		t.Errorf("broken: %+v, want the command that removes it", f)
	}
	if o := s.run("queue", "rm", name, "--yes"); o.code != 0 || !strings.HasSuffix(o.stdout, " keys deleted\n") {
		t.Errorf("delete = %+v", o)
	}
	s.put(name, "a", "x")
}

func TestQueueBadInput(t *testing.T) {
	t.Parallel()
	nowhere := shell{t: t, url: "unix:///nonexistent/redis.sock"} // faults of the command line are found before Redis is asked
	long := strings.Repeat("x", 513)
	for args, code := range map[string]string{
		"queue write Q --tenant t --priority 5":                 "bad_argument",
		"queue write Q --tenant t --priority high":              "bad_usage",
		"queue write Q --batch --priority 1":                    "bad_usage",
		"queue write Q --tenant t --cost 1000001":               "bad_argument",
		"queue write Q --batch --cost 2":                        "bad_usage",
		"queue tenants Q --most -1":                             "bad_argument",
		"queue tenants Q --sort size":                           "bad_usage",
		"queue tenant set Q t":                                  "bad_usage",
		"queue tenant set Q --rate 1/s":                         "bad_usage",
		"queue tenant set Q t --default --rate 1/s":             "bad_usage",
		"queue tenant set Q t --rate 1/y":                       "bad_usage",
		"queue tenant clear Q":                                  "bad_usage",
		"queue tenant pause Q":                                  "bad_usage",
		"queue tenant resume Q":                                 "bad_usage",
		"queue tenant purge Q --yes":                            "bad_usage",
		"queue dead keep Q --most -1":                           "bad_argument",
		"queue dead after Q --attempts -1":                      "bad_argument",
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

// TestQueueFailures shows which tenants fail and why, and retries messages before their time.
func TestQueueFailures(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.written(`{"tenant":"it's","body":"1"}`+"\n"+`{"tenant":"b","body":"2"}`+"\n"+`{"tenant":"it's","body":"3"}`, name)
	s.want("no tenant failed in the last hour\n", "queue", "failures", name)
	var ids []string
	for i, m := range s.take(name, "--max", "9").Messages {
		ids = append(ids, m.ID)
		s.want(`{"nacked":true}`+"\n", "queue", "nack", name, m.Receipt, "--delay", "1h", "--reason", "no order "+strconv.Itoa(17+i), "--json")
	}
	doc := answer[ops.Failures](s, "queue", "failures", name)
	if len(doc.Tenants) != 2 || doc.Tenants[0].Tenant != "it's" || doc.Tenants[0].Failed != 2 || doc.Tenants[0].Retrying != 2 {
		t.Errorf("tenants %+v", doc.Tenants)
	}
	if len(doc.Retries) != 1 || doc.Retries[0].Count != 3 || doc.Retries[0].Reason != "no order #" || doc.Retries[0].Tenant != "" {
		t.Errorf("retries %+v", doc.Retries)
	}
	shown := s.run("queue", "failures", name).stdout
	for _, part := range []string{"it's", "several", "queue tenant pause " + name + ` 'it'\''s'`, "queue retry " + name + " --reason 'no order #'"} {
		if !strings.Contains(shown, part) {
			t.Errorf("%q is not in\n%s", part, shown)
		}
	}
	if got := s.run("queue", "show", name, ids[0]).stdout; !strings.Contains(got, "delayed until") || !strings.Contains(got, "\nfailed ") {
		t.Errorf("the message is shown as\n%s", got)
	}
	for _, args := range [][]string{nil, {ids[0], "--all"}, {ids[0], "--dry-run"}} {
		s.refused(2, "bad_usage", append([]string{"queue", "retry", name}, args...)...)
	}
	if got := s.run("queue", "retry", name, "--tenant", "it's", "--dry-run").stdout; !strings.HasPrefix(got, "matching: 2 retries\n") {
		t.Errorf("a dry run prints\n%s", got)
	}
	s.wantSizes(name, 0, 0, 3, 0)
	s.want("1 message will be tried now\n", "queue", "retry", name, ids[0])
	s.want(`{"retried":2}`+"\n", "queue", "retry", name, "--reason", "no order #", "--json")
	s.want(`{"retried":0}`+"\n", "queue", "retry", name, "--all", "--json")
	s.wantSizes(name, 3, 0, 0, 0)
}
