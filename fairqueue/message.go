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
// [Queue.Browse] and [Queue.Dead] show it.
type Message struct {
	ID       string // stays the same through all deliveries
	Receipt  string // of this delivery; empty if the message has none now
	Tenant   string
	Body     []byte
	Headers  map[string]string // nil if there are none
	Priority int
	Attempt  int // the number of this delivery, from 1 on; how many there were if it is only shown
	Stream   int // the index of the stream that is its flow; -1 if its tenant is

	Written     time.Time     // by the server's clock
	Deadline    time.Time     // when it expires; zero for never
	PickupDelay time.Duration // from the write, or the end of its delay or pause, to this delivery

	// Only Browse and Dead set these.
	Since       time.Time // when it was delivered, or when it died
	Until       time.Time // the end of its visibility or delay
	Consumed    bool      // it is in flight with a handler of Consume
	Reason      string    // why it is dead
	DecodeError string    // why no reader can read it; empty if one can
}

// member is what the sorted sets keep of a message:
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

// fill sets what the member and the stored body say.
func (m member) fill(msg *Message, stored string) (err error) {
	msg.ID, msg.Tenant, msg.Stream = m.id, m.tenant, m.stream
	msg.Priority, msg.Written = m.priority, writtenAt(m.id)
	deadline, text, err := readStored(stored)
	if err == nil {
		msg.Deadline = deadline
		msg.Headers, msg.Body, err = decode(text)
	}
	if err != nil {
		return fmt.Errorf("message %s: %w", m.id, err)
	}
	return nil
}

// writtenAt is the instant of the write, which is the id.
func writtenAt(id string) time.Time {
	us, _ := strconv.ParseInt(id, 10, 64) // digits, by memberForm
	return time.UnixMicro(us)
}

var idForm = regexp.MustCompile(`^\d{16}$`)

func checkIDs(ids []string) error {
	for _, id := range ids {
		if !idForm.MatchString(id) {
			return millrace.ErrBadArgument.Errorf("not the id of a message: %.60q", id)
		}
	}
	return nil
}

// readStored reads a field of messages: 'DEADLINE:PRIORITY' with the flow and tenant, \x01, the
// dedupe id, \x01, and what encode returned.
func readStored(stored string) (deadline time.Time, text string, err error) {
	head, rest, found := strings.Cut(stored, "\x01")
	_, text, also := strings.Cut(rest, "\x01")
	at, _, colon := strings.Cut(head, ":")
	if !found || !also || !colon {
		return deadline, "", fmt.Errorf("the body has no header")
	}
	return milliTime(at), text, nil
}

// receipt is one delivery as scripts know it: the kind of reader (c of Consume, o another one that
// limits count, r one that they do not; a capital if the message has a deadline), the id in 16
// digits, the instant of the delivery in 13, 8 random letters, and the message's member of backlog.
// Users see it in base64.
type receipt string

// memberAt is where the member starts.
const memberAt = 1 + 16 + 13 + 8

func (r receipt) String() string { return base64.RawURLEncoding.EncodeToString([]byte(r)) }

// member returns the message's member of backlog.
func (r receipt) member() string {
	return string(r[min(len(r), memberAt):])
}

var receiptForm = regexp.MustCompile(`(?s)^[crhoCRHO](\d{16})(\d{13})[A-Za-z0-9]{8}([=#][^\x01]*)\x01\d\d{16}(?:;\d+(?:;\d+)?)?(?:=[^\x01]*)?$`)

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

// delivered returns the message of a receipt and a stored body.
func delivered(r receipt, stored string, at time.Time) (msg Message, err error) {
	m, err := readMember(r.member())
	if err != nil {
		return msg, err
	}
	err = m.fill(&msg, stored)
	since := msg.Written
	if !m.since.IsZero() {
		since = m.since
	}
	msg.Receipt, msg.Attempt, msg.PickupDelay = r.String(), m.attempts+1, max(0, at.Sub(since))
	return msg, err
}
