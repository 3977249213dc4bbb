package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
)

// Written is the message of a draft.
type Written struct {
	ID        string // "" of a draft that was refused, and of a duplicate by its position
	Duplicate bool   // an earlier write had the same dedupe id, whose message this is, or the same position
}

// Write writes one message and returns its id. After a lost reply the library writes again
// and gets the first answer.
//
// Errors: [millrace.ErrBadArgument] for an invalid draft and [millrace.ErrTooLarge], before
// Redis is asked; [millrace.ErrBroken], [millrace.ErrVersion], [millrace.ErrFull], and then
// nothing was written; [ErrTenantFull]. With a source also [ErrGap] and [ErrSources], with a batch [ErrBatch]; the id of a duplicate by
// its position is "".
func (q *Queue) Write(ctx context.Context, d Draft) (string, error) {
	written, err := q.WriteBatch(ctx, d)
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}

// encoded is a draft as the script takes it.
type encoded struct {
	tenant, options, body string
}

func (e encoded) bytes() int { return len(e.tenant) + len(e.options) + len(e.body) }

// cost is the server's cost of the draft. A message that may go to several flows has the
// messages in each of them counted.
func (e encoded) cost(candidates int) int {
	n := 1 + candidates
	if candidates > 0 {
		n *= 2
	}
	if len(e.options) > 1 { // a delay, a deadline or a dedupe id
		n++
	}
	return n
}

// writeRequest is one caller's part of a call.
type writeRequest struct {
	q           *Queue
	drafts      []encoded
	cost, bytes int
}

// WriteBatch writes several messages. It checks all drafts before it writes the first, and
// returns their messages in the order of the drafts.
//
// It makes one call to Redis for each 100 messages, and for fewer if they have delays,
// deadlines or dedupe ids (50), may go to several streams (10), or have more than a
// mebibyte. Each call is applied whole or not at all. With an error, WriteBatch returns the messages
// it wrote before: those of the first drafts. The others were not written, but after
// [millrace.ErrUncertain] those of one call may have been. To repeat a batch without
// duplicates, give its drafts dedupe ids, or a source and positions.
//
// A draft that the queue refuses ([ErrTenantFull], [ErrGap], [ErrSources], [ErrBatch]) stops no other: its Written has no
// ID and is no duplicate, and the error is the one of the first such draft.
//
// Errors: as of [Queue.Write]. Goroutines share calls.
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
	candidates := q.known().perTenant
	if reqid.Seeded(ctx) { // a repeat by another process must make the same calls
		candidates = defaultPerTenant
	}
	done := make([]Written, 0, len(drafts))
	var refused error
	for _, r := range q.writeRequests(all, candidates) {
		err := q.observe(ctx, "write", func(ctx context.Context) error {
			answer, err := q.shared.doWrite(ctx, r)
			done = append(done, answer.written...)
			refused = cmp.Or(refused, answer.refused)
			return err
		})
		if err != nil {
			return done, err
		}
	}
	return done, refused
}

// writeRequests divides drafts into requests of bounded cost.
func (q *Queue) writeRequests(drafts []encoded, candidates int) (requests []writeRequest) {
	for len(drafts) > 0 {
		r := writeRequest{q: q}
		n := 0
		for n < len(drafts) {
			cost, bytes := drafts[n].cost(candidates), drafts[n].bytes()
			if n > 0 && (r.cost+cost > callBudget || r.bytes+bytes > maxMessage) {
				break
			}
			r.cost, r.bytes, n = r.cost+cost, r.bytes+bytes, n+1
		}
		r.drafts, drafts = drafts[:n], drafts[n:]
		requests = append(requests, r)
	}
	return requests
}

// carried returns headers with those that hooks add.
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

// writeAnswer is the answer to a writeRequest.
type writeAnswer struct {
	written []Written
	refused error // of the first draft that was refused; the others were written
}

// writeTogether reports whether a request can share a call with others: it stores the same
// settings, and is not large.
func writeTogether(others []writeRequest, r writeRequest) bool {
	first := others[0]
	a, b := first.q.cfg, r.q.cfg
	return first.bytes < aloneBytes && r.bytes < aloneBytes && first.q.known() == r.q.known() &&
		a.MaxAttempts == b.MaxAttempts && a.DedupeWindow == b.DedupeWindow && a.expiry() == b.expiry()
}

// errStreams means that the queue has other streams than known, so that nothing was written.
var errStreams = errors.New("the queue has other streams")

