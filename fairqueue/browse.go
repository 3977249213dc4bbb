package fairqueue

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/shuffleshard"
)

// BrowseConfig is what to look at. The zero value looks at messages that wait.
type BrowseConfig struct {
	// Place is where the messages are: [Waiting], [InFlight] or [Delayed]. Defaults
	// to [Waiting].
	Place Place

	// Tenant leaves out the messages of all others. Of those that wait or are in
	// flight it finds what is in the tenant's present streams, see [Queue.Shard]:
	// what was written before a resize may be in others until it is done. Defaults
	// to everybody's.
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
// PickupDelay, its Attempt is how often it was delivered so far, and the Stream of
// one that is set aside is the one that it will go to.
type Browsed struct {
	Message

	Consumer string    // who has it, if it is in flight
	Until    time.Time // until when it is in flight or set aside, if nobody settles or extends it
	Garbled  string    // why no reader could make sense of it; empty for a message that is whole
}

func (c BrowseConfig) withDefaults() (BrowseConfig, error) {
	if c.Max == 0 {
		c.Max = 100
	}
	c.Place = cmp.Or(c.Place, Waiting)
	c.After = cmp.Or(c.After, "0.0-0")
	stream, entry, ok := strings.Cut(c.After, ".")
	switch {
	case c.Place != Waiting && c.Place != InFlight && c.Place != Delayed:
		return c, millrace.ErrBadArgument.Saying("messages are %s, %s or %s, not %q", Waiting, InFlight, Delayed, c.Place)
	case len(c.Tenant) > maxLabel:
		return c, millrace.ErrBadArgument.Saying("the tenant is %d bytes long, more than %d", len(c.Tenant), maxLabel)
	case c.Max < 0 || c.Max > chunk:
		return c, millrace.ErrBadArgument.Saying("a page has 1 to %d messages, not %d", chunk, c.Max)
	case !ok || !digits(stream, 4) || !isEntry(entry):
		return c, millrace.ErrBadArgument.Saying("not where a page ended: %q", c.After)
	}
	return c, nil
}

// Browse looks at messages without taking them, for people, and changes nothing.
// It does so in a queue that is paused, and on a server that is full, too.
//
// Messages come stream by stream, in the order in which they came into each. While
// others come and go, a message that stays where it is comes once; one that
// returned to a stream in between may come again.
//
// One call looks at 1,000 messages at most. For a tenant in a crowd it may so
// return fewer than Max, or none, and Next all the same: the end is where that is
// empty. Beside that it takes as long as the queue has streams.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Browse(ctx context.Context, cfg BrowseConfig) (Page, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Page{}, err
	}
	at, after, _ := strings.Cut(cfg.After, ".")
	args := []string{string(cfg.Place), strconv.Itoa(cfg.Max), cfg.Tenant, at, after}
	if cfg.Tenant != "" && cfg.Place != Delayed {
		stored, err := q.stored(ctx)
		if err != nil {
			return Page{}, err
		}
		args = stored.appendShard(args, cfg.Tenant)
	}
	reply, err := q.call(ctx, "browse", args...)
	if err != nil {
		return Page{}, err
	}
	now := reply.MilliTime()
	if now.IsZero() && reply.Err() == nil {
		return Page{}, errNotFound
	}
	page := Page{Next: reply.Text(), Messages: make([]Browsed, 0, reply.Len())}
	for reply.More() {
		message := reply.List()
		page.Messages = append(page.Messages, readBrowsed(message, now, cfg.Place))
		reply.Join(message)
	}
	if err := reply.Err(); err != nil {
		return Page{}, err
	}
	return page, nil
}

// readBrowsed reads {stream, entry, {field, value, ...}} of a message that was
// there at now, and {..., consumer, idle} of one in flight.
func readBrowsed(reply *script.Reply, now time.Time, place Place) (b Browsed) {
	e := entry{stream: int(reply.Int()), id: reply.Text(), fields: reply.Fields()}
	message, garbled := e.message(now)
	b.Message = message
	b.Receipt, b.PickupDelay = "", 0
	if place != InFlight {
		b.Attempt-- // that would be the next one
	}
	if place == Delayed {
		if e.fields[fieldID] == "" {
			b.ID = e.id + ".d"
		}
		garbled = cmp.Or(garbled, e.moment(fieldDue, &b.Until))
	}
	if garbled != nil {
		b.Garbled = garbled.Error()
	}
	if reply.More() {
		reader, visibility := readConsumer(reply.Text())
		b.Consumer, b.Until = reader, now.Add(visibility-reply.Millis())
	}
	return b
}

// readConsumer reads the name of a consumer in a pending list: the reader's, a
// slash, and the visibility in milliseconds.
func readConsumer(text string) (reader string, visibility time.Duration) {
	slash := strings.LastIndexByte(text, '/')
	ms, err := strconv.ParseInt(text[slash+1:], 10, 64)
	if slash < 0 || err != nil {
		return text, 0
	}
	return text[:slash], time.Duration(ms) * time.Millisecond
}

// Shard returns the indexes of a tenant's streams in ascending order, as the queue
// is now. Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Shard(ctx context.Context, tenant string) ([]int, error) {
	if tenant == "" || len(tenant) > maxLabel {
		return nil, millrace.ErrBadArgument.Saying("a tenant has 1 to %d bytes, not %d", maxLabel, len(tenant))
	}
	s, err := q.stored(ctx)
	if err != nil {
		return nil, err
	}
	shard := shuffleshard.Get(s.streams, s.perTenant, tenant)
	slices.Sort(shard)
	return shard, nil
}

// stored asks Redis for the queue's shape.
func (q *Queue) stored(ctx context.Context) (shape, error) {
	reply, err := q.call(ctx, "shape")
	if err != nil {
		return shape{}, err
	}
	s := shape{streams: int(reply.Int()), perTenant: int(reply.Int())}
	if err := reply.Err(); err != nil {
		return shape{}, err
	}
	if s.streams == 0 {
		return shape{}, errNotFound
	}
	return s, nil
}
