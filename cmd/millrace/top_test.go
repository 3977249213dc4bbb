package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
)

// terminal is a real terminal of tmux, with a server of its own.
type terminal struct {
	t   *testing.T
	dir string // of the server's socket
}

// colours are those of letters, but for the default.
var colours = regexp.MustCompile(`\x1b\[(\d+;)*3[0-8]`)

// screenTimeout is how long a text may take to be on the screen.
const screenTimeout = 60 * time.Second

// startTerminal runs a command of millrace in a terminal of 80 x 24, and keeps the terminal
// when it has ended.
func startTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatalf("%v: internal/repo/scripts/test-deps installs it", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "mr") // that of the test may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t, dir}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", term.socket(), "kill-server").Run() // it has ended if the test went well
		_ = os.RemoveAll(dir)
	})
	line := append([]string{"env", asCommand + "=1"}, env...)
	line = append(line, self)
	line = append(line, args...)
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", strings.Join(line, " ")+"; echo ended with $?; read line")
	return term
}

func (term *terminal) socket() string { return filepath.Join(term.dir, "s") }

// tmux runs a command of tmux and returns its output.
func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", term.socket()}, args...)...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// keys presses keys, by their names in tmux.
func (term *terminal) keys(names ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys"}, names...)...)
}

// await waits until the screen is as it should be, and returns it.
func (term *terminal) await(what string, cond func(screen string) bool) string {
	term.t.Helper()
	for end := time.Now().Add(screenTimeout); ; {
		screen := term.tmux("capture-pane", "-p")
		if cond(screen) {
			return screen
		}
		if time.Now().After(end) {
			term.t.Fatalf("the screen does not come to have %s:\n%s", what, screen)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// want waits until all these texts are on the screen.
func (term *terminal) want(texts ...string) {
	term.t.Helper()
	term.await(strings.Join(texts, ", "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// wantGone waits until a text is not on the screen.
func (term *terminal) wantGone(text string) {
	term.t.Helper()
	term.await("no "+text, func(screen string) bool { return !strings.Contains(screen, text) })
}

// flooded returns a Redis with a queue that acme floods, and another one.
func flooded(t *testing.T) (*redistest.Server, *fairqueue.Queue) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	write := func(name string, tenants ...string) *fairqueue.Queue {
		q, err := fairqueue.New(server.Client(t), name, fairqueue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tenant := range tenants {
			if _, err := q.Write(t.Context(), fairqueue.Draft{Tenant: tenant, Body: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		return q
	}
	write("mails", "zoe")
	return server, write("orders", "acme", "acme", "acme", "acme", "acme", "bolt")
}

// TestTop works at a terminal: it sorts, filters, opens, pauses, resumes, resizes, and stops
// Redis for a while. The audit log has its changes.
func TestTop(t *testing.T) {
	t.Parallel()
	server, q := flooded(t)
	term := startTerminal(t, nil, "top", "--interval", "500ms", "--redis", server.URL())

	term.want("orders ", "mails ", "WAITING↓", "Redis", "every 500ms")
	term.keys("s")
	term.want("IN FLIGHT↓")
	term.keys("S", "S", "i")
	term.want("QUEUE↓")
	term.keys("i", "s")
	term.want("WAITING↓")

	term.keys("/", "m", "a", "i")
	term.want("filter: mai")
	term.wantGone("orders ")
	term.keys("Enter", "/", "Escape")
	term.want("orders ", "mails ")

	term.keys("Home", "Enter")
	term.want("queue orders (busy): 6 waiting", "acme ", "bolt ")
	term.keys("p")
	term.want("Pause acme of queue orders? [y/N]")
	term.keys("n")
	term.want("nothing was changed")
	wantTenant(t, q, "acme", false)
	term.keys("p")
	term.want("[y/N]")
	term.keys("y")
	term.want("acme of queue orders is paused", " paused")
	wantTenant(t, q, "acme", true)
	term.keys("Enter")
	term.want("limits ", "state       paused")
	term.keys("r")
	term.want("Resume acme of queue orders? [y/N]")
	term.keys("y")
	term.want("acme of queue orders goes on", "state       ready")
	wantTenant(t, q, "acme", false)

	term.keys("Escape")
	term.want("HANDLING")
	term.keys("Escape")
	term.want("QUEUE")
	term.keys("p")
	term.want("Pause queue orders? [y/N]")
	term.keys("y")
	term.want("queue orders is paused", "! queue orders is paused, and 6 messages wait")
	wantPaused(t, q, true)
	if screen := term.tmux("capture-pane", "-p", "-e"); !colours.MatchString(screen) {
		t.Errorf("the screen has no colours: %q", screen)
	}
	term.keys("r")
	term.want("Resume queue orders? [y/N]")
	term.keys("y")
	term.want("queue orders goes on")
	wantPaused(t, q, false)

	term.tmux("resize-window", "-x", "200", "-y", "50")
	term.want("DELAYED", "HANDLERS")
	term.tmux("resize-window", "-x", "80", "-y", "24")
	term.wantGone("DELAYED")

	server.Pause()
	term.want("no answer for ", "orders ")
	term.keys("?") // the screen does not wait for Redis
	term.want("Any key closes this.")
	term.keys("x")
	term.wantGone("Any key closes this.")
	server.Resume()
	term.wantGone("no answer for ")
	term.want("millrace top · Redis")

	term.keys("q")
	term.want("ended with 0")

	var noted []string
	for _, e := range (shell{t: t, url: server.URL()}).auditLog() {
		noted = append(noted, strings.TrimSpace(e.Action+" "+e.Way+" "+e.Name+": "+e.Result+" "+e.Error))
	}
	want := []string{
		"queue.resume command orders: millrace top: queue orders goes on", "queue.pause command orders: millrace top: queue orders is paused",
		"tenant.resume command orders: millrace top: acme of queue orders goes on", "tenant.pause command orders: millrace top: acme of queue orders is paused",
	}
	if !slices.Equal(noted, want) {
		t.Errorf("the audit log has %q, want %q", noted, want)
	}
}

// TestTopReadOnly asks for an action that a read-only view refuses, and for no colours.
func TestTopReadOnly(t *testing.T) {
	t.Parallel()
	server, q := flooded(t)
	if err := q.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	term := startTerminal(t, []string{"NO_COLOR=1"}, "top", "--read-only", "--redis", server.URL())
	term.want("! queue orders is paused", "read-only")
	term.keys("r")
	term.want("refused: this view is read-only")
	wantPaused(t, q, true)
	if screen := term.tmux("capture-pane", "-p", "-e"); colours.MatchString(screen) {
		t.Errorf("with NO_COLOR the screen has colours: %q", screen)
	}
	term.keys("q")
	term.want("ended with 0")
}

// wantTenant fails the test unless the tenant is paused, or is not.
func wantTenant(t *testing.T, q *fairqueue.Queue, tenant string, paused bool) {
	t.Helper()
	s, err := q.Stats(t.Context())
	i := slices.IndexFunc(s.Flows, func(f queuestats.Flow) bool { return f.Tenant == tenant })
	if i < 0 || s.Flows[i].Paused != paused {
		t.Errorf("%s in %+v, %v; want paused %v", tenant, s.Flows, err, paused)
	}
}

func wantPaused(t *testing.T, q *fairqueue.Queue, paused bool) {
	t.Helper()
	if s, err := q.Stats(t.Context()); err != nil || s.Paused != paused {
		t.Errorf("the queue is paused: %v, %v; want %v", s.Paused, err, paused)
	}
}

// TestTopNeedsATerminal has no terminal.
func TestTopNeedsATerminal(t *testing.T) {
	t.Parallel()
	s := shell{t: t, url: "redis://127.0.0.1:1"} // no server answers there, and none is asked
	if f := s.refused(2, "bad_terminal", "top"); !strings.Contains(f.Hint, "millrace queue stats") {
		t.Errorf("hint %q, want one that names millrace queue stats", f.Hint)
	}
	s.refused(2, "bad_usage", "top", "--interval", "1ms")
	if got := s.run("top"); got.code != 2 || !strings.Contains(got.stderr, "needs a terminal") {
		t.Errorf("millrace top = %+v, want a refusal", got)
	}
}
