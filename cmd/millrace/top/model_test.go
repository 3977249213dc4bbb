package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/lease"
)

var start = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

// fake is a source whose numbers a test sets.
type fake struct {
	view    *survey.View
	fresh   []bool // of each look
	actions []action
	refuses error
}

func (f *fake) look(fresh bool) *survey.View {
	f.fresh = append(f.fresh, fresh)
	return f.view
}

func (f *fake) act(a action) error {
	f.actions = append(f.actions, a)
	return f.refuses
}

// stage is a model that a test plays with.
type stage struct {
	*model

	t    *testing.T
	fake *fake
}

// newStage returns a stage after its first look.
func newStage(t *testing.T, v *survey.View) *stage {
	t.Helper()
	f := &fake{view: v}
	s := &stage{newModel(f, start, 2*time.Second, false), t, f}
	s.Init()
	s.found(v)
	return s
}

// found ends a look.
func (s *stage) found(v *survey.View) {
	s.fake.view = v
	s.send(looked{v})
}

// send sends a message, and runs the commands that follow from it, except for the clock.
func (s *stage) send(msg tea.Msg) {
	_, next := s.Update(msg)
	if _, ok := msg.(ticked); ok {
		return
	}
	for next != nil {
		_, next = s.Update(next())
	}
}

// keys presses keys: letters, or names such as enter.
func (s *stage) keys(names ...string) {
	special := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "tab": tea.KeyTab,
		"backspace": tea.KeyBackspace, "end": tea.KeyEnd, "home": tea.KeyHome, "left": tea.KeyLeft,
	}
	for _, name := range names {
		key := tea.KeyPressMsg{Text: name, Code: []rune(name)[0]}
		if code, ok := special[name]; ok {
			key = tea.KeyPressMsg{Code: code}
		} else if name == "space" {
			key = tea.KeyPressMsg{Text: " ", Code: tea.KeySpace}
		}
		s.send(key)
	}
}

// screen returns the text on the screen.
func (s *stage) screen() string { return ansi.Strip(s.View().Content) }

// want fails the test unless the screen has all of these texts.
func (s *stage) want(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.screen(), text) {
			s.t.Errorf("the screen lacks %q:\n%s", text, s.screen())
		}
	}
}

// wantNot is the opposite of want.
func (s *stage) wantNot(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if strings.Contains(s.screen(), text) {
			s.t.Errorf("the screen has %q:\n%s", text, s.screen())
		}
	}
}

// names returns the first column.
func (s *stage) names() []string {
	var all []string
	for _, r := range s.rows() {
		all = append(all, r.cells[0].text)
	}
	return all
}

