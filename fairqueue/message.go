package fairqueue

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// Message is a message as [Queue.Read] and [Queue.Consume] deliver it, and as
// [Queue.Browse] and [DeadLetters.All] show it.
type Message struct {
	ID       string // stays the same through all deliveries
	Receipt  string // of this delivery; empty if the message has none now
	Tenant   string
	Body     []byte
	Headers  map[string]string // nil if there are none
	Priority int
	Cost     int    // 1 or what [Draft].Cost said
	Attempt  int    // the number of this delivery, from 1 on; how many there were if it is only shown
	Stream   int    // the index of the stream that is its flow; -1 if its tenant is
	Batch    string // that counts it, or counted it until it died; empty for none

	Written     time.Time     // by the server's clock
	Deadline    time.Time     // when it expires; zero for never
	PickupDelay time.Duration // from the write, or the end of its delay or pause, to this delivery

	Reason string // why it is dead, or was given back last: then the first 200 bytes; empty if it never was

	// Only Browse and Dead set these.
	Since       time.Time // when it was delivered, when it died, or of a retry that waits when it failed
	Until       time.Time // the end of its visibility or delay
	Consumed    bool      // it is in flight with a handler of Consume
	DecodeError string    // why no reader can read it; empty if one can
}

// member is the text that a queue keeps of a message beside its body:
// FLOW \x01 PRIORITY ID [;ATTEMPTS [;SINCE]] [=TENANT].
type member struct {
	id       string
	flow     string
	tenant   string
	stream   int // -1 if the flow is the tenant
	priority int
	attempts int       // deliveries before
	since    time.Time // since when it waits, if not since the write
}

var memberForm = regexp.MustCompile(`(?s)^([=#][^\x01]*)\x01(\d)(\d{16})(?:;(\d+)(?:;(\d+))?)?(=[^\x01]*)?$`)

func readMember(text string) (m member, err error) {
	parts := memberForm.FindStringSubmatch(text)
	if parts == nil {
		return m, fmt.Errorf("not a message: %.60q", text)
	}
	m.flow, m.id = parts[1], parts[3]
	m.tenant, m.stream = readFlow(m.flow)
	if parts[6] != "" {
		m.tenant, _ = readFlow(parts[6])
	}
	m.priority = 4 - int(parts[2][0]-'0')
	m.attempts, _ = strconv.Atoi(parts[4]) // "" is 0
	m.since = milliTime(parts[5])
	return m, nil
}

// fill sets the fields of msg from the member and the stored body.
func (m member) fill(msg *Message, stored string) (err error) {
	msg.ID, msg.Tenant, msg.Stream = m.id, m.tenant, m.stream
	msg.Priority, msg.Written, msg.Cost = m.priority, writtenAt(m.id), 1
	h, text, err := readHeader(stored)
	if err == nil {
		err = msg.fill(h, text)
	}
	if err != nil {
		return fmt.Errorf("message %s: %w", m.id, err)
	}
	return nil
}

// fill sets the fields that come from the header and the text of the body.
func (m *Message) fill(h header, text string) (err error) {
	m.Deadline, m.Cost = h.deadline, h.cost
	m.Headers, m.Body, err = decode(text)
	m.fillBatch(h.batch)
	return err
}

func checkIDs(ids []string) error {
	for _, id := range ids {
		if !idForm.MatchString(id) {
			return millrace.ErrBadArgument.Errorf("not the id of a message: %.60q", id)
		}
	}
	return nil
}

// receipt is one delivery as scripts know it, the message's id in 16 digits and 8 random letters,
// and its tenant as an owner. Users see it in base64.
type receipt string

func (r receipt) String() string { return base64.RawURLEncoding.EncodeToString([]byte(r)) }

// handle is the part of the receipt by which scripts know the delivery.
func (r receipt) handle() string { return string(r[:min(len(r), handleSize)]) }

// owner is the field of hot that counts the deliveries of the tenant.
func (r receipt) owner() string { return ownerPrefix + string(r[min(len(r), handleSize):]) }

var receiptForm = regexp.MustCompile(`(?s)^` + handleText + `=[^\x01]*$`)

func readReceipts(texts []string) ([]receipt, error) {
	receipts := make([]receipt, len(texts))
	for i, text := range texts {
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || !receiptForm.Match(raw) {
			return nil, millrace.ErrBadArgument.Errorf("not a receipt: %.60q", text)
		}
		receipts[i] = receipt(raw)
	}
	return receipts, nil
}

// receipt is the receipt of a message that was delivered to this process.
func (m Message) receipt() receipt {
	raw, _ := base64.RawURLEncoding.DecodeString(m.Receipt) // this package encoded it
	return receipt(raw)
}

// delivered returns the message of an item of a script: the handle of the delivery; its past unless it has waited
// since its write; and the stored message.
func delivered(item string, at time.Time) (r receipt, msg Message, err error) {
	if len(item) < handleSize {
		return "", msg, fmt.Errorf("not a message: %.60q", item)
	}
	handle := item[:handleSize]
	p, stored, waited := cutPast(item[handleSize:])
	h, text, err := readHeader(stored)
	if err != nil {
		return receipt(handle + "="), msg, fmt.Errorf("message %s: %w", handle[:16], err)
	}
	msg.ID, msg.Written, msg.Priority = handle[:16], writtenAt(handle[:16]), 4-int(h.priority-'0')
	msg.Tenant, _ = readFlow(h.owner)
	_, msg.Stream = readFlow(h.flow)
	if err = msg.fill(h, text); err != nil {
		err = fmt.Errorf("message %s: %w", msg.ID, err)
	}
	if !waited {
		p.since = msg.Written
	}
	msg.Reason = strings.ToValidUTF8(p.reason, "") // a rune may be cut
	r = receipt(handle + h.owner)
	msg.Receipt, msg.Attempt, msg.PickupDelay = r.String(), p.attempts+1, max(0, at.Sub(p.since))
	return r, msg, err
}
