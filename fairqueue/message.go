package fairqueue

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Draft is a message that is to be written.
type Draft struct {
	// Tenant is whose message it is: the key of the shuffle shard. At most 512
	// bytes; tenants need not be known beforehand.
	Tenant string

	// Body is what the message says. Any bytes.
	Body []byte

	// Headers travel with the body, as UTF-8 text. Defaults to none.
	Headers map[string]string

	// Delay is for how long the message is set aside before it may be read; in
	// milliseconds at the finest. Defaults to 0, not at all.
	Delay time.Duration

	// Deadline is for how long the message is worth anything, from the write on; in
	// milliseconds at the finest. One that was not delivered by then is gone.
	// Defaults to 0, for ever.
	Deadline time.Duration

	// DedupeID makes a second write of the tenant under the same id within
	// [Config.DedupeWindow] return the first one's message. At most 512 bytes.
	// Defaults to none.
	DedupeID string
}

// Message is a message that was delivered.
type Message struct {
	ID      string // stays the same through all deliveries
	Receipt string // of this delivery
	Tenant  string
	Body    []byte
	Headers map[string]string // nil when there are none
	Attempt int               // the number of this delivery, from 1 on
	Stream  int               // the index of the stream it came from

	Written     time.Time     // when it was written, by the server's clock
	Deadline    time.Time     // when it is worth nothing any more; zero for never
	PickupDelay time.Duration // between the write, or the end of its delay or pause, and this delivery
}

// The fields of an entry. Short, because each message has them.
const (
	fieldTenant   = "t"
	fieldBody     = "b"
	fieldHeaders  = "h" // a JSON object of strings
	fieldEncoding = "e" // of the body: gzip
	fieldID       = "i" // the message's id, if this is not its first entry
	fieldAttempts = "n" // deliveries before this entry
	fieldWritten  = "w" // when it was written, in Unix milliseconds, if that is not the entry's own time
	fieldDeadline = "d" // in Unix milliseconds
	fieldReason   = "r" // why it is dead
)

// fields returns the fields of a draft's entry.
func (q *Queue) fields(d Draft) ([]string, error) {
	body, encoding := d.Body, ""
	if q.cfg.Gzip > 0 && len(body) >= q.cfg.Gzip {
		if packed := pack(body); len(packed) < len(body) {
			body, encoding = packed, "gzip"
		}
	}
	fields := []string{fieldTenant, d.Tenant, fieldBody, rueidis.BinaryString(body)}
	if encoding != "" {
		fields = append(fields, fieldEncoding, encoding)
	}
	if len(d.Headers) > 0 {
		text, err := json.Marshal(d.Headers)
		if err != nil {
			return nil, err
		}
		fields = append(fields, fieldHeaders, string(text))
	}
	return fields, nil
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

// entry is one entry of a stream as a script answers it.
type entry struct {
	stream int
	id     string
	fields map[string]string
}

// readEntry reads {stream, entry, {field, value, ...}}.
func readEntry(reply rueidis.RedisMessage) (entry, error) {
	values, err := reply.ToArray()
	if err != nil {
		return entry{}, err
	}
	if len(values) != 3 {
		return entry{}, fmt.Errorf("an entry of a queue has %d values, want 3", len(values))
	}
	index, err := values[0].AsInt64()
	if err != nil {
		return entry{}, err
	}
	e := entry{stream: int(index)}
	if e.id, err = values[1].ToString(); err != nil {
		return e, err
	}
	e.fields, err = values[2].AsStrMap()
	return e, err
}

// message returns the message of an entry that was delivered at now.
func (e entry) message(now time.Time) (Message, error) {
	place := strconv.Itoa(e.stream)
	m := Message{
		ID:      e.id + "." + place,
		Receipt: place + ":" + e.id,
		Tenant:  e.fields[fieldTenant],
		Body:    []byte(e.fields[fieldBody]),
		Attempt: 1,
		Stream:  e.stream,
	}
	if id := e.fields[fieldID]; id != "" {
		m.ID = id
		m.Receipt += ":" + id
	}
	if made := e.fields[fieldAttempts]; made != "" {
		n, err := strconv.Atoi(made)
		if err != nil {
			return m, fmt.Errorf("message %s: attempts: %w", m.ID, err)
		}
		m.Attempt = n + 1
	}
	came, err := timeOf(e.id)
	if err != nil {
		return m, err
	}
	m.PickupDelay = max(0, now.Sub(came))
	m.Written = came
	for field, into := range map[string]*time.Time{fieldWritten: &m.Written, fieldDeadline: &m.Deadline} {
		if text := e.fields[field]; text != "" {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return m, fmt.Errorf("message %s: %w", m.ID, err)
			}
			*into = time.UnixMilli(ms)
		}
	}
	if text := e.fields[fieldHeaders]; text != "" {
		if err := json.Unmarshal([]byte(text), &m.Headers); err != nil {
			return m, fmt.Errorf("message %s: headers: %w", m.ID, err)
		}
	}
	switch encoding := e.fields[fieldEncoding]; encoding {
	case "":
	case "gzip":
		if m.Body, err = unpack(m.Body); err != nil {
			return m, fmt.Errorf("message %s: body: %w", m.ID, err)
		}
	default:
		return m, fmt.Errorf("message %s: unknown encoding %q", m.ID, encoding)
	}
	return m, nil
}

// timeOf returns when an entry was made.
func timeOf(id string) (time.Time, error) {
	text, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("entry %q: %w", id, err)
	}
	return time.UnixMilli(ms), nil
}

var (
	receiptShape = regexp.MustCompile(`^\d{1,4}:\d{1,19}-\d{1,19}(:\d{1,19}-\d{1,19}\.(d|\d{1,4}))?$`)
	idShape      = regexp.MustCompile(`^\d{1,19}-\d{1,19}\.(d|\d{1,4})$`)
)

// checkReceipts refuses what cannot be receipts.
func checkReceipts(receipts []string) error {
	for _, r := range receipts {
		if !receiptShape.MatchString(r) {
			return ErrConfig.Saying("not a receipt: %q", r)
		}
	}
	return nil
}

// checkIDs refuses what cannot be ids of messages.
func checkIDs(ids []string) error {
	for _, id := range ids {
		if !idShape.MatchString(id) {
			return ErrConfig.Saying("not the id of a message: %q", id)
		}
	}
	return nil
}
