package fairqueue

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace"
)

// maxLabel is the longest tenant and dedupe id in bytes.
const maxLabel = 512

// Draft is a message to write. With its tenant and headers it has at most a mebibyte.
type Draft struct {
	// Tenant is the owner of the message. Tenants take turns. 1 to 512 bytes; a tenant
	// needs no registration.
	Tenant string

	// Body is the content: any bytes.
	Body []byte

	// Headers travel with the body, as UTF-8 text. Defaults to none.
	Headers map[string]string

	// Priority orders the messages of the same tenant, from -4 for last to 4 for first.
	// It gives no tenant more turns. Defaults to 0.
	Priority int

	// Cost is the message's cost beside others: tokens of a model, rows of an export.
	// Tenants with messages get the same sum of costs delivered, or sums in proportion to their weights,
	// and the rate of a tenant counts costs: a message that costs more than its burst starts
	// when nothing was delivered for that long, and its tenant then waits. Each delivery of
	// the message costs that, also the second one. With Streams, a stream has the turns, and pays. 1 to
	// 1,000,000; divided by the weight it counts as at most 1,000,000. Defaults to 1.
	Cost int

	// Delay is how long the message waits before it may be read, in whole milliseconds.
	// Defaults to 0.
	Delay time.Duration

	// TTL is the time from the write on after which a message that was not delivered
	// expires and is removed, in whole milliseconds. Defaults to 0, never.
	TTL time.Duration

	// DedupeID makes a second write of the tenant with the same id within
	// [Config.DedupeWindow] return the message of the first, unless that was cancelled.
	// At most 512 bytes. Defaults to none.
	DedupeID string

	// Source and Position make the write apply once, however late and by whichever
	// process it is repeated: without a window, unlike DedupeID. A source is
	// something that numbers its messages 1, 2, 3 and so on: an outbox table, a partition
	// of a log. The queue remembers the position of each source in the same step as the
	// message. A draft with a lower or the same position writes nothing and is a
	// duplicate; one that leaves out a position is refused ([ErrGap]). See [Sources.Position].
	// A source has 1 to 512 bytes; a queue has at most 1,000. Both default to none.
	Source   string
	Position int64

	// Batch is the batch that counts the message: see [Queue.Batches]. A draft for a batch that takes no more is refused
	// ([ErrBatch]). Defaults to none.
	Batch string
}

// maxPosition is the highest position: scripts count without loss up to there.
const maxPosition = 1e15

// maxCost is the highest cost of a message.
const maxCost = 1_000_000

func (d Draft) check() error {
	bad := millrace.ErrBadArgument
	switch {
	case d.Tenant == "":
		return bad.Errorf("a message has no tenant").
			WithHint("Set Draft.Tenant. Without tenants, use one name for all messages.")
	case len(d.Tenant) > maxLabel:
		return bad.Errorf("the tenant has %d bytes, more than %d", len(d.Tenant), maxLabel)
	case len(d.DedupeID) > maxLabel:
		return bad.Errorf("the dedupe id has %d bytes, more than %d", len(d.DedupeID), maxLabel)
	case len(d.Source) > maxLabel:
		return bad.Errorf("the source has %d bytes, more than %d", len(d.Source), maxLabel)
	case (d.Source == "") != (d.Position == 0):
		return bad.Errorf("a draft has a source and a position from 1 on, or neither: %.60q and %d", d.Source, d.Position)
	case d.Position < 0 || d.Position > maxPosition:
		return bad.Errorf("a position is from 1 to 10^15, not %d", d.Position)
	case d.Source != "" && d.DedupeID != "":
		return bad.Errorf("a draft has a source or a dedupe id, not both").
			WithHint("Leave the dedupe id out: a position is written once.")
	case d.Batch != "" && !idForm.MatchString(d.Batch):
		return bad.Errorf("not the id of a batch: %.60q", d.Batch)
	case !isText(d.Headers):
		return bad.Errorf("a header is not UTF-8 text; put bytes into the body")
	case d.Priority < -4 || d.Priority > 4:
		return bad.Errorf("a priority is from -4 to 4, not %d", d.Priority)
	case d.Cost < 0 || d.Cost > maxCost:
		return bad.Errorf("a cost is from 1 to %d, not %d", maxCost, d.Cost).
			WithHint("Choose a larger unit, such as thousands of tokens.")
	case d.Delay < 0:
		return bad.Errorf("the delay is negative: %s", d.Delay)
	case d.TTL < 0 || d.TTL > 0 && d.TTL < time.Millisecond:
		return bad.Errorf("the TTL is less than a millisecond: %s", d.TTL)
	}
	return nil
}

