package fairqueue

import (
	"encoding/binary"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// This file has Go's part of the layout of a queue in Redis: see docs/WIRE.md.

// wireVersion is the version of the data in Redis, which K has.
const wireVersion = "3"

// record is the contents of the fields w and t of hot.
type record struct {
	written, sleepers float64 // w: what writes change

	virtual, flags, delivered, acked, flying, busy, capacity, next, least float64 // t: what deliveries change
	since, others, used, cancelled, held, removed                         float64
}

// readRecord reads the fields w and t.
func readRecord(fields []string) (r record, err error) {
	if len(fields[0]) != 40 || len(fields[1]) < 128 {
		return r, errBroken
	}
	doubles(fields[0], &r.written, &r.sleepers)
	doubles(fields[1], &r.virtual, &r.flags, &r.delivered, &r.acked, &r.flying, &r.busy, &r.capacity, &r.next, &r.least,
		&r.since, &r.others, &r.used, &r.cancelled, &r.held, &r.removed)
	return r, nil
}

// settled is how many messages wait, are delayed or are dead.
func (r record) settled() int { return int(r.written - r.removed - r.flying + r.cancelled) }

// doubles reads numbers of eight bytes, as far as there are some, and returns the rest of the text.
func doubles(text string, into ...*float64) string {
	for _, f := range into {
		if len(text) < 8 {
			return text
		}
		*f = math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[:8])))
		text = text[8:]
	}
	return text
}

// largeMessage is how many bytes a message has that is read by itself, not with others.
const largeMessage = 8 << 10

// entry is a message that waits, as its flow has it: PRIORITY ID, and '.' if it is plain, ',' if it is plain and large, else ';', or '$' of a head that was paid for.
type entry string

func (e entry) id() string { return string(e[1:17]) }

var (
	entryForm = regexp.MustCompile(`^\d{17}[.,;$]$`)
	flowForm  = regexp.MustCompile(`^[.+]\d{17}[.,;$](\d{17}[.,;]){0,15}$`)
)

// readEntries reads the field of a flow; others may lie in backlog if more.
func readEntries(value string) (entries []entry, more bool, err error) {
	if !flowForm.MatchString(value) {
		return nil, false, millrace.ErrBroken.Errorf("a flow cannot be read: %.60q", value)
	}
	for at := 1; at < len(value); at += 18 {
		entries = append(entries, entry(value[at:at+18]))
	}
	return entries, value[0] == '+', nil
}

// readBacklog reads a member of backlog.
func readBacklog(member string) (flow string, e entry, ok bool) {
	flow, rest, _ := strings.Cut(member, "\x01")
	return flow, entry(rest), entryForm.MatchString(rest)
}

// isFlow tells the name of a flow from placeholders and other fields.
func isFlow(name string) bool { return name != "" && (name[0] == '=' || name[0] == '#') }

// pastPrefix is in front of a message's id in the name of the field with its past.
const pastPrefix = "a"

// past is the history of a message, if it is not plain: how many deliveries, since when it waits, and why it was given back
// last.
type past struct {
	attempts int
	since    time.Time
	reason   string
}

// cutPast reads the past that a text begins with: ATTEMPTS;SINCE;REASON \x01.
func cutPast(text string) (p past, rest string, ok bool) {
	attempts, rest, ok := cutDigits(text, ";")
	if !ok {
		return p, text, false
	}
	since, rest, ok := cutDigits(rest, ";")
	if !ok {
		return p, text, false
	}
	p.reason, rest, ok = strings.Cut(rest, "\x01")
	p.attempts, _ = strconv.Atoi(attempts)
	p.since = milliTime(since)
	return p, rest, ok
}

