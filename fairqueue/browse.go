package fairqueue

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// BrowseConfig is what to look at. The zero value looks at messages that wait.
type BrowseConfig struct {
	// Place is where the messages are: [Waiting], [InFlight] or [Delayed]. Defaults
	// to [Waiting].
	Place Place

	// Tenant leaves out the messages of all others. Defaults to everybody's.
	Tenant string

	// Max is how many messages a page has at most, up to 1,000. Defaults to 100.
	Max int

	// After is where to go on: [Page.Next] of a page of the same place. Defaults to
	// the beginning.
	After string
}

// Page is a part of what there is to see.
type Page struct {
	Messages []Browsed
	Next     string // where to go on; empty at the end
}

// Browsed is a message that somebody looked at. It has no Receipt and no
// PickupDelay, and its Attempt is how often it was delivered so far.
type Browsed struct {
	Message

	Since    time.Time // when it was delivered, if it is in flight
	Until    time.Time // until when it is in flight or set aside, if nobody settles or extends it
	Consumed bool      // it is in flight with a handler of Consume
	Garbled  string    // why no reader could make sense of it; empty for a message that is whole
}

// DeadMessage is a message that was delivered too often, or that its handler gave
// up.
type DeadMessage struct {
	Message

	Died   time.Time
	Reason string // why it is dead
}

// sets are the sorted sets of the places.
var sets = map[Place]string{Waiting: "backlog", InFlight: "flight", Delayed: "delayed"}

func (c BrowseConfig) withDefaults() (BrowseConfig, error) {
	if c.Max == 0 {
		c.Max = 100
	}
	c.Place = cmp.Or(c.Place, Waiting)
	after, err := base64.RawURLEncoding.DecodeString(c.After)
	bad := millrace.ErrBadArgument
	switch {
	case sets[c.Place] == "":
		return c, bad.Errorf("messages are %s, %s or %s, not %q", Waiting, InFlight, Delayed, c.Place)
	case len(c.Tenant) > maxLabel:
		return c, bad.Errorf("the tenant is %d bytes long, more than %d", len(c.Tenant), maxLabel)
	case c.Max < 0 || c.Max > chunk:
		return c, bad.Errorf("a page has 1 to %d messages, not %d", chunk, c.Max)
	case err != nil || c.After != "" && !memberForm.Match(after) && !rankForm.Match(after):
		return c, bad.Errorf("not where a page ended: %.60q", c.After)
	}
	c.After = string(after)
	return c, nil
}

var rankForm = regexp.MustCompile(`^\d{1,16} \d{1,16}$`)

// Browse looks at messages without taking them, for people, and changes nothing.
// It does so in a queue that is paused, and on a server that is full, too.
//
// Messages that wait come flow by flow, in their order; others by the time until which
// they are in flight or set aside. While others come and go, one that stays where it is
// comes once. It looks at Max messages, 120 a call to Redis, and ends early behind a
// mebibyte. For a tenant in a crowd it may so return fewer than Max, or none, and Next all
// the same.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Browse(ctx context.Context, cfg BrowseConfig) (Page, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Page{}, err
	}
	flow := ""
	if cfg.Tenant != "" && cfg.Place == Waiting {
		flow = tenantFlow(cfg.Tenant)
	}
	found := Page{Messages: []Browsed{}}
	for left, after := cfg.Max, cfg.After; left > 0; left -= page {
		seen := 0
		after, err = q.look(ctx, sets[cfg.Place], min(left, page), flow, after, func(now time.Time, member, score string, reply *script.Reply) {
			b := readBrowsed(cfg.Place, now, member, score, reply)
			seen++
			if cfg.Tenant == "" || b.Tenant == cfg.Tenant {
				found.Messages = append(found.Messages, b)
			}
		})
		if err != nil {
			return found, err
		}
		found.Next = ""
		if after == "" {
			break
		}
		found.Next = base64.RawURLEncoding.EncodeToString([]byte(after))
		if seen < min(left, page) {
			break // a mebibyte
		}
	}
	return found, nil
}

