package fairqueue

import (
	"context"
	"errors"
	"iter"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// Headers of the message that a batch writes when it is done.
const (
	HeaderBatch          = "millrace-batch"           // the batch's id
	HeaderBatchHandled   = "millrace-batch-handled"   // how many messages were acknowledged
	HeaderBatchDead      = "millrace-batch-dead"      // how many died
	HeaderBatchCancelled = "millrace-batch-cancelled" // how many were cancelled
	HeaderBatchExpired   = "millrace-batch-expired"   // how many expired
	HeaderBatchLeft      = "millrace-batch-left"      // how many had not ended when its 30 days were over; else 0
)

// The states of a batch.
const (
	BatchOpen      = "open"      // its messages are counted
	BatchCancelled = "cancelled" // no more of its messages are delivered; those in flight may end
	BatchDone      = "done"      // its message was written
)

// Bounds of batches.
const (
	maxBatchTotal = 1_000_000_000
	maxBatchEnd   = 16 << 10 // bytes of the message of the end: one call may write a hundred
	maxBatchLook  = 10_000   // deadlines that All looks at
	batchesPage   = 500
)

// Batches are the batches of a queue.
//
// A batch counts messages that belong together: the rows of an import, the parts of a report. When all of them have
// ended, the queue writes one message with the counts. The same step that ends the last one writes it, so it is written
// once, whatever crashes or repeats:
//
//	Create ──▶ open ──┬── all have ended ───────────────────▶ done ── a day ──▶ forgotten
//	                  ├── 30 days ──────────────────────────▶ done
//	                  └── Cancel ──▶ cancelled ── none left ─▶ done
//
// A message ends when it is acknowledged, dies, is cancelled or expires. One that is redriven after its death counts no more.
// Messages without a batch cost no more than without this.
//
// Write the id down before the messages: a batch whose id was lost can only wait for its 30 days. A queue has at most 100,000
// batches. If it has more than 10,000, those that are done are forgotten after a minute.
type Batches struct{ q *Queue }

// Batches returns the batches of the queue.
func (q *Queue) Batches() Batches { return Batches{q} }

// Batch is a batch and what became of its messages so far.
type Batch struct {
	ID    string
	State string // [BatchOpen], [BatchCancelled] or [BatchDone]

	Created time.Time // by the server's clock
	Until   time.Time // when it is done at the latest; of one that is done when it is forgotten

	Total   int // how many messages it will have; -1 until that is known
	Written int // how many it has
	Left    int // how many of them have not ended

	Handled, Dead, Cancelled, Expired int // how the others ended
}

// Create makes a batch of total messages, or of any number until [Batches.Close] if total is 0, and returns its id, for
// [Draft].Batch. done is the message that says that it is done: with [HeaderBatch] and the counts as further headers. It has
// no Delay, DedupeID, Source and Batch, and 16 KiB at most. It may be of another tenant than the messages.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrTooLarge], [millrace.ErrFull], [millrace.ErrBroken], [millrace.ErrVersion].
func (of Batches) Create(ctx context.Context, total int, done Draft) (string, error) {
	bad := millrace.ErrBadArgument
	switch {
	case total < 0 || total > maxBatchTotal:
		return "", bad.Errorf("a batch has 1 to %d messages, or 0 for any number, not %d", maxBatchTotal, total)
	case done.Delay != 0 || done.DedupeID != "" || done.Source != "" || done.Batch != "":
		return "", bad.Errorf("the message of a batch's end has a delay, a dedupe id, a source or a batch").
			WithHint("Leave them out: the queue writes it once, when the batch is done.")
	}
	if err := done.check(); err != nil {
		return "", err
	}
	done.Headers = of.q.carried(ctx, done.Headers)
	body, err := done.encode(of.q.cfg.Gzip)
	switch {
	case err != nil:
		return "", err
	case len(body)+len(done.Tenant) > maxBatchEnd:
		return "", millrace.ErrTooLarge.Errorf("the message of a batch's end has %d bytes, more than %d", len(body)+len(done.Tenant), maxBatchEnd)
	}
	many := none
	if total > 0 {
		many = strconv.Itoa(total)
	}
	for {
		known := of.q.known()
		owner := tenantFlow(done.Tenant)
		flow := known.candidates(done.Tenant)[0]
		if flow == owner {
			flow = ""
		}
		end := millis(done.TTL) + ";" + strconv.Itoa(max(1, done.Cost)) + ";" + strconv.Itoa(4-done.Priority) + flow + owner + "\x01\x01" + body
		reply, err := of.q.call(ctx, "batch", "create", many, end, known.setting())
		if err != nil {
			return "", err
		}
		if reply.None() {
			if err := of.q.create(ctx); err != nil {
				return "", err
			}
			continue
		}
		text := reply.Text()
		if err := reply.Err(); err != nil {
			return "", err
		}
		if setting, other := strings.CutPrefix(text, "?"); other {
			of.q.learn(readStreams(setting))
			continue
		}
		if text == "!" {
			return "", bad.Errorf("the queue has 100,000 batches").WithHint("Close those to which no more messages come, or make larger ones.")
		}
		of.q.entry.Touch()
		return text, nil
	}
}

// Close says that the batch has all its messages, and returns it. It is done when they have ended, so at once if they have.
// A batch that is cancelled or done stays as it is.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion].
func (of Batches) Close(ctx context.Context, id string) (Batch, error) {
	return of.change(ctx, "close", id)
}

// Cancel ends the batch early, and returns it: it takes no more messages, and none of its messages is delivered from now on. Those in
// flight may still be acknowledged or die. Each that waits is removed when its turn comes, and one with a delay after that;
// then the batch is done. Errors: as of [Batches.Close].
func (of Batches) Cancel(ctx context.Context, id string) (Batch, error) {
	return of.change(ctx, "cancel", id)
}

func (of Batches) change(ctx context.Context, verb, id string) (Batch, error) {
	if err := checkBatch(id); err != nil {
		return Batch{}, err
	}
	reply, err := of.q.call(ctx, "batch", verb, id)
	if err != nil {
		return Batch{}, err
	}
	if reply.None() {
		return Batch{}, errNotFound
	}
	text := reply.Text()
	if reply.Err() != nil {
		return Batch{}, reply.Err()
	}
	return readBatch(id, text)
}

// Get returns a batch. Errors: as of [Batches.Close].
func (of Batches) Get(ctx context.Context, id string) (Batch, error) {
	if err := checkBatch(id); err != nil {
		return Batch{}, err
	}
	reply, _, err := look{q: of.q, name: "batch"}.start(ctx, [][]string{{"HGET", ":hot", batchPrefix + id}})
	if err != nil {
		return Batch{}, err
	}
	text := reply.Text()
	if reply.Err() != nil {
		return Batch{}, reply.Err()
	}
	return readBatch(id, text)
}

// All yields batches of the queue: those that are not done, the newest first, and then those that are. It looks at the latest
// 10,000 deadlines, of batches and of messages. A queue that does not exist has none.
func (of Batches) All(ctx context.Context) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		seen := map[string]bool{}
		l := look{q: of.q, name: "batches"}
		for from := 0; from < maxBatchLook; from += batchesPage {
			reply, _, err := l.start(ctx, [][]string{{"ZREVRANGE", ":deadlines", strconv.Itoa(from), strconv.Itoa(from + batchesPage - 1)}})
			var members []string
			if err == nil {
				members = reply.Texts()
				err = reply.Err()
			}
			get := []string{"HMGET", ":hot", "w"}
			for _, m := range members {
				if id, isBatch := strings.CutPrefix(m, batchPrefix); isBatch && !seen[id] {
					seen[id] = true
					get = append(get, m)
				}
			}
			var texts []string
			if err == nil && len(get) > 3 {
				if reply, err = l.pipe(ctx, [][]string{get}); err == nil {
					texts, err = reply.Texts(), reply.Err()
				}
			}
			if err != nil {
				if !errors.Is(err, millrace.ErrNotFound) {
					yield(Batch{}, err)
				}
				return
			}
			for i := 3; i < len(get) && len(texts) > i-2; i++ {
				if texts[i-2] == "" { // it is forgotten by now
					continue
				}
				if b, err := readBatch(get[i][1:], texts[i-2]); !yield(b, err) {
					return
				}
			}
			if len(members) < batchesPage {
				return
			}
		}
	}
}