func (s *stage) wantNames(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.names()); diff != "" {
		s.t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// flood is a Redis in which acme floods orders.
func flood() *survey.View {
	at := start
	return &survey.View{
		At: at, Named: at,
		Queues: []fairqueue.Stats{
			{Name: "images", At: at, Dead: 2},
			{Name: "mails", At: at, Waiting: 7, OldestAge: time.Minute, Paused: true, FlowCount: 1},
			{
				Name: "orders", At: at, Waiting: 48210, InFlight: 9, OldestAge: 4200 * time.Millisecond, FlowCount: 3, Capacity: 10,
				Flows: []queuestats.Flow{
					{Tenant: "acme", Stream: -1, Waiting: 48200, InFlight: 1, OldestAge: 3 * time.Minute, Handling: 20 * time.Millisecond, Limits: queuestats.Limits{Weight: 1}},
					{Tenant: "bolt", Stream: -1, Waiting: 8, InFlight: 8, OldestAge: time.Second, Handling: 5 * time.Second, Held: true, Limits: queuestats.Limits{Weight: 1}},
					{Tenant: "dune", Stream: -1, Waiting: 2, OldestAge: 2 * time.Second, Handling: -1, Paused: true, Limits: queuestats.Limits{Weight: 1}},
				},
				Readers: []queuestats.Reader{{Name: "worker-1", Host: "host-3", Concurrency: 10, InFlight: 9, LastSeen: at.Add(-time.Second)}},
			},
		},
		Icks:     []ick.Stats{{Name: "search", At: at, Waiting: ick.SetStats{Size: 12}}},
		Channels: []ick.ChannelStats{{Name: "rows", Waiting: 3}},
		Leases:   []lease.Info{{Name: "nightly", Held: true, Fence: 7, Remaining: 90 * time.Second, Metadata: "host-3"}},
		Server:   survey.ServerView{Nodes: []survey.NodeView{{Addr: "127.0.0.1:6379", Version: "Redis 8.0.1", Role: "master", Memory: 95 << 20, MaxMemory: 100 << 20}}},
	}
}

// later is the Redis of v after a time, with more messages in orders.
func later(v *survey.View, d time.Duration, written, acked int64) *survey.View {
	next := *v
	next.At = v.At.Add(d)
	next.Queues = slices.Clone(v.Queues)
	for i := range next.Queues {
		next.Queues[i].At = next.At
	}
	q := &next.Queues[2]
	q.Counters.Written, q.Counters.Acked = q.Counters.Written+written, q.Counters.Acked+acked
	return &next
}

// silence is v after a look without an answer.
func silence(v *survey.View) *survey.View {
	next := *v
	next.Troubles = []survey.Trouble{{Kind: survey.Server, Err: errors.New("no answer within 2s")}}
	return &next
}

func TestScreen(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.found(later(flood(), 2*time.Second, 1800, 240))
	s.now = start.Add(2 * time.Second)
	want := `millrace top · Redis 8.0.1 · 95 MB · 0 commands/s · every 2s · 03:00:02
! server 127.0.0.1:6379 is nearly full: 95 MB of 100 MB
! queue orders is flooded by tenant acme: 48,200 of 48,210 waiting messages are
  its own; meanwhile 8 messages wait of others, the oldest for 1s
! 3 more notices
 1 queues 3   2 icks 2   3 readers 1   4 leases 1   5 servers 1

QUEUE   WAITING↓  IN FLIGHT  OLDEST  IN/S  OUT/S  DEAD  READERS  STATE
orders    48,210          9      4s   900    120     0        1  flood
mails          7          0    1m0s     0      0     0        0  paused
images         0          0       -     0      0     2        0  idle
` + strings.Repeat("\n", 12) + "? help  q quit  s sort  / filter  enter open  p pause  r resume  "
	if diff := cmp.Diff(want, trimLines(s.screen())); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
	s.send(tea.WindowSizeMsg{Width: 200, Height: 50})
	s.want("FLOWS", "HANDLERS", "DELAYED", "space look now", "queue mails is paused, and 7 messages wait")
}

// trimLines removes spaces at the ends of lines, but for the last.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines[:len(lines)-1] {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	for _, page := range []struct{ key, text string }{
		{"2", "search"}, {"3", "worker-1"}, {"4", "nightly"}, {"5", "127.0.0.1:6379"}, {"tab", "orders"}, {"tab", "rows"},
	} {
		s.keys(page.key)
		s.want(page.text)
	}
	s.keys("3", "enter")
	s.want("queue orders (flood): 48,210 waiting, 9 in flight, 1 reader, 10 handlers")
	s.wantNames("acme", "bolt", "dune")
	s.keys("down", "enter")
	s.want("bolt", "handling    5s", "state       held", "limits      none")
	s.keys("esc", "esc")
	s.wantNames("orders", "mails", "images")
}

func TestSort(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.keys("enter")
	for _, step := range []struct {
		keys []string
		want []string
	}{
		{nil, []string{"acme", "bolt", "dune"}},
		{[]string{"s"}, []string{"bolt", "acme", "dune"}},                   // in flight
		{[]string{"s"}, []string{"bolt", "acme", "dune"}},                   // handling
		{[]string{"s"}, []string{"acme", "dune", "bolt"}},                   // oldest
		{[]string{"i"}, []string{"bolt", "dune", "acme"}},                   // the youngest first
		{[]string{"s"}, []string{"bolt", "dune", "acme"}},                   // state: held, paused, ready
		{[]string{"S", "left", "S", "S"}, []string{"acme", "bolt", "dune"}}, // waiting
		{[]string{"S", "i"}, []string{"dune", "bolt", "acme"}},              // name, from Z
	} {
		s.keys(step.keys...)
		s.wantNames(step.want...)
	}
}

// TestSelectionStays has rows move below the selection and below a question.
func TestSelectionStays(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.keys("down", "p")
	s.want("Pause queue mails? [y/N]")
	moved := later(flood(), time.Second, 0, 0)
	moved.Queues[1].Waiting = 99999
	s.found(moved)
	s.wantNames("mails", "orders", "images")
	s.keys("y")
	if diff := cmp.Diff([]action{{queue: "mails"}}, s.fake.actions, cmp.AllowUnexported(action{})); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	s.keys("down", "r") // it is still mails that is selected
	s.want("Resume queue orders? [y/N]")
}

