package millracetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// Counts is how many messages of a queue are in each state. The zero value is an empty queue.
type Counts struct{ Waiting, InFlight, Delayed, Dead int }

// countsOf returns the counts of a queue; all are 0 if it does not exist.
func countsOf(t testing.TB, q *fairqueue.Queue) Counts {
	t.Helper()
	s, err := q.Stats(t.Context())
	if err != nil && !errors.Is(err, millrace.ErrNotFound) {
		t.Fatalf("the state of queue %q: %v", q.Name(), err)
	}
	return Counts{s.Waiting, s.InFlight, s.Delayed, s.Dead}
}

// WantCounts reports an error unless the queue has that many messages of each state. The error shows
// the messages.
func WantCounts(t testing.TB, q *fairqueue.Queue, want Counts) {
	t.Helper()
	got := countsOf(t, q)
	var differ []string
	for _, c := range []struct {
		state     fairqueue.State
		got, want int
	}{
		{fairqueue.Waiting, got.Waiting, want.Waiting},
		{fairqueue.InFlight, got.InFlight, want.InFlight},
		{fairqueue.Delayed, got.Delayed, want.Delayed},
		{fairqueue.Dead, got.Dead, want.Dead},
	} {
		if c.got != c.want {
			differ = append(differ, fmt.Sprintf("%d %s, want %d", c.got, c.state, c.want))
		}
	}
	if len(differ) > 0 {
		t.Errorf("queue %q has %s:%s", q.Name(), strings.Join(differ, "; "), contents(t, q))
	}
}

// Match selects messages. A field that is not set matches every message.
type Match struct {
	// State is the state of the messages. Defaults to [fairqueue.Waiting].
	State fairqueue.State

	// Tenant is the tenant of the messages. Defaults to any.
	Tenant string

	// Body is the body: a string or []byte is compared byte by byte; of any other value the JSON
	// is compared, in which the order of keys does not matter. Defaults to any.
	Body any

	// Headers are headers that a message must have; it may have more. Defaults to none.
	Headers map[string]string
}

// WantMessage returns the first message that matches. If there is none, it reports an error that
// says how each message of that state differs.
func WantMessage(t testing.TB, q *fairqueue.Queue, match Match) fairqueue.Message {
	t.Helper()
	all := browse(t, q, match.State)
	var text strings.Builder
	for i, msg := range all {
		differ := match.differences(t, msg)
		if len(differ) == 0 {
			return msg
		}
		if i < maxShown {
			fmt.Fprintf(&text, "\n  %s\n    %s", describe(msg), strings.Join(differ, "\n    "))
		}
	}
	if more := len(all) - maxShown; more > 0 {
		fmt.Fprintf(&text, "\n  and %d more", more)
	}
	state := match.State
	if state == "" {
		state = fairqueue.Waiting
	}
	if len(all) == 0 {
		t.Errorf("queue %q has no %s message; it has:%s", q.Name(), state, contents(t, q))
	} else {
		t.Errorf("no %s message of queue %q matches:%s", state, q.Name(), text.String())
	}
	return fairqueue.Message{}
}

// browse returns all messages of a state.
func browse(t testing.TB, q *fairqueue.Queue, state fairqueue.State) (all []fairqueue.Message) {
	t.Helper()
	for cfg := (fairqueue.BrowseConfig{State: state}); ; {
		page, next, err := q.Browse(t.Context(), cfg)
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			t.Fatalf("the messages of queue %q: %v", q.Name(), err)
		}
		all = append(all, page...)
		if cfg.After = next; next == "" {
			return all
		}
	}
}

// differences says in words how a message differs.
func (m Match) differences(t testing.TB, msg fairqueue.Message) (differ []string) {
	t.Helper()
	if m.Tenant != "" && msg.Tenant != m.Tenant {
		differ = append(differ, fmt.Sprintf("tenant is %q, want %q", msg.Tenant, m.Tenant))
	}
	for name, want := range m.Headers {
		if got, ok := msg.Headers[name]; !ok {
			differ = append(differ, fmt.Sprintf("header %q is missing, want %q", name, want))
		} else if got != want {
			differ = append(differ, fmt.Sprintf("header %q is %q, want %q", name, got, want))
		}
	}
	switch want := m.Body.(type) {
	case nil:
	case string:
		differ = append(differ, differentText(msg.Body, []byte(want))...)
	case []byte:
		differ = append(differ, differentText(msg.Body, want)...)
	default:
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatalf("millracetest.Match.Body: %v", err)
		}
		differ = append(differ, differentJSON(msg.Body, text)...)
	}
	return differ
}

func differentText(got, want []byte) []string {
	if bytes.Equal(got, want) {
		return nil
	}
	return []string{fmt.Sprintf("body is %q, want %q", got, want)}
}

const (
	maxShown = 10  // messages of each state in the text of a failure
	maxBody  = 200 // bytes of a body
)

// contents lists the contents of a queue, for the text of a failure.
func contents(t testing.TB, q *fairqueue.Queue) string {
	t.Helper()
	var text strings.Builder
	for _, state := range []fairqueue.State{fairqueue.Waiting, fairqueue.InFlight, fairqueue.Delayed, fairqueue.Dead} {
		page, next, err := q.Browse(t.Context(), fairqueue.BrowseConfig{State: state, Max: maxShown})
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			t.Fatalf("the messages of queue %q: %v", q.Name(), err)
		}
		for _, msg := range page {
			fmt.Fprintf(&text, "\n  %s: %s", state, describe(msg))
		}
		if next != "" {
			fmt.Fprintf(&text, "\n  and more %s", state)
		}
	}
	if text.Len() == 0 {
		return "\n  nothing"
	}
	return text.String()
}

// describe shows a message in one line.
func describe(msg fairqueue.Message) string {
	body := msg.Body
	more := ""
	if len(body) > maxBody {
		more = fmt.Sprintf(" and %d bytes more", len(body)-maxBody)
		body = body[:maxBody]
	}
	text := fmt.Sprintf("message %s of tenant %q, body %q%s", msg.ID, msg.Tenant, body, more)
	if msg.Attempt > 0 {
		text += fmt.Sprintf(", %d deliveries", msg.Attempt)
	}
	if msg.Reason != "" {
		text += ": " + msg.Reason
	}
	if msg.DecodeError != "" {
		text += ": " + msg.DecodeError
	}
	return text
}
