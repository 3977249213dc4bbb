package fairqueue

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/shuffleshard"
)

// maxLabel is the longest tenant and dedupe id in bytes.
const maxLabel = 512

// Written is what became of a draft.
type Written struct {
	ID        string // of the message
	Duplicate bool   // it was written before, under the same dedupe id
}

// Write writes one message and returns its id. After a lost reply the library
// writes again and gets the first one's answer.
//
// Errors: [millrace.ErrBadArgument] for a draft that cannot be, before Redis was asked;
// [millrace.ErrBroken], [millrace.ErrVersion], millrace.ErrFull, and then nothing was written.
func (q *Queue) Write(ctx context.Context, d Draft) (string, error) {
	written, err := q.WriteBatch(ctx, d)
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}

// draft is a Draft with the fields of its entry.
type draft struct {
	Draft

	fields []string
}

// WriteBatch writes several messages in one call for each 1,000 of them, which is
// applied whole. Goroutines that write at the same time share calls. All drafts
// are checked before the first is written. It returns what became of each, in
// their order; with an error, of those that are written.
func (q *Queue) WriteBatch(ctx context.Context, drafts ...Draft) ([]Written, error) {
	all := make([]draft, len(drafts))
	for i, d := range drafts {
		if err := d.check(); err != nil {
			return nil, err
		}
		d.Headers = q.carried(ctx, d.Headers)
		fields, err := q.fields(d)
		if err != nil {
			return nil, err
		}
		all[i] = draft{Draft: d, fields: fields}
	}
	written := make([]Written, 0, len(drafts))
	for first := 0; first < len(all); first += chunk {
		some, err := q.writes.do(ctx, all[first:min(first+chunk, len(all))])
		if err != nil {
			return written, err
		}
		written = append(written, some...)
	}
	return written, nil
}

func (d Draft) check() error {
	switch {
	case d.Tenant == "":
		missing := millrace.ErrBadArgument.Saying("a message has no tenant")
		missing.Hint = "Set Draft.Tenant to whose message it is; to one name for all if there are no tenants."
		return missing
	case len(d.Tenant) > maxLabel:
		return millrace.ErrBadArgument.Saying("the tenant is %d bytes long, more than %d", len(d.Tenant), maxLabel)
	case len(d.DedupeID) > maxLabel:
		return millrace.ErrBadArgument.Saying("the dedupe id is %d bytes long, more than %d", len(d.DedupeID), maxLabel)
	case !textual(d.Headers):
		return millrace.ErrBadArgument.Saying("a header is not UTF-8 text: put bytes into the body")
	case d.Delay < 0:
		return millrace.ErrBadArgument.Saying("the delay is negative: %s", d.Delay)
	case d.Deadline < 0 || d.Deadline > 0 && d.Deadline < time.Millisecond:
		return millrace.ErrBadArgument.Saying("the deadline is not a millisecond away: %s", d.Deadline)
	}
	return nil
}

// options are a draft's delay, deadline and dedupe id as the script takes them.
// Each tenant has dedupe ids of its own.
func (d Draft) options() string {
	if d.Delay == 0 && d.Deadline == 0 && d.DedupeID == "" {
		return ""
	}
	name := ""
	if d.DedupeID != "" {
		name = strconv.Itoa(len(d.Tenant)) + ":" + d.Tenant + ":" + d.DedupeID
	}
	return millis(d.Delay) + " " + millis(d.Deadline) + " " + name
}

func textual(headers map[string]string) bool {
	for name, value := range headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return true
}

// carried returns headers with what hooks add to them.
func (q *Queue) carried(ctx context.Context, headers map[string]string) map[string]string {
	copied := false
	for _, hook := range q.cfg.Hooks {
		carrier, ok := hook.(millrace.CarryHook)
		if !ok {
			continue
		}
		if !copied {
			headers, copied = maps.Clone(headers), true
			if headers == nil {
				headers = make(map[string]string)
			}
		}
		carrier.OnWrite(ctx, headers)
	}
	return headers
}

// write makes one script call, and another one when the queue has another shape
// than was known.
func (q *Queue) write(ctx context.Context, drafts []draft) ([]Written, error) {
	request := q.run.Request(ctx)
	defer request.Done()
	for {
		known := q.shaped()
		reply, err := q.run.RunRequest(ctx, request, "write", baseKey(q.name), q.writeArgs(known, drafts)...)
		if err != nil {
			return nil, err
		}
		q.entry.Touch()
		if reply.Text() == "written" {
			return readWritten(reply, len(drafts))
		}
		now := shape{streams: int(reply.Int()), perTenant: int(reply.Int())}
		if err := reply.Err(); err != nil {
			return nil, err
		}
		q.reshape(now)
	}
}

// writeArgs are the arguments of the script for so many drafts. Drafts of one
// tenant share the list of its streams.
func (q *Queue) writeArgs(known shape, drafts []draft) []string {
	numbers := make(map[string]string, len(drafts)) // of the tenants, from 1 on
	var shards []string
	messages := make([]string, 0, 8*len(drafts))
	careful := "0"
	for _, d := range drafts {
		number, ok := numbers[d.Tenant]
		if !ok {
			number = strconv.Itoa(len(numbers) + 1)
			numbers[d.Tenant] = number
			shards = known.appendShard(shards, d.Tenant)
		}
		options := d.options()
		if options != "" {
			careful = "1"
		}
		messages = append(messages, number, options, strconv.Itoa(len(d.fields)))
		messages = append(messages, d.fields...)
	}
	args := make([]string, 0, 8+len(shards)+len(messages))
	args = append(args, strconv.Itoa(known.streams), strconv.Itoa(known.perTenant), q.cfg.Group, strconv.Itoa(q.cfg.MaxAttempts),
		millis(q.cfg.DedupeWindow), q.cfg.expiry(), careful, strconv.Itoa(len(numbers)))
	return append(append(args, shards...), messages...)
}

// readWritten reads what the script answers for n drafts.
func readWritten(reply *script.Reply, n int) ([]Written, error) {
	ids := strings.Fields(reply.Text())
	if err := reply.Err(); err != nil {
		return nil, err
	}
	if len(ids) != n {
		return nil, fmt.Errorf("fairqueue.write answered %d ids for %d messages", len(ids), n)
	}
	written := make([]Written, n)
	for i, id := range ids {
		name, duplicate := strings.CutPrefix(id, "=")
		written[i] = Written{ID: name, Duplicate: duplicate}
	}
	return written, nil
}

// appendShard appends a tenant's streams as the script takes them.
func (s shape) appendShard(list []string, tenant string) []string {
	for _, index := range shuffleshard.Get(s.streams, s.perTenant, tenant) {
		list = append(list, strconv.Itoa(index))
	}
	return list
}

// millis rounds up, so that nothing comes too early and no time becomes none.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}
