package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

type queueWrite struct {
	queueName
	ops.Write
	Batch bool `help:"Write one message for each line of standard input, which is a JSON object."`
}

func (*queueWrite) Help() string {
	return `Without --body the body is the standard input, byte for byte. With --batch each line is an object with the fields tenant, body, headers, priority, cost, delay, deadline, dedupe, source, position and batch, which mean what the flags do. All lines are checked before the first is written, so the input must fit in memory; then they are written 1,000 at a time. Blank lines are skipped.

    {"tenant":"acme","body":"hello","headers":{"kind":"greeting"},"delay":"10m","dedupe":"order-17"}
    {"tenant":"acme","body":{"base64":"/wA="},"deadline":"1h"}

If you run it again after a lost answer, it may write a message twice, unless the message has a dedupe id or a position.`
}

func (c *queueWrite) Run(ctx context.Context, a *app) error {
	if _, err := fairqueue.New(nil, string(c.Name), c.config()); err != nil {
		return err // before it reads a body
	}
	if c.Batch {
		return c.batch(ctx, a)
	}
	if c.Tenant == "" {
		return errUsage.Errorf("the message has no tenant").WithHint("Name it with --tenant, or write many with --batch.")
	}
	if err := checkDraft(c.Message()); err != nil {
		return err
	}
	if !a.given("body") {
		body, err := a.input(ctx)
		if err != nil {
			return err
		}
		c.Body = jsontype.Text(body)
	}
	return c.with(ctx, a, c.config(), func(q *fairqueue.Queue) (any, table, error) {
		doc, err := ops.WriteMessage.Do(ctx, q, c.Write)
		if err != nil {
			return nil, nil, inDoubt(err, []fairqueue.Draft{c.Message()}, 0)
		}
		said := "%s written"
		if doc.Duplicate {
			said = "%s was written before"
		}
		name := doc.ID
		if name == "" {
			name = fmt.Sprintf("position %d of %s", c.Position, c.Source)
		}
		return doc, says(said, name), nil
	})
}

func (c *queueWrite) config() fairqueue.Config {
	return fairqueue.Config{Streams: c.Streams, PerTenant: c.PerTenant}
}

// maxLabel is the longest tenant and dedupe id in bytes.
const maxLabel = 512

// checkDraft rejects a message that cannot be written.
func checkDraft(d fairqueue.Draft) error {
	switch {
	case d.Tenant == "":
		return millrace.ErrBadArgument.Errorf("the message has no tenant")
	case len(d.Tenant) > maxLabel:
		return millrace.ErrBadArgument.Errorf("the tenant is %d bytes long, more than %d", len(d.Tenant), maxLabel)
	case len(d.DedupeID) > maxLabel:
		return millrace.ErrBadArgument.Errorf("the dedupe id is %d bytes long, more than %d", len(d.DedupeID), maxLabel)
	case len(d.Source) > maxLabel:
		return millrace.ErrBadArgument.Errorf("the source is %d bytes long, more than %d", len(d.Source), maxLabel)
	case (d.Source == "") != (d.Position == 0) || d.Position < 0:
		return millrace.ErrBadArgument.Errorf("the message has a source and a position from 1 on, or neither")
	case d.Source != "" && d.DedupeID != "":
		return millrace.ErrBadArgument.Errorf("the message has a source or a dedupe id, not both").WithHint("Leave the dedupe id out: a position is written once.")
	case d.Priority < -4 || d.Priority > 4:
		return millrace.ErrBadArgument.Errorf("a priority is from -4 to 4, not %d", d.Priority)
	case d.Cost < 0 || d.Cost > 1_000_000:
		return millrace.ErrBadArgument.Errorf("a cost is from 1 to 1,000,000, not %d", d.Cost).WithHint("Choose a larger unit, such as thousands of tokens.")
	case d.Delay < 0:
		return millrace.ErrBadArgument.Errorf("the delay is negative: %s", d.Delay)
	case d.TTL < 0 || d.TTL > 0 && d.TTL < time.Millisecond:
		return millrace.ErrBadArgument.Errorf("the deadline is not a millisecond away: %s", d.TTL)
	}
	for name, value := range d.Headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return millrace.ErrBadArgument.Errorf("the header %q is not UTF-8", name).WithHint("Headers are text; put bytes into the body.")
		}
	}
	return nil
}