// cutDigits cuts a text where its first digits end, if a separator follows.
func cutDigits(text, separator string) (digits, rest string, ok bool) {
	end := 0
	for end < len(text) && isDigit(text[end]) {
		end++
	}
	rest, ok = strings.CutPrefix(text[end:], separator)
	return text[:end], rest, ok && end > 0
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// readPast reads since when a message waits. A plain message has no past.
func readPast(value string) (since time.Time, ok bool) {
	p, rest, ok := cutPast(value)
	return p.since, ok && rest == ""
}

// header is the text in front of the body of a message.
type header struct {
	deadline time.Time // zero for none
	cost     int
	batch    string // what follows '@', see batches.lua
	priority byte
	flow     string
	owner    string // the tenant's flow
}

var errNoHeader = errors.New("the body has no header")

// readHeader reads the stored header of a message, as encode returned it: its deadline or nothing; '*' and its cost unless that
// is 1; '@' and its batch; ':' and its priority; its flow if that is a stream; its tenant, \x01; its dedupe id, \x01. It is by hand since it runs for
// each message, and a regular expression takes ten times as long.
func readHeader(stored string) (h header, text string, err error) {
	h.cost = 1
	deadline, rest, ok := cutDigits(stored, "")
	if ok {
		h.deadline = milliTime(deadline)
	}
	if cost, isCostly := strings.CutPrefix(rest, "*"); isCostly {
		if cost, rest, ok = cutDigits(cost, ""); !ok {
			return h, "", errNoHeader
		}
		h.cost, _ = strconv.Atoi(cost)
	}
	if mark, isCounted := strings.CutPrefix(rest, "@"); isCounted {
		if h.batch, rest, ok = strings.Cut(mark, ":"); !ok || !batchForm.MatchString(h.batch) {
			return h, "", errNoHeader
		}
		rest = ":" + rest
	}
	names, rest, ok := strings.Cut(rest, "\x01")
	_, text, ended := strings.Cut(rest, "\x01")
	at := strings.IndexByte(names, '=')
	if !ok || !ended || at < 2 || names[0] != ':' || !isDigit(names[1]) {
		return h, "", errNoHeader
	}
	h.priority, h.flow, h.owner = names[1], names[2:at], names[at:]
	if h.flow == "" {
		h.flow = h.owner
	} else if _, rest, ok := cutDigits(h.flow[1:], ""); h.flow[0] != '#' || !ok || rest != "" {
		return h, "", errNoHeader
	}
	return h, text, nil
}

var idForm = regexp.MustCompile(`^\d{16}$`)

// writtenAt is the instant of the write, which is the id.
func writtenAt(id string) time.Time {
	us, _ := strconv.ParseInt(id, 10, 64) // digits
	return time.UnixMicro(us)
}

// milliTime reads Unix milliseconds; anything but digits is the zero time.
func milliTime(digits string) time.Time {
	if ms, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// handleText is the part of a receipt that Redis knows, a field of hot: the id and 8 random letters.
const (
	handleText = `\d{16}[A-Za-z0-9_-]{8}`
	handleSize = 16 + 8
)

var (
	handleForm   = regexp.MustCompile(`^` + handleText + `$`)
	deliveryForm = regexp.MustCompile(`(?s)^\d{29}([croCRO])([.f])(?:\d{13})?(?:@\d{16})?(#\d+)?(=[^\x01]*)$`)
)

// storedDelivery is the decoded field of a delivery.
type storedDelivery struct {
	kind  byte // c of a handler of Consume, o counted for limits, r neither; a capital with a deadline or a past
	place byte // '.' in young, 'f' in flight
	owner string
}

// readDelivery reads the field of a delivery.
func readDelivery(value string) (d storedDelivery, ok bool) {
	parts := deliveryForm.FindStringSubmatch(value)
	if parts == nil {
		return d, false
	}
	return storedDelivery{parts[1][0], parts[2][0], parts[4]}, true
}

// ownerPrefix is in front of a tenant's flow in the name of its field as an owner.
const ownerPrefix = "o"

// quickPrefix is in front of a stream in the name of the field with owners whose handlers are quick, which has at most
// maxQuick bytes. See quick.lua.
const (
	quickPrefix = "q"
	maxQuick    = 1000
)

// storedOwner is the counts of a tenant in hot.
type storedOwner struct {
	n, mean, others float64 // with handlers of Consume, their mean time in milliseconds or -1, and others that are counted
	limited         bool    // it has limits of its own
	flows           []string
}

// readOwner reads the field of an owner.
func readOwner(value string) (o storedOwner) {
	if tail := doubles(value, &o.n, &o.mean, &o.others); tail != "" {
		o.limited = tail[0] == '1'
		o.flows = strings.FieldsFunc(tail[1:], func(c rune) bool { return c == '\x01' })
	}
	return o
}
