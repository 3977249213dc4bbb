package fairqueue

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/millrace/millrace"
)

const (
	// maxLook is the most messages that one search examines.
	maxLook = 100_000

	// maxFound is how many bytes of bodies end a search.
	maxFound = 1 << 20
)

// SearchConfig selects messages by their properties. A message must match all fields that
// are set. The zero value selects messages that wait.
type SearchConfig struct {
	// State is the state of the messages. Defaults to [Waiting].
	State State

	// Tenant selects the messages of one tenant. Defaults to all tenants.
	Tenant string

	// ID is the id of one message. Unless it is in flight, no other is examined. Defaults to any.
	ID string

	// Headers are headers that the message has, with these values. Defaults to any.
	Headers map[string]string

	// Text is in the body. Upper and lower case differ. Defaults to any body.
	Text string

	// Reason is why messages are dead, or why those that are delayed were given back last: the whole text, or one with # in
	// place of numbers. Defaults to any.
	Reason string

	// Max is how many matches end the search, up to 1,000. Defaults to 100.
	Max int

	// Look is how many messages are examined at most, up to 100,000. Defaults to 10,000, of
	// [Queue.Retry] and [DeadLetters.PurgeMatching] to all that are in the state.
	Look int

	// After is where the search starts: Next of the one before, in the same state. Defaults
	// to the beginning.
	After string
}

// browse returns the config for the messages to examine.
func (c *SearchConfig) browse() (BrowseConfig, error) {
	if c.Max == 0 {
		c.Max = 100
	}
	if c.Look == 0 {
		c.Look = 10_000
	}
	c.State = cmp.Or(c.State, Waiting)
	b, err := BrowseConfig{State: c.State, Tenant: c.Tenant, After: c.After}.withDefaults()
	bad := millrace.ErrBadArgument
	switch {
	case err != nil:
		return b, err
	case c.ID != "" && !idForm.MatchString(c.ID):
		return b, bad.Errorf("not the id of a message: %.60q", c.ID)
	case c.Reason != "" && c.State != Dead && c.State != Delayed:
		return b, bad.Errorf("only dead and delayed messages are searched by their reason, and these are %s", c.State)
	case c.Max < 0 || c.Max > maxRead:
		return b, bad.Errorf("a search ends after 1 to %d matches, not %d", maxRead, c.Max)
	case c.Look < 0 || c.Look > maxLook:
		return b, bad.Errorf("a search examines 1 to %d messages, not %d", maxLook, c.Look)
	}
	return b, nil
}

// matches reports whether a message matches all fields beside the tenant.
func (c *SearchConfig) matches(m Message) bool {
	for name, value := range c.Headers {
		if got, found := m.Headers[name]; !found || got != value {
			return false
		}
	}
	reason := cmp.Or(m.Reason, noReason)
	return (c.ID == "" || m.ID == c.ID) && (c.Reason == "" || reason == c.Reason || covers(c.Reason, reason)) && bytes.Contains(m.Body, []byte(c.Text))
}

// Found is the result of a search.
type Found struct {
	Messages []Message
	Looked   int    // messages examined by this search
	Total    int    // messages in the state, of all tenants
	Next     string // where to go on, "" at the end
}

// Search returns messages that match. It takes nothing and changes nothing, in the order of
// [Queue.Browse]. It examines Look messages at most, and ends early after the call to Redis
// that found the Max-th match, so a page may have up to 49 matches more, or a mebibyte of
// matches. A page without a match may have a Next.
//
// Errors: those of [Queue.Browse]. With an error, Found has the results so far.
func (q *Queue) Search(ctx context.Context, cfg SearchConfig) (Found, error) {
	var found Found
	size := 0
	err := q.look(ctx, &cfg, &found, func(m Message) bool {
		found.Messages = append(found.Messages, m)
		size += len(m.Body)
		return len(found.Messages) < cfg.Max && size < maxFound && cfg.ID == ""
	})
	return found, err
}

// look calls visit with all that match, and ends after the call to Redis in which visit
// returned false.
func (q *Queue) look(ctx context.Context, cfg *SearchConfig, found *Found, visit func(Message) bool) error {
	b, err := cfg.browse()
	if err != nil {
		return err
	}
	stats, err := q.Stats(ctx)
	if err != nil {
		return err
	}
	found.Total = map[State]int{Waiting: stats.Waiting, InFlight: stats.InFlight, Delayed: stats.Delayed, Dead: stats.Dead}[b.State]
	if cfg.ID != "" && cfg.After == "" && b.State != InFlight { // whose receipts have random ends
		return q.find(ctx, cfg, b, found, visit)
	}
	found.Next = cfg.After
	for more := true; more && found.Looked < cfg.Look; {
		b.Max = min(cfg.Look-found.Looked, maxRead)
		next, err := q.scan(ctx, b, func(list []Message) bool {
			found.Looked += len(list)
			for _, m := range list {
				if b.selects(m) && cfg.matches(m) {
					more = visit(m) && more
				}
			}
			return more
		})
		if err != nil {
			found.Next = cmp.Or(next, found.Next)
			return err
		}
		found.Next, b.After = next, decodePage(next)
		more = more && next != ""
	}
	return nil
}

// find calls visit with the message that a search by its id selects. It examines no other.
func (q *Queue) find(ctx context.Context, cfg *SearchConfig, b BrowseConfig, found *Found, visit func(Message) bool) error {
	before, err := q.before(ctx, b.State, cfg.ID)
	if err != nil || before == "" {
		return err
	}
	_, err = q.scan(ctx, BrowseConfig{State: b.State, Max: 1, After: before}, func(list []Message) bool {
		for _, m := range list {
			if found.Looked++; b.selects(m) && cfg.matches(m) {
				visit(m)
			}
		}
		return false
	})
	return err
}

// before returns the place right before a message in a state, empty if it is not in that state.
func (q *Queue) before(ctx context.Context, state State, id string) (string, error) {
	number, _ := strconv.ParseInt(id, 10, 64) // idForm has only digits
	previous := fmt.Sprintf("%016d", max(0, number-1))
	l := look{q: q, name: "search"}
	reply, err := l.pipe(ctx, [][]string{{"HGET", ":hot", id}, {"ZSCORE", ":dead", id}})
	if err != nil {
		return "", err
	}
	stored, died := reply.Text(), reply.Text()
	if err := reply.Err(); err != nil {
		return "", err
	}
	h, _, undecodable := readHeader(stored)
	switch {
	case state == Dead && died != "":
		return "dead " + died + " " + previous, nil
	case state == Dead || undecodable != nil: // without its body it is in no other state
		return "", nil //nolint:nilerr // such a message is found among the dead
	}
	start := h.flow + "\x01" + string(h.priority)
	places := []string{"delayed"}
	if state == Waiting {
		places = []string{"blocked", "asleep", "active"}
	}
	var commands [][]string
	for _, place := range places {
		of := h.flow
		if state == Delayed {
			of = start + id
		}
		commands = append(commands, []string{"ZSCORE", ":" + place, of})
	}
	if reply, err = l.pipe(ctx, commands); err != nil {
		return "", err
	}
	for _, place := range places {
		if score := reply.Text(); score != "" {
			return place + " " + score + " " + start + previous, reply.Err()
		}
	}
	return "", reply.Err()
}

// decodePage returns the cursor for Redis in an end of a page.
func decodePage(next string) string {
	after, _ := base64.RawURLEncoding.DecodeString(next) // made by scan
	return string(after)
}
