package main

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/test/redistest"
)

// grantDoc is the document of lease acquire.
type grantDoc struct {
	Token    string
	Fence    int64
	Deadline int64 `json:"deadline_ms"`
}

// shownDoc is the document of lease show.
type shownDoc struct {
	Held      bool
	Token     string
	Fence     int64
	Deadline  int64 `json:"deadline_ms"`
	Remaining int64 `json:"remaining_ms"`
	Metadata  json.RawMessage
}

// storedDeadline is the deadline in Redis.
func storedDeadline(t *testing.T, name string) int64 {
	t.Helper()
	client := redistest.Shared(t).Client(t)
	text, err := client.Do(t.Context(), client.B().Get().Key("mr:lease:{"+name+"}").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.Fields(text)[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLeaseRound(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want(`{"held":false,"fence":0}`+"\n", "--json", "lease", "show", name)
	before := time.Now()
	first := answer[grantDoc](s, "lease", "acquire", name, "--ttl", "1h", "--metadata", "host a, job 7")
	if first.Token == "" || first.Fence <= 0 || first.Fence >= 1<<53 {
		t.Errorf("acquire = %+v, want a token, and a fence below 2^53", first)
	}
	if got, want := first.Deadline, storedDeadline(t, name); got != want {
		t.Errorf("deadline = %d, want %d as stored", got, want)
	}
	if left := time.UnixMilli(first.Deadline).Sub(before); left < time.Hour-time.Second || left > time.Hour+time.Minute {
		t.Errorf("deadline in %s, want about an hour", left)
	}

	f := s.refused(1, "held", "lease", "acquire", name, "--ttl", "1h")
	if !strings.Contains(f.Error, "for another 59m") || !strings.Contains(f.Error, `by "host a, job 7"`) || !strings.Contains(f.Hint, "--wait") {
		t.Errorf("held: %+v, want for how long and by whom, and the flag to wait with", f)
	}
	shown := answer[shownDoc](s, "lease", "show", name)
	if !shown.Held || shown.Token != first.Token || shown.Fence != first.Fence || shown.Deadline != first.Deadline ||
		shown.Remaining <= 0 || shown.Remaining > time.Hour.Milliseconds() || string(shown.Metadata) != `"host a, job 7"` {
		t.Errorf("show = %+v, want what acquire said: %+v", shown, first)
	}

	again := answer[grantDoc](s, "lease", "refresh", name, "--token", first.Token, "--ttl", "2h")
	if again.Fence != first.Fence || again.Deadline <= first.Deadline || again.Deadline != storedDeadline(t, name) {
		t.Errorf("refresh = %+v after %+v, want a later deadline, as stored", again, first)
	}
	shorter := answer[grantDoc](s, "lease", "refresh", name, "--token", first.Token, "--ttl", "1s")
	if shorter != again {
		t.Errorf("refresh for less = %+v, want %+v still", shorter, again)
	}

	for range 2 { // as after a lost answer
		s.want(`{"released":true}`+"\n", "--json", "lease", "release", name, "--token", first.Token)
	}
	s.want(`{"held":false,"fence":`+strconv.FormatInt(first.Fence, 10)+"}\n", "--json", "lease", "show", name)
	s.refused(1, "lost", "lease", "refresh", name, "--token", first.Token, "--ttl", "1h")
	if second := answer[grantDoc](s, "lease", "acquire", name, "--ttl", "1h"); second.Fence <= first.Fence || second.Token == first.Token {
		t.Errorf("acquire after the release = %+v, want another token and a fence above %d", second, first.Fence)
	}
}

func TestLeaseTables(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("free; no fence is known\n", "lease", "show", name)

	printed := s.run("lease", "acquire", name, "--ttl", "90m").stdout
	shown := answer[shownDoc](s, "lease", "show", name)
	fence, deadline := strconv.FormatInt(shown.Fence, 10), time.UnixMilli(shown.Deadline).Local().Format(time.DateTime)
	want := "held for 1h30m0s, until " + deadline + `

TOKEN                       FENCE
` + shown.Token + "  " + fence + "\n"
	if printed != want {
		t.Errorf("acquire prints\n%swant\n%s", printed, want)
	}

	printed = s.run("lease", "show", name).stdout
	_, printed, _ = strings.Cut(printed, ", ") // for how long is of the moment
	want = "until " + deadline + `

TOKEN                       FENCE             METADATA
` + shown.Token + "  " + fence + "  -\n"
	if printed != want {
		t.Errorf("show prints\n%swant\n%s", printed, want)
	}

	printed = s.run("lease", "refresh", name, "--token", shown.Token, "--ttl", "3h").stdout
	deadline = time.UnixMilli(storedDeadline(t, name)).Local().Format(time.DateTime)
	if want := "held for 3h0m0s, until " + deadline + "\n"; printed != want {
		t.Errorf("refresh prints %q, want %q", printed, want)
	}
	s.want("released\n", "lease", "release", name, "--token", shown.Token)
	s.want("free; the last fence was "+fence+"\n", "lease", "show", name)
}

func TestLeaseWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := shell{t: t, url: server.URL()}
	first := answer[grantDoc](s, "lease", "acquire", "x", "--ttl", "1h")

	began := time.Now()
	s.refused(1, "held", "lease", "acquire", "x", "--ttl", "1h", "--wait", "30ms")
	if waited := time.Since(began); waited < 30*time.Millisecond {
		t.Errorf("gave up after %s, want no less than 30ms", waited)
	}

	got := make(chan outcome, 1)
	go func() { got <- s.run("--json", "lease", "acquire", "x", "--ttl", "1h", "--wait", "1m") }()
	awaitWaiter(t, server)
	s.want("released\n", "lease", "release", "x", "--token", first.Token)
	var second grantDoc
	if o := <-got; o.code != 0 || json.Unmarshal([]byte(o.stdout), &second) != nil || second.Fence <= first.Fence {
		t.Errorf("acquire after a wait = %+v, want the lease with a fence above %d", o, first.Fence)
	}
	s.want("released\n", "lease", "release", "x", "--token", second.Token)
}

// awaitWaiter waits until a command waits for a lease.
func awaitWaiter(t *testing.T, server *redistest.Server) {
	t.Helper()
	client := server.Client(t)
	redistest.Eventually(t, "a command waits", func() bool {
		list, err := client.Do(t.Context(), client.B().ClientList().Build()).ToString()
		return err == nil && strings.Contains(list, "cmd=blpop")
	})
}

func TestLeaseTakenOver(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	var stale grantDoc
	redistest.Eventually(t, "a lease is held for a moment", func() bool { // on a busy machine it may be over before its answer
		got := s.run("lease", "acquire", name, "--ttl", "200ms", "--wait", "1m", "--json")
		return got.code == 0 && json.Unmarshal([]byte(got.stdout), &stale) == nil
	})
	next := answer[grantDoc](s, "lease", "acquire", name, "--ttl", "1h", "--wait", "1m")
	if next.Fence <= stale.Fence {
		t.Errorf("fence = %d after %d, want a larger one", next.Fence, stale.Fence)
	}
	if early := time.UnixMilli(stale.Deadline).Add(time.Hour).UnixMilli() - next.Deadline; early > 0 {
		t.Errorf("taken over %d ms before the deadline", early)
	}
	s.refused(1, "lost", "lease", "refresh", name, "--token", stale.Token, "--ttl", "1h")
	s.refused(1, "lost", "lease", "release", name, "--token", stale.Token)
	if shown := answer[shownDoc](s, "lease", "show", name); shown.Token != next.Token || shown.Deadline != next.Deadline {
		t.Errorf("show = %+v, want the next holder untouched: %+v", shown, next)
	}
}

func TestLeaseEvictable(t *testing.T) {
	t.Parallel()
	s := shell{t: t, url: redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "allkeys-lru"}).URL()}
	f := s.refused(1, "evictable", "lease", "acquire", "x", "--ttl", "1h")
	if !strings.Contains(f.Error, "allkeys-lru") || !strings.Contains(f.Hint, "--allow-evictable") {
		t.Errorf("evictable: %+v, want the policy, and the flag that accepts it", f)
	}
	s.want(`{"held":false,"fence":0}`+"\n", "--json", "lease", "show", "x")
	held := answer[grantDoc](s, "lease", "acquire", "x", "--ttl", "1h", "--allow-evictable")
	s.want("released\n", "lease", "release", "x", "--token", held.Token)
}