// Fields of hot: a batch, and the message of its end, by its id.
const (
	batchPrefix = "b"
	endPrefix   = "e"
)

// The text of a batch, and what the header of a message has behind '@'.
var (
	batchText = regexp.MustCompile(`^(\d+);([oxd]);(-|\d+);(\d+);(\d+);(\d+);(\d+);(\d+)$`)
	batchForm = regexp.MustCompile(`^\d{16}(,|(,\d+){5})?$`)
)

func checkBatch(id string) error {
	if !idForm.MatchString(id) {
		return millrace.ErrBadArgument.Errorf("not the id of a batch: %.60q", id)
	}
	return nil
}

func readBatch(id, text string) (Batch, error) {
	if text == "" {
		return Batch{}, millrace.ErrNotFound.Errorf("there is no batch %s", id).
			WithHint("One that is done is forgotten after a day. List the batches with: millrace batch ls")
	}
	parts := batchText.FindStringSubmatch(text)
	if parts == nil {
		return Batch{}, millrace.ErrBroken.Errorf("batch %s cannot be read: %.60q", id, text)
	}
	b := Batch{ID: id, Created: writtenAt(id), State: map[string]string{"o": BatchOpen, "x": BatchCancelled, "d": BatchDone}[parts[2]], Until: milliTime(parts[1]), Total: -1}
	if parts[3] != none {
		b.Total, _ = strconv.Atoi(parts[3])
	}
	for i, n := range []*int{&b.Written, &b.Handled, &b.Dead, &b.Cancelled, &b.Expired} {
		*n, _ = strconv.Atoi(parts[4+i])
	}
	b.Left = b.Written - b.Handled - b.Dead - b.Cancelled - b.Expired
	return b, nil
}