func isText(headers map[string]string) bool {
	for name, value := range headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return true
}

// options are the priority, delay, TTL, cost, batch, and dedupe id or position, as the script takes them. Each tenant
// has dedupe ids of its own.
func (d Draft) options() string {
	priority := strconv.Itoa(4 - d.Priority)
	if d.Delay == 0 && d.TTL == 0 && d.Cost <= 1 && d.DedupeID == "" && d.Source == "" && d.Batch == "" {
		return priority
	}
	name := ""
	if d.DedupeID != "" {
		name = escape.Replace(strconv.Itoa(len(d.Tenant)) + ":" + d.Tenant + ":" + d.DedupeID)
	}
	if d.Source != "" {
		name = "@" + strconv.FormatInt(d.Position, 10) + " " + d.Source
	}
	return priority + " " + millis(d.Delay) + " " + millis(d.TTL) + " " + strconv.Itoa(max(1, d.Cost)) + " " + cmp.Or(d.Batch, "0") + " " + name
}

// The flags in the first byte of a stored body.
const (
	withHeaders = 1 << iota // the headers follow: their length and JSON
	zipped                  // the body is compressed by gzip
)

// encode returns the body as it is stored: a byte of flags, the headers if any, the body.
func (d Draft) encode(zip int) (string, error) {
	flags, body := byte(0), d.Body
	if zip > 0 && len(body) >= zip {
		if packed := pack(body); len(packed) < len(body) {
			body, flags = packed, flags|zipped
		}
	}
	headers := []byte(nil)
	if len(d.Headers) > 0 {
		text, err := json.Marshal(d.Headers)
		if err != nil {
			return "", err
		}
		flags |= withHeaders
		headers = append(binary.AppendUvarint(nil, uint64(len(text))), text...)
	}
	size := 1 + len(headers) + len(body) + len(d.Tenant) + len(d.DedupeID) + len(d.Source)
	if size > maxMessage {
		return "", millrace.ErrTooLarge.Errorf("the message has %d bytes with its tenant and headers, more than %d", size, maxMessage)
	}
	text := make([]byte, 0, 1+len(headers)+len(body))
	text = append(append(append(text, flags), headers...), body...)
	return string(text), nil
}

// decode is the inverse of encode.
func decode(text string) (headers map[string]string, body []byte, err error) {
	if text == "" {
		return nil, nil, fmt.Errorf("the body is missing")
	}
	flags, rest := text[0], []byte(text[1:])
	if flags&withHeaders != 0 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, nil, fmt.Errorf("the headers are cut off")
		}
		if err := json.Unmarshal(rest[n:n+int(size)], &headers); err != nil {
			return nil, nil, fmt.Errorf("headers: %w", err)
		}
		rest = rest[n+int(size):]
	}
	if flags&zipped != 0 {
		if rest, err = unpack(rest); err != nil {
			return nil, nil, fmt.Errorf("body: %w", err)
		}
	}
	if flags > withHeaders|zipped {
		return nil, nil, fmt.Errorf("unknown encoding %d", flags)
	}
	return headers, rest, nil
}

func pack(body []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body) // a buffer takes all
	_ = w.Close()
	return packed.Bytes()
}

func unpack(body []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// millis returns whole milliseconds, rounded up.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}
