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

// receipt is one delivery, as scripts know it: HOW, the id, since when in 13 digits, 8
// letters, which delivery it is, a colon, and the message's member of backlog. People and programs see it in base64.
type receipt string

func (r receipt) String() string { return base64.RawURLEncoding.EncodeToString([]byte(r)) }

var receiptForm = regexp.MustCompile(`(?s)^[crCR](\d{16})(\d{13})[A-Za-z0-9]{8}\d{1,9}:([=#][^\x01]*)\x01\d\d{16}(?:;\d+(?:;\d+)?)?(?:=[^\x01]*)?$`)

// readReceipt reads a receipt from its base64.
func readReceipt(text string) (receipt, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !receiptForm.Match(raw) {
		return "", millrace.ErrBadArgument.Errorf("not a receipt: %.60q", text)
	}
	return receipt(raw), nil
}

// receipt is the receipt of a message that this process was given.
func (m Message) receipt() receipt {
	raw, _ := base64.RawURLEncoding.DecodeString(m.Receipt)
	return receipt(raw)
}

func readReceipts(texts []string) ([]receipt, error) {
	receipts := make([]receipt, len(texts))
	for i, text := range texts {
		r, err := readReceipt(text)
		if err != nil {
			return nil, err
		}
		receipts[i] = r
	}
	return receipts, nil
}

// member is what scripts keep of a message beside its body.
type member struct {
	id       string
	flow     string
	tenant   string
	stream   int // -1 if the flow is the tenant
	priority int
	attempts int       // deliveries before
	since    time.Time // when it came to wait, if that is not when it was written
}

var memberForm = regexp.MustCompile(`(?s)^([=#][^\x01]*)\x01(\d)(\d{16})(?:;(\d+)(?:;(\d+))?)?(=[^\x01]*)?$`)

// readMember reads a member of backlog, or one that is set aside.
func readMember(text string) (m member, err error) {
	parts := memberForm.FindStringSubmatch(text)
	if parts == nil {
		return m, fmt.Errorf("no message: %.60q", text)
	}
	m.flow, m.id = parts[1], parts[3]
	m.tenant, m.stream = readFlow(m.flow)
	if parts[6] != "" {
		m.tenant, _ = readFlow(parts[6])
	}
	m.priority = 4 - int(parts[2][0]-'0')
	m.attempts, _ = strconv.Atoi(parts[4]) // "" is 0
	if ms, err := strconv.ParseInt(parts[5], 10, 64); err == nil {
		m.since = time.UnixMilli(ms)
	}
	return m, nil
}

// written is when a message was written, which its id says.
func written(id string) time.Time {
	us, _ := strconv.ParseInt(id, 10, 64) // digits, as somebody made sure
	return time.UnixMicro(us)
}

var idForm = regexp.MustCompile(`^\d{16}$`)

// checkIDs refuses what cannot be ids of messages.
func checkIDs(ids []string) error {
	for _, id := range ids {
		if !idForm.MatchString(id) {
			return millrace.ErrBadArgument.Errorf("not the id of a message: %.60q", id)
		}
	}
	return nil
}

// Message is a message that was delivered.
type Message struct {
	ID       string // stays the same through all deliveries
	Receipt  string // of this delivery
	Tenant   string
	Body     []byte
	Headers  map[string]string // nil when there are none
	Priority int
	Attempt  int // the number of this delivery, from 1 on
	Stream   int // the index of the stream that is its flow; -1 if its tenant is

	Written     time.Time     // when it was written, by the server's clock
	Deadline    time.Time     // when it is worth nothing any more; zero for never
	PickupDelay time.Duration // between the write, or the end of its delay or pause, and this delivery
}

// message returns the message that a member and a stored body are.
func (m member) message(stored string, at time.Time) (Message, error) {
	msg := Message{
		ID: m.id, Tenant: m.tenant, Priority: m.priority, Attempt: m.attempts + 1, Stream: m.stream, Written: written(m.id),
	}
	since := msg.Written
	if !m.since.IsZero() {
		since = m.since
	}
	msg.PickupDelay = max(0, at.Sub(since))
	deadline, text, err := readStored(stored)
	if err == nil {
		msg.Deadline = deadline
		msg.Headers, msg.Body, err = decode(text)
	}
	if err != nil {
		return msg, fmt.Errorf("message %s: %w", m.id, err)
	}
	return msg, nil
}

// readStored reads what lies in messages: 'DEADLINE:PRIORITY:A:B:', A bytes of the
// message's place, B of its dedupe id, and what encode returned.
func readStored(stored string) (deadline time.Time, text string, err error) {
	parts := strings.SplitN(stored, ":", 5)
	if len(parts) < 5 {
		return deadline, "", fmt.Errorf("the body has no beginning")
	}
	place, err1 := strconv.Atoi(parts[2])
	name, err2 := strconv.Atoi(parts[3])
	if err1 != nil || err2 != nil || place < 0 || name < 0 || place+name > len(parts[4]) {
		return deadline, "", fmt.Errorf("the body has another beginning")
	}
	if ms, err := strconv.ParseInt(parts[0], 10, 64); err == nil {
		deadline = time.UnixMilli(ms)
	}
	return deadline, parts[4][place+name:], nil
}

// member returns the message's member of backlog.
func (r receipt) member() string {
	if len(r) < memberAt {
		return ""
	}
	_, member, _ := strings.Cut(string(r[memberAt:]), ":")
	return member
}

// memberAt is where in a receipt the number of the delivery begins, with the member behind
// it.
const memberAt = 1 + 16 + 13 + 8

// delivered returns the message of a receipt and a stored body.
func delivered(r receipt, stored string, at time.Time) (Message, error) {
	m, err := readMember(r.member())
	if err != nil {
		return Message{}, err
	}
	msg, err := m.message(stored, at)
	msg.Receipt = r.String()
	return msg, err
}