// doWrite shares a call with other writers. A request under a seed has a call of its own,
// because a repeat must find its answer.
func (d *dispatcher) doWrite(ctx context.Context, r writeRequest) (done writeAnswer, err error) {
	if reqid.Seeded(ctx) {
		answers, err := d.write(ctx, []writeRequest{r})
		if err != nil {
			return writeAnswer{}, err
		}
		return answers[0], nil
	}
	done, err = d.writes.Do(ctx, r)
	if !errors.Is(err, errStreams) {
		return done, err
	}
	for _, r := range r.q.writeRequests(r.drafts, r.q.known().perTenant) { // their cost is another one
		answer, err := d.doWrite(ctx, r)
		done.written = append(done.written, answer.written...)
		done.refused = cmp.Or(done.refused, answer.refused)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// write makes one script call.
func (d *dispatcher) write(ctx context.Context, requests []writeRequest) ([]writeAnswer, error) {
	ctx, cancel := script.Within(ctx, callTimeout)
	defer cancel()
	request := d.run.Request(ctx)
	defer request.Done()
	q, messages := requests[0].q, 0
	for _, r := range requests {
		messages += len(r.drafts)
	}
	if answers, err := d.writePlain(ctx, request, requests, messages); answers != nil || err != nil {
		return answers, err
	}
	for {
		known := q.known()
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
		other, text, digest := reply.Bool(), reply.Text(), reply.Text()
		if err := reply.Err(); err != nil {
			return nil, err
		}
		if !other {
			q.entry.Touch()
			d.settings.Store(&settings{q.cfg.MaxAttempts, q.cfg.expiry(), digest})
			return readWritten(text, requests, messages)
		}
		for _, r := range requests {
			r.q.learn(readStreams(text))
		}
		if !reqid.Seeded(ctx) {
			return nil, errStreams
		}
	}
}

// settings are those that a write stored, or found, and their digest.
type settings struct {
	attempts int
	expiry   string
	digest   string
}

// writePlain makes a short call for messages that have nothing but a priority. It returns nil if it takes the general one.
func (d *dispatcher) writePlain(ctx context.Context, request *reqid.Request, requests []writeRequest, messages int) ([]writeAnswer, error) {
	q, known := requests[0].q, d.settings.Load()
	if messages == 0 || request.Keyed() || d.generalWrite.is() || known == nil || known.attempts != q.cfg.MaxAttempts ||
		known.expiry != q.cfg.expiry() {
		return nil, nil
	}
	streams, each := q.known(), 0
	if streams.count > 0 {
		each = streams.perTenant
	}
	args := make([]string, 2, 2+(max(1, each)+3)*messages)
	args[0], args[1] = known.digest, strconv.Itoa(each)
	for _, r := range requests {
		for _, e := range r.drafts {
			if len(e.options) > 1 {
				return nil, nil
			}
			args = append(args, streams.candidates(e.tenant)...)
		}
	}
	for _, of := range []func(encoded) string{
		func(e encoded) string { return "o" + tenantFlow(e.tenant) },
		func(e encoded) string { return e.options },
		func(e encoded) string { return e.body },
	} {
		for _, r := range requests {
			for _, e := range r.drafts {
				args = append(args, of(e))
			}
		}
	}
	reply, err := d.run.RunRequest(ctx, request, "write_plain", baseKey(d.name), args...)
	if err != nil {
		return nil, err
	}
	text := reply.Text()
	if err := reply.Err(); err != nil {
		return nil, err
	}
	switch text {
	case "general":
		d.generalWrite.note()
		return nil, nil
	case "new":
		return nil, nil
	}
	q.entry.Touch()
	return readWritten(text, requests, messages)
}

// readWritten reads the ids that the script answers.
func readWritten(text string, requests []writeRequest, messages int) ([]writeAnswer, error) {
	ids := strings.Fields(text)
	if len(ids) != messages {
		return nil, fmt.Errorf("the script fairqueue.write answered %d ids for %d messages", len(ids), messages)
	}
	answers := make([]writeAnswer, len(requests))
	for i, r := range requests {
		a := &answers[i]
		for _, id := range ids[:len(r.drafts)] {
			if id == "!" {
				a.written, a.refused = append(a.written, Written{}), cmp.Or(a.refused, error(ErrTenantFull))
				continue
			}
			if id == "*" {
				a.written, a.refused = append(a.written, Written{}), cmp.Or(a.refused, error(ErrBatch))
				continue
			}
			if reason, refused := strings.CutPrefix(id, "?"); refused {
				a.written, a.refused = append(a.written, Written{}), cmp.Or(a.refused, refusal(reason))
				continue
			}
			name, duplicate := strings.CutPrefix(id, "=")
			a.written = append(a.written, Written{ID: name, Duplicate: duplicate})
		}
		ids = ids[len(r.drafts):]
	}
	return answers, nil
}
