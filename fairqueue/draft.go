package fairqueue

import (
	"bytes"
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

// Draft is a message that is to be written.
type Draft struct {
	// Tenant is whose message it is. Tenants take turns. At most 512 bytes; tenants
	// need not be known beforehand.
	Tenant string

	// Body is what the message says. Any bytes, up to [MaxMessage] with all else.
	Body []byte

	// Headers travel with the body, as UTF-8 text. Defaults to none.
	Headers map[string]string

	// Priority is the place among the messages of the same tenant, from -4 for last
	// to 4 for first; it gives no tenant more turns. Defaults to 0.
	Priority int

	// Delay is for how long the message is set aside before it may be read; in
	// milliseconds at the finest. Defaults to 0, not at all.
	Delay time.Duration

	// Deadline is for how long the message is worth anything, from the write on; in
	// milliseconds at the finest. One that was not delivered by then is gone.
	// Defaults to 0, for ever.
	Deadline time.Duration

	// DedupeID makes a second write of the tenant under the same id within
	// [Config.DedupeWindow] return the first one's message, unless that was
	// cancelled. At most 512 bytes. Defaults to none.
	DedupeID string
}

func (d Draft) check() error {
	bad := millrace.ErrBadArgument
	switch {
	case d.Tenant == "":
		return bad.Errorf("a message has no tenant").
			WithHint("Set Draft.Tenant to whose message it is; to one name for all if there are no tenants.")
	case len(d.Tenant) > maxLabel:
		return bad.Errorf("the tenant is %d bytes long, more than %d", len(d.Tenant), maxLabel)
	case len(d.DedupeID) > maxLabel:
		return bad.Errorf("the dedupe id is %d bytes long, more than %d", len(d.DedupeID), maxLabel)
	case !textual(d.Headers):
		return bad.Errorf("a header is not UTF-8 text: put bytes into the body")
	case d.Priority < -4 || d.Priority > 4:
		return bad.Errorf("a priority is from -4 to 4, not %d", d.Priority)
	case d.Delay < 0:
		return bad.Errorf("the delay is negative: %s", d.Delay)
	case d.Deadline < 0 || d.Deadline > 0 && d.Deadline < time.Millisecond:
		return bad.Errorf("the deadline is not a millisecond away: %s", d.Deadline)
	}
	return nil
}

func textual(headers map[string]string) bool {
	for name, value := range headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return true
}

// options are a draft's priority, delay, deadline and dedupe id as the script takes them.
// Each tenant has dedupe ids of its own.
func (d Draft) options() string {
	priority := strconv.Itoa(4 - d.Priority)
	if d.Delay == 0 && d.Deadline == 0 && d.DedupeID == "" {
		return priority
	}
	name := ""
	if d.DedupeID != "" {
		name = strconv.Itoa(len(d.Tenant)) + ":" + d.Tenant + ":" + d.DedupeID
	}
	return priority + " " + millis(d.Delay) + " " + millis(d.Deadline) + " " + name
}

// What a body says of itself, in its first byte.
const (
	withHeaders = 1 << iota // their length and JSON follow
	zipped                  // the body is compressed by gzip
)

// encode returns what readers get: a byte of flags, the headers if any, the body.
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
	size := 1 + len(headers) + len(body) + len(d.Tenant) + len(d.DedupeID)
	if size > MaxMessage {
		return "", millrace.ErrTooLarge.Errorf("a message has %d bytes with its tenant and headers, more than %d", size, MaxMessage)
	}
	text := make([]byte, 0, 1+len(headers)+len(body))
	text = append(append(append(text, flags), headers...), body...)
	return string(text), nil
}

// decode reads what encode returned.
func decode(text string) (headers map[string]string, body []byte, err error) {
	if text == "" {
		return nil, nil, fmt.Errorf("the body is missing")
	}
	flags, rest := text[0], []byte(text[1:])
	if flags&withHeaders != 0 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, nil, fmt.Errorf("the headers end early")
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

// millis is a duration in whole milliseconds, rounded up.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}