// look calls do with messages of a sorted set, and returns where to go on.
func (q *Queue) look(ctx context.Context, set string, most int, flow, after string,
	do func(now time.Time, member, score string, rest *script.Reply),
) (next string, err error) {
	reply, err := q.call(ctx, "browse", set, strconv.Itoa(most), flow, after)
	if err != nil {
		return "", err
	}
	if reply.None() {
		return "", errNotFound
	}
	now := reply.MilliTime()
	next = reply.Text()
	for reply.More() {
		member, score := reply.Text(), reply.Text()
		do(now, member, score, reply)
	}
	return next, reply.Err()
}

// readBrowsed reads one message of a page.
func readBrowsed(place Place, now time.Time, text, score string, reply *script.Reply) (b Browsed) {
	b.Stream = -1
	stored, there := reply.Maybe()
	reply.Maybe() // its death, which it has not
	if place != Waiting {
		if ms, err := strconv.ParseInt(score, 10, 64); err == nil {
			b.Until = time.UnixMilli(ms)
		}
	}
	if place == InFlight {
		if len(text) >= memberAt {
			if ms, err := strconv.ParseInt(text[17:30], 10, 64); err == nil {
				b.Since = time.UnixMilli(ms)
			}
			b.Consumed = strings.EqualFold(text[:1], "c")
		}
		text = receipt(text).member()
	}
	m, err := readMember(text)
	if err == nil {
		b.Message, err = m.message(stored, now)
	}
	b.PickupDelay = 0
	if place != InFlight {
		b.Attempt--
	}
	switch {
	case !there:
		b.Garbled = "its body is gone: it was cancelled, or somebody deleted it"
	case err != nil:
		b.Garbled = err.Error()
	}
	return b
}

// deadPageSize is how many dead messages are asked for at once.
const deadPageSize = 100

// Dead goes through the dead messages, oldest death first. Their Attempt is that
// of their last delivery, and they have no receipt.
func (q *Queue) Dead(ctx context.Context) iter.Seq2[DeadMessage, error] {
	return func(yield func(DeadMessage, error) bool) {
		for after := ""; ; {
			var page []DeadMessage
			next, err := q.look(ctx, "dead", deadPageSize, "", after, func(now time.Time, id, score string, reply *script.Reply) {
				page = append(page, readDead(now, id, score, reply))
			})
			for _, m := range page {
				if !yield(m, nil) {
					return
				}
			}
			switch {
			case millrace.Code(err) == millrace.ErrNotFound.Code:
				return
			case err != nil:
				yield(DeadMessage{}, err)
				return
			case next == "":
				return
			}
			after = next
		}
	}
}

// readDead reads one dead message. Of its death there is 'ATTEMPTS:SIZE:', its member of
// backlog of that size, and the reason.
func readDead(now time.Time, id, score string, reply *script.Reply) (d DeadMessage) {
	d.ID, d.Stream = id, -1
	stored, death := reply.Text(), reply.Text()
	if ms, err := strconv.ParseInt(score, 10, 64); err == nil {
		d.Died = time.UnixMilli(ms)
	}
	parts := strings.SplitN(death, ":", 3)
	if len(parts) < 3 {
		d.Reason = "nobody knows: somebody deleted what was kept of it"
		return d
	}
	attempts, _ := strconv.Atoi(parts[0])
	size, _ := strconv.Atoi(parts[1])
	size = min(max(0, size), len(parts[2]))
	m, err := readMember(parts[2][:size])
	if err == nil {
		d.Message, err = m.message(stored, now)
	}
	d.Attempt, d.PickupDelay, d.Reason = attempts, 0, parts[2][size:]
	if err != nil {
		d.Reason = fmt.Sprintf("%s (%s)", d.Reason, err)
	}
	return d
}