func TestLeaseOfBytes(t *testing.T) {
	t.Parallel()
	s := sharedShell(t)
	name := redistest.Name(t) + "\xff"
	held := answer[grantDoc](s, "lease", "acquire", jsontype.Text(name).String(), "--ttl", "1h", "--metadata", `{"base64":"//4="}`)
	shown := answer[shownDoc](s, "lease", "show", name)
	if got, want := string(shown.Metadata), `{"base64":"//4="}`; got != want || shown.Token != held.Token {
		t.Errorf("show = %+v, want metadata %s", shown, want)
	}
	if table := s.run("lease", "show", name).stdout; !strings.Contains(table, `{"base64":"//4="}`) {
		t.Errorf("show prints\n%swant the metadata in base64", table)
	}
	s.want("released\n", "lease", "release", jsontype.Text(name).String(), "--token", held.Token)
}

func TestLeaseBadInput(t *testing.T) {
	t.Parallel()
	nowhere := shell{t: t, url: "unix:///nonexistent/redis.sock"} // faults of the command line are found before Redis is asked
	long := strings.Repeat("x", 513)
	for args, code := range map[string]string{
		"lease acquire K":                                    "bad_usage",
		"lease acquire K --ttl soon":                         "bad_usage",
		"lease acquire K --ttl 5ms":                          "bad_argument",
		"lease acquire K --ttl -1s":                          "bad_argument",
		"lease acquire K --ttl 9000h":                        "bad_argument",
		"lease acquire K --ttl 1s --wait -1s":                "bad_argument",
		"lease acquire a{b --ttl 1s":                         "bad_name",
		"lease acquire " + long + " --ttl 1s":                "bad_name",
		"lease refresh K --ttl 1s":                           "bad_usage",
		"lease refresh K --token t":                          "bad_usage",
		"lease refresh K --token t --ttl 0s":                 "bad_argument",
		"lease refresh K --token= --ttl 1s":                  "bad_argument",
		"lease refresh a} --token t --ttl 1s":                "bad_name",
		"lease release K":                                    "bad_usage",
		"lease release K --token " + long:                    "bad_argument",
		"lease release K --token " + `{"base64":"not"}`:      "bad_argument",
		"lease release " + `{"base64":"AA=="} --token token`: "bad_name",
		"lease show " + long:                                 "bad_name",
	} {
		if f := nowhere.refused(2, code, strings.Fields(args)...); f.Error == "" || f.Hint == "" {
			t.Errorf("millrace %s: error %q, hint %q, want both", args, f.Error, f.Hint)
		}
	}
	sharedShell(t).refused(2, "bad_argument", "lease", "acquire", "K", "--ttl", "1s", "--metadata", strings.Repeat("x", 4097))
}

