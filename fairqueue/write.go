package fairqueue

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
)

// Written is what became of a draft.
type Written struct {
	ID        string // of the message
	Duplicate bool   // it was written before, under the same dedupe id
}

// Write writes one message and returns its id. After a lost reply the library
// writes again and gets the first one's answer.
//
// Errors: [millrace.ErrBadArgument] for an invalid draft and [millrace.ErrTooLarge], before
// Redis was asked; [millrace.ErrBroken], [millrace.ErrVersion], [millrace.ErrFull], and
// then nothing was written.
func (q *Queue) Write(ctx context.Context, d Draft) (string, error) {
	written, err := q.WriteBatch(ctx, d)
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}

// writeRequest is one caller's messages.
type writeRequest struct {
	q      *Queue
	drafts []encoded
	bytes  int
}

// size is what the request costs, in messages of a tenant that is a flow. One that may go to
// several streams has them counted first, which costs as much again.
func (r writeRequest) size() int { return len(r.drafts) * max(1, r.q.cfg.PerTenant) }

// encoded is a draft as the script takes it.
type encoded struct {
	tenant, options, body string
}

func (e encoded) size() int { return len(e.tenant) + len(e.options) + len(e.body) }

// WriteBatch writes several messages in one call for each 1,000 of them or mebibyte, which
// is applied whole. Goroutines that write at the same time share calls. All drafts
// are checked before the first is written. It returns what became of each, in
// their order; with an error, of those that are written.
func (q *Queue) WriteBatch(ctx context.Context, drafts ...Draft) ([]Written, error) {
	all := make([]encoded, len(drafts))
	for i, d := range drafts {
		if err := d.check(); err != nil {
			return nil, err
		}
		d.Headers = q.carried(ctx, d.Headers)
		body, err := d.encode(q.cfg.Gzip)
		if err != nil {
			return nil, err
		}
		all[i] = encoded{tenant: d.Tenant, options: d.options(), body: body}
	}
	done := make([]Written, 0, len(drafts))
	for len(all) > 0 {
		n, size := 0, 0
		for n < len(all) && n < chunk && (n == 0 || size+all[n].size() <= MaxMessage) {
			size += all[n].size()
			n++
		}
		request := writeRequest{q: q, drafts: all[:n], bytes: size}
		err := q.observe(ctx, "write", func(ctx context.Context) error {
			var some []Written
			var err error
			if reqid.Seeded(ctx) { // what shares its call would be asked as a request that is not its own
				var answers [][]Written
				if answers, err = q.shared.write(ctx, []writeRequest{request}); err == nil {
					some = answers[0]
				}
			} else {
				some, err = q.shared.writes.Do(ctx, request)
			}
			done = append(done, some...)
			return err
		})
		if err != nil {
			return done, err
		}
		all = all[n:]
	}
	return done, nil
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

// writeTogether reports whether a request goes with others: what it has stored is the
// same, and it is not large.
func writeTogether(others []writeRequest, r writeRequest) bool {
	first := others[0]
	a, b := first.q.cfg, r.q.cfg
	return first.bytes < aloneBytes && r.bytes < aloneBytes && first.q.known() == r.q.known() &&
		a.MaxAttempts == b.MaxAttempts && a.DedupeWindow == b.DedupeWindow && a.expiry() == b.expiry()
}

// write makes one script call, and another one when flows are something else in the queue
// than was known.
func (d *dispatcher) write(ctx context.Context, requests []writeRequest) ([][]Written, error) {
	ctx, cancel := script.Within(ctx, callTimeout)
	defer cancel()
	request := d.run.Request(ctx)
	defer request.Done()
	q, messages := requests[0].q, 0
	for _, r := range requests {
		messages += len(r.drafts)
	}
	for known := q.known(); ; {
		args := make([]string, 0, 4+3*messages)
		args = append(args, strconv.Itoa(q.cfg.MaxAttempts), millis(q.cfg.DedupeWindow), q.cfg.expiry(), known.setting())
		for _, r := range requests {
			for _, e := range r.drafts {
				args = append(args, known.flows(e.tenant), e.options, e.body)
			}
		}
		reply, err := d.run.RunRequest(ctx, request, "write", baseKey(d.name), args...)
		if err != nil {
			return nil, err
		}
		other, text := reply.Bool(), reply.Text()
		if err := reply.Err(); err != nil {
			return nil, err
		}
		if other {
			known = readStreams(text)
			for _, r := range requests {
				r.q.learn(known)
			}
			continue
		}
		q.entry.Touch()
		return readWritten(text, requests, messages)
	}
}

// readWritten reads the ids that the script answers.
func readWritten(text string, requests []writeRequest, messages int) ([][]Written, error) {
	ids := strings.Fields(text)
	if len(ids) != messages {
		return nil, fmt.Errorf("the script fairqueue.write answered %d ids for %d messages", len(ids), messages)
	}
	answers := make([][]Written, len(requests))
	for i, r := range requests {
		for _, id := range ids[:len(r.drafts)] {
			name, duplicate := strings.CutPrefix(id, "=")
			answers[i] = append(answers[i], Written{ID: name, Duplicate: duplicate})
		}
		ids = ids[len(r.drafts):]
	}
	return answers, nil
}
