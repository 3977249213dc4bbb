package fairqueue

import (
	"cmp"
	"context"
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

// State is the state of a message.
type State string

// The states.
const (
	Waiting  State = "waiting"   // the next reader gets it
	InFlight State = "in_flight" // a reader has it
	Delayed  State = "delayed"   // it waits for its time
	Dead     State = "dead"      // it was delivered too often, or its handler gave up
	Gone     State = ""          // there is no such message
)

// states are the names of states in the script browse.
var states = map[State]string{Waiting: "waiting", InFlight: "flight", Delayed: "delayed", Dead: "dead"}

// BrowseConfig selects messages. The zero value selects messages that wait.
type BrowseConfig struct {
	// State is the state of the messages. Defaults to [Waiting].
	State State

	// Tenant selects the messages of one tenant. Defaults to all tenants.
	Tenant string

	// Max is the most messages of a page, up to 1,000. Defaults to 100.
	Max int

	// After is where the page starts: the end of the page before, in the same state.
	// Defaults to the beginning.
	After string
}

func (c BrowseConfig) withDefaults() (BrowseConfig, error) {
	if c.Max == 0 {
		c.Max = 100
	}
	c.State = cmp.Or(c.State, Waiting)
	after, err := base64.RawURLEncoding.DecodeString(c.After)
	bad := millrace.ErrBadArgument
	switch {
	case states[c.State] == "":
		return c, bad.Errorf("messages are %s, %s, %s or %s, not %q", Waiting, InFlight, Delayed, Dead, c.State)
	case len(c.Tenant) > maxLabel:
		return c, bad.Errorf("the tenant has %d bytes, more than %d", len(c.Tenant), maxLabel)
	case c.Max < 0 || c.Max > maxRead:
		return c, bad.Errorf("a page has 1 to %d messages, not %d", maxRead, c.Max)
	case err != nil || c.After != "" && !placeForm.Match(after):
		return c, bad.Errorf("not the end of a page: %.60q", c.After)
	}
	c.After = string(after)
	return c, nil
}

// selects reports whether a message is one of the tenant.
func (c BrowseConfig) selects(m Message) bool { return c.Tenant == "" || m.Tenant == c.Tenant }

// placeForm is the form of a place: a set, a score and a member.
var placeForm = regexp.MustCompile(`(?s)^[a-z]+ [-+.0-9a-z]{1,24} .+$`)

// Browse returns a page of messages and where the next page starts, "" at the end. It takes
// nothing and changes nothing, and works in a paused queue and on a full server.
//
// Messages in flight have the receipt of their delivery, with which an operator can hand them
// back ([Queue.Nack]).
//
// Messages that wait come flow by flow, in their order. Others come by time: the end of
// their visibility, of their delay, or their death. A message that stays where it is comes
// once, whatever others do. Browse examines Max messages, 50 a call to Redis, and ends early
// after a mebibyte. So a page may have fewer than Max messages of a tenant, or none, and
// another page may follow.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Browse(ctx context.Context, cfg BrowseConfig) (messages []Message, next string, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, "", err
	}
	next, err = q.scan(ctx, cfg, func(list []Message) bool {
		for _, m := range list {
			if cfg.selects(m) {
				messages = append(messages, m)
			}
		}
		return true
	})
	return messages, next, err
}

// scan examines cfg.Max messages at most, and returns where the next page starts. It ends
// early after a mebibyte, and when visit returns false. visit gets the messages of each call
// to Redis, also those of other tenants.
func (q *Queue) scan(ctx context.Context, cfg BrowseConfig, visit func([]Message) bool) (next string, err error) {
	flow := ""
	if cfg.Tenant != "" && cfg.State == Waiting {
		flow = tenantFlow(cfg.Tenant)
	}
	after := cfg.After
	for left := cfg.Max; left > 0; left -= page {
		most := min(left, page)
		reply, err := q.call(ctx, "browse", states[cfg.State], strconv.Itoa(most), flow, after)
		if err != nil {
			return next, err
		}
		if reply.None() {
			return "", errNotFound
		}
		reply.MilliTime() // the server's clock
		after = reply.Text()
		var list []Message
		for reply.More() {
			list = append(list, browsed(cfg.State, reply))
		}
		more := visit(list)
		if err := reply.Err(); err != nil || after == "" {
			return "", err
		}
		next = base64.RawURLEncoding.EncodeToString([]byte(after))
		if !more || len(list) < most {
			break // enough, or a mebibyte
		}
	}
	return next, nil
}

// shownDelivery is how long the part of a delivery is that the script browse shows: its receipt, its kind, its instant.
const shownDelivery = handleSize + 1 + 16

// browsed reads one message of a page: its member, a time, its body, and further data of
// its delivery or its death, or why it was given back. The last two may be missing.
func browsed(state State, reply *script.Reply) Message {
	text, at := reply.Text(), milliTime(reply.Text())
	stored, found := reply.Maybe()
	more, _ := reply.Maybe()
	msg := Message{Stream: -1}
	switch state {
	case InFlight:
		msg.Until, msg.Attempt = at, 1
		if len(more) >= shownDelivery {
			micros, _ := strconv.ParseInt(more[handleSize+1:shownDelivery], 10, 64) // digits that a script wrote
			msg.Reason = more[shownDelivery:]
			msg.Since = time.UnixMicro(micros).Truncate(time.Millisecond)
			msg.Consumed = strings.ContainsAny(more[handleSize:handleSize+1], "cC")
		}
	case Delayed:
		msg.Until, msg.Reason = at, more
	case Dead:
		msg.ID, msg.Since = text, at
		msg.Attempt, msg.Reason = readDeath(more)
		text = memberOf(text, stored)
	case Waiting, Gone:
		msg.Reason = more
	}
	msg.Reason = strings.ToValidUTF8(msg.Reason, "") // a rune may be cut
	m, err := readMember(text)
	if err == nil {
		if state == Delayed && m.attempts > 0 {
			msg.Since = m.since
		}
		if state != Dead { // whose record has all deliveries
			msg.Attempt += m.attempts
		}
		err = m.fill(&msg, stored)
	}
	if state == InFlight && err == nil {
		msg.Receipt = receipt(more[:min(len(more), handleSize)] + tenantFlow(m.tenant)).String()
	}
	switch {
	case !found:
		msg.DecodeError = "the body is missing: the message was cancelled, or its body was deleted"
	case err != nil:
		msg.DecodeError = err.Error()
	}
	return msg
}

// memberOf returns the member of a message that was never delivered.
func memberOf(id, stored string) string {
	h, _, err := readHeader(stored)
	switch {
	case err != nil:
		return ""
	case h.flow == h.owner:
		return h.flow + "\x01" + string(h.priority) + id
	}
	return h.flow + "\x01" + string(h.priority) + id + h.owner
}

// readDeath reads the record of a death: 'ATTEMPTS:REASON'.
func readDeath(death string) (attempts int, reason string) {
	made, reason, found := strings.Cut(death, ":")
	if !found {
		return 0, "unknown: the record of the death was deleted"
	}
	attempts, _ = strconv.Atoi(made)
	return attempts, reason
}