// batch writes one message for each line of standard input.
func (c *queueWrite) batch(ctx context.Context, a *app) error {
	if c.Tenant != "" || a.given("body") || c.Priority != 0 || c.Cost != 0 || c.Delay.Duration != 0 || c.Deadline.Duration != 0 || c.Dedupe != "" || c.Source != "" || c.Position != 0 || len(c.Headers) > 0 {
		return errUsage.Errorf("with --batch each line describes its message, and flags cannot").WithHint(`Put it into the lines: {"tenant":"acme","body":"hello","delay":"10m"}`)
	}
	input, err := a.input(ctx)
	if err != nil {
		return err
	}
	drafts, err := readLines(input)
	if err != nil {
		return err
	}
	return c.with(ctx, a, c.config(), func(q *fairqueue.Queue) (any, table, error) {
		written, err := q.WriteBatch(ctx, drafts...)
		if err != nil {
			return nil, nil, inDoubt(err, drafts, len(written))
		}
		doc := struct {
			IDs        []string `json:"ids"`
			Duplicates int      `json:"duplicates,omitempty"`
		}{IDs: make([]string, len(written))}
		for i, m := range written {
			doc.IDs[i] = m.ID
			if m.Duplicate {
				doc.Duplicates++
			}
		}
		said := readable.Count(len(written)-doc.Duplicates, "message") + " written"
		if doc.Duplicates > 0 {
			said += fmt.Sprintf(", %d written before", doc.Duplicates)
		}
		return doc, says("%s", said), nil
	})
}

// errLine means that a line of standard input describes no message. Redis was not
// asked.
var errLine = &millrace.Error{
	Code: "bad_line",
	Hint: `Nothing was written. Each line is one object, such as {"tenant":"acme","body":"hello"}: see millrace queue write --help`,
}

// readLines reads and checks the messages that lines describe.
func readLines(input []byte) ([]fairqueue.Draft, error) {
	var drafts []fairqueue.Draft
	number := 0
	for line := range bytes.Lines(input) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		d, err := readLine(line)
		if err != nil {
			return nil, errLine.Errorf("line %d: %s", number, err)
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}

func readLine(line []byte) (fairqueue.Draft, error) {
	if !utf8.Valid(line) {
		return fairqueue.Draft{}, errors.New(`it is not UTF-8; bytes are given as {"base64":"..."}`)
	}
	var doc ops.Draft
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&doc); err != nil {
		return fairqueue.Draft{}, sayInJSON(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fairqueue.Draft{}, errors.New("something follows the object")
	}
	if err := doc.Check(); err != nil {
		return fairqueue.Draft{}, err
	}
	d := doc.Message()
	return d, checkDraft(d)
}

// sayInJSON turns errors about Go types into errors about JSON.
func sayInJSON(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the object does not end")
	case !ok:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case wrong.Field == "":
		return fmt.Errorf("it is a JSON %s and no object", wrong.Value)
	case strings.HasPrefix(wrong.Field, "headers"):
		return errors.New("headers are an object of strings")
	case wrong.Field == "delay", wrong.Field == "deadline":
		return fmt.Errorf(`%s is a duration in quotes, such as "10m", and not a JSON %s`, wrong.Field, wrong.Value)
	case wrong.Field == "priority", wrong.Field == "cost":
		return fmt.Errorf("%s is a whole number, and not a JSON %s", wrong.Field, wrong.Value)
	}
	return fmt.Errorf(`%s is a string or {"base64":"..."}, and not a JSON %s`, wrong.Field, wrong.Value)
}

// inDoubt adds to the error of a write how many messages are written, and whether
// more may be because an answer was lost. An error that says that none is written
// stays as it is.
func inDoubt(err error, drafts []fairqueue.Draft, written int) error {
	code := describe(err).Code
	lost := code == "unreachable" || code == "interrupted" || code == "failed"
	if !lost && written == 0 {
		return err
	}
	said := &millrace.Error{Code: code, Err: err}
	switch {
	case len(drafts) == 1:
		said.Message = "the message may be written"
	case lost:
		said.Message = fmt.Sprintf("%d of %d messages are written, and perhaps the next ones up to 100", written, len(drafts))
	default:
		said.Message = fmt.Sprintf("%d of %d messages are written", written, len(drafts))
	}
	switch {
	case !lost:
		said.Hint = "Write the others when the cause is fixed."
	case placed(drafts):
		said.Hint = "Write again: no position is written twice."
	case deduped(drafts):
		said.Hint = "Write again within 5 minutes: what is written already has its dedupe id, and is not written twice."
	default:
		said.Hint = "Look with millrace queue stats; with dedupe ids it could be written again without harm."
	}
	return said
}

// deduped reports whether all drafts have a dedupe id.
func deduped(drafts []fairqueue.Draft) bool {
	return !slices.ContainsFunc(drafts, func(d fairqueue.Draft) bool { return d.DedupeID == "" })
}

// placed reports whether all drafts have a position.
func placed(drafts []fairqueue.Draft) bool {
	return !slices.ContainsFunc(drafts, func(d fairqueue.Draft) bool { return d.Source == "" })
}