// interrupted runs a command that ctx ends, and checks its output.
func (s shell) interrupted(ctx context.Context, args ...string) {
	s.t.Helper()
	var stdout, stderr strings.Builder
	code := run(ctx, append([]string{"--json"}, args...), s.env, strings.NewReader(""), &stdout, &stderr)
	want := outcome{1, "", `{"error":"interrupted","code":"interrupted","hint":""}` + "\n"}
	if got := (outcome{code, stdout.String(), stderr.String()}); got != want {
		s.t.Errorf("millrace %s = %+v, want %+v", strings.Join(args, " "), got, want)
	}
}

func TestLeaseInterruptedWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := shell{t: t, url: server.URL()}
	held := answer[grantDoc](s, "lease", "acquire", "x", "--ttl", "1h")
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.interrupted(ctx, "lease", "acquire", "x", "--ttl", "1h", "--wait", "1h")
	}()
	awaitWaiter(t, server)
	interrupt()
	<-done
	if shown := answer[shownDoc](s, "lease", "show", "x"); shown.Token != held.Token {
		t.Errorf("show = %+v, want the holder untouched: %+v", shown, held)
	}
}

// TestLeaseOfNobody: an acquire whose token was never printed holds nothing.
func TestLeaseOfNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := shell{t: t, url: server.URL()}
	free := func(after string, fence int64) int64 {
		t.Helper()
		shown := answer[shownDoc](s, "lease", "show", "x")
		if shown.Held || shown.Fence <= fence {
			t.Errorf("%s: show = %+v, want it acquired after fence %d, and given back", after, shown, fence)
		}
		return shown.Fence
	}
	first := answer[grantDoc](s, "lease", "acquire", "x", "--ttl", "1h") // so that the server knows the script
	s.want("released\n", "lease", "release", "x", "--token", first.Token)

	proxy := redistest.NewProxy(t, server.Addr())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	proxy.DropReply(func(cmd []string) bool {
		found := redistest.Named("EVALSHA")(cmd)
		if found {
			interrupt()
		}
		return found
	})
	shell{t: t, url: proxy.URL()}.interrupted(ctx, "lease", "acquire", "x", "--ttl", "1h")
	fence := free("interrupted while asking", first.Fence)

	a := &app{env: s.env, stdout: full{}, stderr: io.Discard}
	if code := a.run(t.Context(), []string{"lease", "acquire", "x", "--ttl", "1h", "--json"}); code != 1 {
		t.Errorf("acquire without a place to write exits with %d, want 1", code)
	}
	free("not printed", fence)
}

// TestLeaseOfSilentServer: the server takes the release and does not answer.
func TestLeaseOfSilentServer(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	proxy.DropRequest(func(cmd []string) bool {
		if redistest.Named("EVALSHA")(cmd) {
			proxy.Delay(time.Minute)
		}
		return false
	})
	began := time.Now()
	shell{t: t, url: proxy.URL()}.refused(1, "unreachable", "lease", "release", redistest.Name(t), "--token", "t")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("gave up after %s, want about a second", took)
	}
}