// TestQuestionStays has the target of a question vanish: the answer is about it all the same.
func TestQuestionStays(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.keys("down", "p")
	gone := later(flood(), time.Second, 0, 0)
	gone.Queues = slices.Delete(gone.Queues, 1, 2)
	s.found(gone)
	s.wantNames("orders", "images")
	s.want("Pause queue mails? [y/N]")
	s.keys("y")
	if diff := cmp.Diff([]action{{queue: "mails"}}, s.fake.actions, cmp.AllowUnexported(action{})); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// TestActions: keys pause and resume what is selected after a y, and nothing after another key.
func TestActions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		keys []string
		want []action
		said string
	}{
		{"pause a queue", []string{"p", "y"}, []action{{queue: "orders"}}, "queue orders is paused"},
		{"resume a queue", []string{"r", "Y"}, []action{{queue: "orders", resume: true}}, "queue orders goes on"},
		{"n", []string{"p", "n"}, nil, "nothing was changed"},
		{"enter", []string{"p", "enter"}, nil, "nothing was changed"},
		{"q", []string{"p", "q"}, nil, "nothing was changed"},
		{"pause a tenant", []string{"enter", "p", "y"}, []action{{queue: "orders", tenant: "acme"}}, "acme of queue orders is paused"},
		{
			"resume a tenant", []string{"enter", "end", "enter", "r", "y"},
			[]action{{queue: "orders", tenant: "dune", resume: true}}, "dune of queue orders goes on",
		},
		{"no queue", []string{"2", "p", "y"}, nil, ""},
		{"nothing there", []string{"/", "z", "z", "enter", "p"}, nil, "select a queue or a tenant first"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, flood())
			s.keys(test.keys...)
			s.want(test.said)
			if diff := cmp.Diff(test.want, s.fake.actions, cmp.AllowUnexported(action{})); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if looks := len(s.fake.fresh); len(test.want) > 0 && (looks != 1 || !s.fake.fresh[0]) {
				t.Errorf("looks after the action: %v, want a fresh one", s.fake.fresh)
			}
		})
	}
}

func TestActionFails(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.fake.refuses = (&millrace.Error{Code: "full", Message: "Redis is\x1b[2J full", Hint: "Free memory."})
	s.keys("p", "y")
	s.want("queue orders: Redis is", "full. Free memory.")
	if strings.Contains(s.View().Content, "\x1b[2J") {
		t.Error("the terminal would obey the error")
	}
}

// TestSlowAction has Redis not answer to an action.
func TestSlowAction(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.keys("p")
	if _, act := s.Update(tea.KeyPressMsg{Text: "y", Code: 'y'}); act == nil {
		t.Fatal("y does nothing")
	}
	s.want("asking Redis")
	s.keys("down")
	s.keys("p")
	if s.question != nil {
		t.Error("a second action is asked for while the first is under way")
	}
}

// TestReadOnly: with --read-only no keys act, and the view says why.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.readOnly = true
	for _, keys := range [][]string{{"p", "y"}, {"r", "y"}, {"enter", "p", "y"}, {"enter", "r", "y"}} {
		s.keys(keys...)
		s.keys("p")
		s.want("read-only; start it without --read-only", "· read-only")
	}
	if len(s.fake.actions) != 0 {
		t.Errorf("a read-only view did %v", s.fake.actions)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	v := flood()
	v.Queues[2].Streams = 8
	v.Queues[2].Flows = []queuestats.Flow{{Stream: 3, Waiting: 5}}
	s := newStage(t, v)
	s.keys("enter", "enter")
	s.wantNames("stream 3")
	s.keys("p")
	s.want("a stream cannot be paused")
}

func TestFilter(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.keys("/", "A", "i", "p", "backspace") // p pauses nothing
	s.wantNames("mails")
	s.want("filter: Ai")
	s.keys("enter")
	s.want("only rows with Ai")
	s.keys("/", "q") // does not quit
	s.want("nothing matches the filter")
	s.keys("esc")
	s.wantNames("orders", "mails", "images")
	if s.fake.actions != nil || s.question != nil {
		t.Error("text of the filter was taken for keys")
	}
}

