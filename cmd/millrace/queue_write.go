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

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/readable"
)

type queueWrite struct {
	queueName
	Tenant    document.Text `placeholder:"T" help:"The tenant to whom the message belongs."`
	Body      optionalText  `placeholder:"TEXT" help:"The message's body. Defaults to standard input, byte for byte."`
	Priority  int           `placeholder:"P" help:"Its place among the messages of its tenant, from -4 for last to 4 for first. Defaults to 0."`
	Cost      int           `placeholder:"N" help:"What it costs, such as tokens of a model, up to 1,000,000: tenants get the same sum of costs delivered, and rates count costs. Defaults to 1."`
	Delay     time.Duration `placeholder:"DURATION" help:"For how long it may not be read yet, such as 500ms or 2h."`
	Deadline  time.Duration `placeholder:"DURATION" help:"After how long it expires. Defaults to never."`
	Dedupe    document.Text `placeholder:"ID" help:"Write it only if nothing was written under this id in the last 5 minutes."`
	Source    document.Text `placeholder:"S" help:"What numbers its messages 1, 2, 3 and so on, such as a table."`
	Position  int64         `placeholder:"N" help:"The message's number in its source: it is written once, however late you repeat it."`
	Header    []string      `sep:"none" placeholder:"K=V" help:"What travels with the body, as text; may be repeated."`
	Batch     bool          `help:"Write one message for each line of standard input, which is a JSON object."`
	Streams   int           `placeholder:"N" help:"How many streams the flows of the queue are if it is new. Defaults to 0, a flow for each tenant."`
	PerTenant int           `placeholder:"K" help:"How many of them a tenant has, if the queue is new and has streams. Defaults to 4."`
}

// optionalText is a flag's value that may be empty, and may be absent.
type optionalText struct {
	document.Text

	given bool
}

// Decode reads a flag; kong calls it.
func (o *optionalText) Decode(ctx *kong.DecodeContext) error {
	o.given = true
	var err error
	o.Text, err = document.ParseText(word(ctx))
	return err
}

func (*queueWrite) Help() string {
	return `With --batch each line is an object with the fields tenant, body, headers, priority, cost, delay, deadline, dedupe, source and position, which mean what the flags do. All lines are checked before the first is written, so the input must fit in memory; then they are written 1,000 at a time. Blank lines are skipped.

If you run it again after a lost answer, it may write a message twice, unless the message has a dedupe id or a position.

Examples:

    millrace queue write orders --tenant acme --body hello
    millrace queue write orders --tenant acme --delay 10m --dedupe order-17 < order.json
    millrace queue write orders --batch < orders.jsonl

    {"tenant":"acme","body":"hello","headers":{"kind":"greeting"},"delay":"10m","dedupe":"order-17"}
    {"tenant":"acme","body":{"base64":"/wA="},"deadline":"1h"}`
}

func (c *queueWrite) Run(ctx context.Context, a *app) error {
	if _, err := fairqueue.New(nil, string(c.Name), c.config()); err != nil {
		return err // before it reads a body
	}
	if c.Batch {
		return c.batch(ctx, a)
	}
	draft, err := c.draft(ctx, a)
	if err != nil {
		return err
	}
	return c.with(ctx, a, c.config(), func(q *fairqueue.Queue) (any, table, error) {
		written, err := q.WriteBatch(ctx, draft)
		if err != nil {
			return nil, nil, inDoubt(err, []fairqueue.Draft{draft}, 0)
		}
		doc, said := document.Written(written[0]), "%s written"
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

// draft returns the message that the flags describe.
func (c *queueWrite) draft(ctx context.Context, a *app) (fairqueue.Draft, error) {
	d := fairqueue.Draft{
		Tenant: string(c.Tenant), Body: []byte(c.Body.Text), Priority: c.Priority, Cost: c.Cost,
		Delay: c.Delay, TTL: c.Deadline, DedupeID: string(c.Dedupe),
		Source: string(c.Source), Position: c.Position,
	}
	if d.Tenant == "" {
		return d, errUsage.Errorf("the message has no tenant").WithHint("Name it with --tenant, or write many with --batch.")
	}
	for _, header := range c.Header {
		name, value, ok := strings.Cut(header, "=")
		if !ok || name == "" {
			return d, errUsage.Errorf("a header is NAME=VALUE, not %q", header)
		}
		if _, twice := d.Headers[name]; twice {
			return d, errUsage.Errorf("the header %q is given twice", name)
		}
		decoded, err := document.ParseText(value)
		if err != nil {
			return d, err
		}
		if d.Headers == nil {
			d.Headers = make(map[string]string)
		}
		d.Headers[name] = string(decoded)
	}
	if err := checkDraft(d); err != nil || c.Body.given {
		return d, err
	}
	var err error
	d.Body, err = a.input(ctx)
	return d, err
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
	if c.Tenant != "" || c.Body.given || c.Priority != 0 || c.Cost != 0 || c.Delay != 0 || c.Deadline != 0 || c.Dedupe != "" || c.Source != "" || c.Position != 0 || len(c.Header) > 0 {
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
	var doc document.Draft
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&doc); err != nil {
		return fairqueue.Draft{}, sayInJSON(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fairqueue.Draft{}, errors.New("something follows the object")
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
