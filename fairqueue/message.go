package fairqueue

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/script"
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
	fieldDue      = "u" // when the time is over for which it is set aside, in Unix milliseconds
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

// entry is one entry of a stream.
type entry struct {
	stream int
	id     string
	fields map[string]string
}

// readRound reads {{stream, {{entry, {field, value, ...}}, ...}}, ...} and returns
// one entry of each stream in turn, as they were taken.
func readRound(reply *script.Reply) []entry {
	round, all := reply.List(), 0
	streams := make([][]entry, 0, round.Len())
	for round.More() {
		stream := round.List()
		index, list := int(stream.Int()), stream.List()
		entries := make([]entry, 0, list.Len())
		for list.More() {
			e := list.List()
			entries = append(entries, entry{stream: index, id: e.Text(), fields: e.Fields()})
			list.Join(e)
		}
		stream.Join(list)
		round.Join(stream)
		streams, all = append(streams, entries), all+len(entries)
	}
	reply.Join(round)
	entries := make([]entry, 0, all)
	for turn := 0; len(entries) < all; turn++ {
		for _, s := range streams {
			if turn < len(s) {
				entries = append(entries, s[turn])
			}
		}
	}
	return entries
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
	if err := cmp.Or(e.moment(fieldWritten, &m.Written), e.moment(fieldDeadline, &m.Deadline)); err != nil {
		return m, fmt.Errorf("message %s: %w", m.ID, err)
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

// moment reads a field with a time, if there is one.
func (e entry) moment(field string, into *time.Time) error {
	text := e.fields[field]
	if text == "" {
		return nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	*into = time.UnixMilli(ms)
	return err
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