// TestSilence: a view without answers keeps its numbers, says for how long, and takes keys.
func TestSilence(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.found(later(flood(), 2*time.Second, 1800, 240))
	s.send(ticked(start.Add(4 * time.Second))) // begins a look
	if !s.looking {
		t.Fatal("no look is under way")
	}
	s.wantNot("no answer")
	s.send(ticked(start.Add(7 * time.Second)))
	s.want("no answer for 5s", "48,210", "900")
	s.keys("down", "s") // nothing waits for Redis
	s.found(silence(s.view))
	s.send(ticked(start.Add(9 * time.Second)))
	s.want("no answer for 7s", "no answer within 2s", "48,210", "900") // rates stay
	s.found(later(s.fake.view, 8*time.Second, 800, 0))
	s.found(func() *survey.View { v := later(s.fake.view, 0, 0, 0); v.Troubles = nil; return v }())
	s.wantNot("no answer")
	s.want("100") // a second, over the 8
}

func TestSilentFromTheStart(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := &stage{newModel(f, start, time.Second, false), t, f}
	s.Init()
	s.want("asking Redis")
	s.send(ticked(start.Add(3 * time.Second)))
	s.want("no answer for 3s")
}

func TestRates(t *testing.T) {
	t.Parallel()
	of := subject{survey.Queue, "orders"}
	at := func(seconds int, came, did int64) map[subject]count {
		return map[subject]count{of: {start.Add(time.Duration(seconds) * time.Second), came, did}}
	}
	for _, test := range []struct {
		name       string
		last, next map[subject]count
		want       rate
	}{
		{"between two looks", at(0, 10, 5), at(4, 18, 7), rate{2, 0.5}},
		{"the first look", nil, at(4, 18, 7), rate{unknown, unknown}},
		{"deleted and made again", at(0, 10, 5), at(4, 2, 1), rate{unknown, unknown}},
		{"the same instant", at(4, 10, 5), at(4, 12, 5), rate{unknown, unknown}},
	} {
		if got := rates(test.last, test.next)[of]; got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestLooksDoNotOverlap passes time while a look is under way, and after a slow one.
func TestLooksDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	s.send(ticked(start.Add(2 * time.Second)))
	if began := s.began; !s.looking || !began.Equal(start.Add(2*time.Second)) {
		t.Fatalf("looking %v since %v, want a look after the interval", s.looking, began)
	}
	if s.look() != nil {
		t.Error("a second look begins during one")
	}
	s.send(ticked(start.Add(12 * time.Second)))
	s.found(flood()) // it took 10 s
	if want := start.Add(22 * time.Second); !s.due.Equal(want) {
		t.Errorf("the next look is due at %v, want %v: after twice the time", s.due, want)
	}
	s.keys("space")
	if len(s.fake.fresh) != 1 || !s.fake.fresh[0] {
		t.Errorf("looks %v, want a fresh one", s.fake.fresh)
	}
}

func TestInterval(t *testing.T) {
	t.Parallel()
	s := newStage(t, flood())
	for _, step := range []struct {
		key  string
		want time.Duration
	}{{"+", 5 * time.Second}, {"-", 2 * time.Second}, {"-", time.Second}, {"-", time.Second}} {
		if s.keys(step.key); s.interval != step.want {
			t.Errorf("after %s: %v, want %v", step.key, s.interval, step.want)
		}
	}
	s.interval = 3 * time.Second
	if s.keys("+"); s.interval != 5*time.Second {
		t.Errorf("after 3s comes %v, want 5s", s.interval)
	}
	s.interval = 3 * time.Second
	if s.keys("-"); s.interval != 2*time.Second {
		t.Errorf("before 3s comes %v, want 2s", s.interval)
	}
	s.want("every 2s")
}

// TestFits draws all pages on screens of all sizes.
func TestFits(t *testing.T) {
	t.Parallel()
	v := flood()
	for i := range 60 {
		v.Queues = append(v.Queues, fairqueue.Stats{Name: fmt.Sprintf("队列-%d-%s", i, strings.Repeat("x", i)), Waiting: i, OldestAge: time.Hour, At: start})
	}
	v.Icks[0].Name = strings.Repeat("n", 500)
	for _, width := range []int{1, 40, 80, 200} {
		for _, height := range []int{1, 5, 24} {
			s := newStage(t, v)
			s.send(tea.WindowSizeMsg{Width: width, Height: height})
			for _, keys := range [][]string{{"1"}, {"end"}, {"p"}, {"n", "2"}, {"3"}, {"4"}, {"5"}, {"?"}, {"x", "1", "home", "/", "o"}, {"enter", "enter"}, {"enter"}} {
				s.keys(keys...)
				lines := strings.Split(s.View().Content, "\n")
				if len(lines) != max(2, height) {
					t.Errorf("%d x %d, keys %v: %d lines", width, height, keys, len(lines))
				}
				for _, line := range lines {
					if got := ansi.StringWidth(line); got > width {
						t.Errorf("%d x %d, keys %v: a line of %d: %q", width, height, keys, got, line)
					}
				}
			}
		}
	}
}

// TestSelectedIsOnScreen walks through more rows than the screen has.
func TestSelectedIsOnScreen(t *testing.T) {
	t.Parallel()
	v := flood()
	for i := range 100 {
		v.Queues = append(v.Queues, fairqueue.Stats{Name: fmt.Sprintf("queue-%02d", i), At: start})
	}
	s := newStage(t, v)
	for _, key := range []string{"end", "up", "home", "down", "end"} {
		s.keys(key)
		r, _ := s.selected()
		s.want(r.cells[0].text)
	}
	s.send(tea.WindowSizeMsg{Width: 80, Height: 12})
	s.want("queue-99")
	s.found(later(flood(), time.Second, 0, 0)) // most queues are gone
	s.want("orders", "mails", "images")
}

// TestNamesAreSafe shows names that a terminal would obey.
func TestNamesAreSafe(t *testing.T) {
	t.Parallel()
	const evil = "a\x1b[2J\x9b\u202eb"
	v := flood()
	v.Queues[2].Name = evil
	v.Queues[2].Flows[0].Tenant = evil
	v.Queues[2].Readers[0].Name, v.Queues[2].Readers[0].Host = evil, evil
	v.Icks[0].Name, v.Leases[0].Name, v.Leases[0].Metadata = evil, evil, evil
	v.Server.Nodes[0].Addr, v.Server.Nodes[0].Version, v.Server.Nodes[0].Role = evil, evil, evil
	v.Troubles = []survey.Trouble{{Kind: survey.Ick, Name: evil, Err: errors.New(evil)}}
	s := newStage(t, v)
	s.send(tea.WindowSizeMsg{Width: 250, Height: 50})
	for _, keys := range [][]string{{"1"}, {"p"}, {"y"}, {"enter"}, {"enter"}, {"p"}, {"y", "2"}, {"3"}, {"4"}, {"5"}} {
		s.keys(keys...)
		content := s.View().Content
		for _, part := range []string{"\x1b[2J", "\x9b", "\u202e"} {
			if strings.Contains(content, part) {
				t.Errorf("keys %v: the screen has %q", keys, part)
			}
		}
	}
}

func TestNotices(t *testing.T) {
	t.Parallel()
	v := flood()
	v.Queues[1].Paused = false
	v.Queues[2].OverdueSchedules = 2
	v.Troubles = []survey.Trouble{{Kind: survey.Queue, Name: "old", Err: errors.New("of a newer version")}}
	v.Queues = append(v.Queues, fairqueue.Stats{Name: "unread", At: start, Waiting: 1, OldestAge: time.Minute})
	v.LeftOut = map[survey.Kind]int{survey.Lease: 12}
	s := newStage(t, v)
	var texts []string
	for _, n := range s.notices() {
		texts = append(texts, n.Text)
	}
	if diff := cmp.Diff([]string{
		"queue old cannot be read: of a newer version",
		"queue mails was never read: 7 messages wait, the oldest for 1m0s",
		"queue orders has 2 overdue schedules: a tick is due for more than a minute",
		"queue unread was never read: 1 message waits, the oldest for 1m0s",
		"server 127.0.0.1:6379 is nearly full: 95 MB of 100 MB",
		"queue orders is flooded by tenant acme: 48,200 of 48,210 waiting messages are its own; meanwhile 8 messages wait of others, the oldest for 1s",
		"queue orders has slow handlers for tenant bolt: its messages have 8 of 10, and take 5s each; meanwhile 48,200 messages wait of others, the oldest for 3m0s",
		"queue orders has tenant dune paused: 2 messages wait",
		"12 of the kind lease are not shown",
	}, texts); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	s.want("! 7 more notices")
}

// TestCheck rejects inputs and outputs that are no terminal.
func TestCheck(t *testing.T) {
	t.Parallel()
	if err := Check(strings.NewReader(""), &strings.Builder{}); !errors.Is(err, ErrTerminal) {
		t.Errorf("Check = %v, want %v", err, ErrTerminal)
	}
}