// fillBatch sets what a message says of its batch: which counts it, or the counts of the one whose end it is.
func (m *Message) fillBatch(mark string) {
	id, counts, _ := strings.Cut(mark, ",")
	if counts == "" {
		m.Batch = id
		return
	}
	m.Headers = maps.Clone(m.Headers)
	if m.Headers == nil {
		m.Headers = map[string]string{}
	}
	m.Headers[HeaderBatch] = id
	for i, n := range strings.Split(counts, ",") {
		m.Headers[[]string{HeaderBatchHandled, HeaderBatchDead, HeaderBatchCancelled, HeaderBatchExpired, HeaderBatchLeft}[i]] = n
	}
}

// parseBatch notes a field of hot.
func (r *keys) parseBatch(field, value string) {
	id := field[1:]
	if strings.HasPrefix(field, endPrefix) {
		r.is(r.hot[batchPrefix+id] != "", "field %q is of no batch", field)
		return
	}
	b, err := readBatch(id, value)
	if r.is(err == nil && idForm.MatchString(id), "batch %q: %v", field, err) {
		r.batches[id] = b
	}
}

// checkBatches compares the counts of batches with the messages that are there.
func (r *keys) checkBatches() {
	there := map[string]int{}
	for id, stored := range r.messages {
		if h, _, err := readHeader(stored); err == nil && len(h.batch) == 16 {
			there[h.batch]++
			_, died := r.dead[id]
			r.is(!died, "message %s is dead, and its batch counts it", id)
		}
	}
	for id, b := range r.batches {
		until, isDue := r.deadlines[batchPrefix+id]
		r.is(isDue && int64(until) == b.Until.UnixMilli(), "batch %s ends at %d, and deadlines has %v", id, b.Until.UnixMilli(), until)
		r.is((b.State == BatchDone) == (r.hot[endPrefix+id] == ""), "batch %s is %s, and of the message of its end there are %d bytes", id, b.State, len(r.hot[endPrefix+id]))
		r.is(b.State == BatchDone || b.Left == there[id], "batch %s has %d messages, and counted are %d", id, there[id], b.Left)
		r.is(b.State == BatchDone || b.Left > 0 || b.State == BatchOpen && (b.Total < 0 || b.Written < b.Total), "batch %s has no messages left, and is %s", id, b.State)
		r.is(b.Total < 0 || b.Written <= b.Total, "batch %s has %d messages, more than %d", id, b.Written, b.Total)
	}
	counted, _ := strconv.Atoi(r.settings["batches"])
	r.is(counted == len(r.batches), "%d batches are there, and counted are %d", len(r.batches), counted)
}
