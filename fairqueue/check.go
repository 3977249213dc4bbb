package fairqueue

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
)

// maxChecked is how many fields and members a queue has that Check reads in one call.
const maxChecked = 20_000

// Check compares everything that a queue stores in two places, at one instant: each message is in exactly one
// place, each flow where it belongs, and counts are what is there. It returns what is wrong, in words, nil for
// nothing. It changes nothing. All random tests of this package end with it; `millrace doctor --deep` runs it.
//
// It reads the whole queue in one call, up to 20,000 fields and members and 16 MiB of bodies. Errors:
// [millrace.ErrTooLarge] for a larger queue, [millrace.ErrNotFound], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Check(ctx context.Context) (wrong []string, err error) {
	r, err := q.readKeys(ctx)
	if err != nil {
		return nil, err
	}
	r.check()
	return r.wrong, nil
}

// keys are what the keys of a queue hold, read at one instant.
type keys struct {
	hot                                                       map[string]string // bodies are cut off
	active, blocked, asleep, flight, delayed, deadlines, dead map[string]float64
	backlog, young                                            []string
	record                                                    map[string]string

	written, sleepers                                                     float64
	virtual, flags, delivered, acked, flying, busy, capacity, next, least float64
	since, others, used, cancelled, held, removed                         float64
	tenant                                                                string

	messages   map[string]string         // id -> what is stored
	flows      map[string][]string       // flow -> entries, those in backlog included
	deliveries map[string]storedDelivery // by handle
	owners     map[string]storedOwner
	wrong      []string
}

type storedDelivery struct {
	at, ends    int64
	kind, place byte
	entry       string // without the id
	flow, owner string
}

type storedOwner struct {
	n, mean float64
	others  int
	limited bool
	flows   []string
}

func (q *Queue) readKeys(ctx context.Context) (*keys, error) {
	reply, err := q.call(ctx, "check", strconv.Itoa(maxChecked))
	if err != nil {
		return nil, err
	}
	if reply.None() {
		return nil, millrace.ErrNotFound.Errorf("there is no queue %s", q.name)
	}
	if n := reply.Int(); n > 0 {
		return nil, millrace.ErrTooLarge.Errorf("the queue %s has %d fields and members, or more than 16 MiB of bodies, and a check reads at most %d at one instant", q.name, n, maxChecked)
	}
	r := &keys{messages: map[string]string{}, flows: map[string][]string{}, deliveries: map[string]storedDelivery{}, owners: map[string]storedOwner{}}
	r.hot, r.record, r.young = pairs(reply.Texts()), pairs(reply.Texts()), reply.Texts()
	for _, set := range []*map[string]float64{&r.active, &r.blocked, &r.asleep, &r.flight, &r.delayed, &r.deadlines, &r.dead} {
		*set = map[string]float64{}
		for member, score := range pairs(reply.Texts()) {
			if member != "" && member[0] != '~' { // the placeholders
				(*set)[member], _ = strconv.ParseFloat(score, 64)
			}
		}
	}
	r.backlog = slices.DeleteFunc(slices.Sorted(maps.Keys(pairs(reply.Texts()))), func(m string) bool { return m == "" })
	if err := reply.Err(); err != nil {
		return nil, err
	}
	r.parse()
	return r, nil
}

func pairs(words []string) map[string]string {
	m := make(map[string]string, len(words)/2)
	for i := 0; i+1 < len(words); i += 2 {
		m[words[i]] = words[i+1]
	}
	return m
}

// doubles reads numbers of eight bytes, as far as there are some, and returns what is behind them.
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

var (
	handleForm   = regexp.MustCompile(`^\d{16}[A-Za-z0-9_-]{8}$`)
	deliveryForm = regexp.MustCompile(`(?s)^(\d{16})(\d{13})([croCRO])([.f])(#\d+)?(=.*)$`)
	entryForm    = regexp.MustCompile(`^\d{17}[.;]$`)
	pastForm     = regexp.MustCompile(`^\d+;\d+;$`)
)

func (r *keys) is(good bool, format string, args ...any) {
	if !good {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

func (r *keys) parse() {
	doubles(r.hot["w"], &r.written, &r.sleepers)
	r.tenant = doubles(r.hot["t"], &r.virtual, &r.flags, &r.delivered, &r.acked, &r.flying, &r.busy, &r.capacity, &r.next, &r.least,
		&r.since, &r.others, &r.used, &r.cancelled, &r.held, &r.removed)
	for field, value := range r.hot {
		switch {
		case field == "" || field == "w" || field == "t" || field == "d" || field[0] == 'l':
		case idForm.MatchString(field):
			r.messages[field] = value
		case field[0] == 'a' && idForm.MatchString(field[1:]):
			r.is(r.hot[field[1:]] != "" && pastForm.MatchString(value), "field %q of a message has %q, or there is no message", field, value)
		case handleForm.MatchString(field):
			r.parseDelivery(field, value)
		case (field[0] == '=' || field[0] == '#') && len(value) > 2:
			r.parseFlow(field, value)
		case field[0] == 'o':
			r.parseOwner(field[1:], value)
		default:
			r.is(false, "field %q of %d bytes is of no class", field, len(value))
		}
	}
	for _, m := range r.backlog {
		flow, _, _ := strings.Cut(m, "\x01")
		r.is(r.hot[flow] != "", "backlog has an entry of %q, which has none in front", flow)
	}
}

func (r *keys) parseDelivery(handle, value string) {
	m := deliveryForm.FindStringSubmatch(value)
	if m == nil {
		r.is(false, "delivery %s cannot be read", handle)
		return
	}
	d := storedDelivery{kind: m[3][0], place: m[4][0], flow: cmp.Or(m[5], m[6]), owner: m[6]}
	d.at, _ = strconv.ParseInt(m[1], 10, 64)
	d.ends, _ = strconv.ParseInt(m[2], 10, 64)
	r.deliveries[handle] = d
}

func (r *keys) parseFlow(flow, value string) {
	entries := []string(nil)
	for at := 1; at < len(value); at += 18 {
		entries = append(entries, value[at:min(at+18, len(value))])
	}
	r.is(len(entries) > 0 && len(entries) <= 16 && (value[0] == '.' || value[0] == '+'), "flow %q has %d entries behind %q", flow, len(entries), value[:1])
	behind := 0
	for _, m := range r.backlog {
		if entry, found := strings.CutPrefix(m, flow+"\x01"); found {
			behind++
			entries = append(entries, entry)
		}
	}
	r.is(value[0] == '+' || behind == 0, "flow %q has %d entries in backlog, and does not say so", flow, behind)
	for _, e := range entries {
		if !entryForm.MatchString(e) {
			r.is(false, "flow %q has an entry that cannot be read: %q", flow, e)
			return
		}
	}
	r.is(slices.IsSorted(entries), "flow %q is not in order: %q", flow, entries)
	r.flows[flow] = entries
}

func (r *keys) parseOwner(owner, value string) {
	o := storedOwner{}
	others := 0.0
	if tail := doubles(value, &o.n, &o.mean, &others); tail != "" {
		o.limited = tail[0] == '1'
		o.flows = strings.FieldsFunc(tail[1:], func(c rune) bool { return c == '\x01' })
	}
	o.others = int(others)
	r.owners[owner] = o
}

// check notes what is wrong.
func (r *keys) check() {
	places := map[string][]string{}
	at := func(id, place string) { places[id] = append(places[id], place) }
	for flow, entries := range r.flows {
		for _, e := range entries {
			id := e[1:17]
			at(id, "waits in "+flow)
			plain := strings.HasPrefix(r.messages[id], ":"+e[:1]) && r.hot["a"+id] == ""
			r.is(plain == (e[17] == '.') || r.messages[id] == "", "entry %q of %q has the wrong kind", e, flow)
		}
		n := 0
		for _, set := range []map[string]float64{r.active, r.blocked, r.asleep} {
			if _, there := set[flow]; there {
				n++
			}
		}
		r.is(n == 1, "flow %q is in %d of active, blocked and asleep", flow, n)
	}
	for flow := range r.active {
		r.is(len(r.flows[flow]) > 0, "flow %q is active without messages", flow)
	}
	for flow := range r.blocked {
		r.is(len(r.flows[flow]) > 0, "flow %q is blocked without messages", flow)
		owner := flow
		if flow[0] == '#' && len(r.flows[flow]) > 0 {
			header, _, _ := strings.Cut(r.messages[r.flows[flow][0][1:17]], "\x01")
			_, tenant, _ := strings.Cut(header, "=")
			owner = "=" + tenant
		}
		r.is(slices.Contains(r.owners[owner].flows, flow), "blocked flow %q is not one that %q knows", flow, owner)
	}
	for member := range r.delayed {
		_, rest, _ := strings.Cut(member, "\x01")
		if len(rest) < 17 {
			r.is(false, "delayed has %q, which cannot be read", member)
			continue
		}
		at(rest[1:17], "is delayed")
	}
	for id := range r.dead {
		at(id, "is dead")
	}
	young := map[string]bool{}
	for _, handle := range r.young {
		young[handle] = true
	}
	counted, want := map[string]float64{}, map[string]float64{}
	for handle, d := range r.deliveries {
		at(handle[:16], "is in flight")
		want["in flight"]++
		switch d.kind {
		case 'c', 'C':
			want["with handlers"]++
			want["with handlers, of "+d.owner]++
		case 'o', 'O':
			want["with other readers, of "+d.owner]++
		}
		_, flies := r.flight[handle]
		r.is(flies == (d.place == 'f'), "delivery %s has place %q, and in flight it is %v", handle, d.place, flies)
		r.is(d.place == 'f' || young[handle], "delivery %s is not young", handle)
	}
	for handle := range r.flight {
		r.is(r.hot[handle] != "", "flight has %s, which is settled", handle)
	}
	for owner, o := range r.owners {
		counted["with handlers, of "+owner], counted["with other readers, of "+owner] = o.n, float64(o.others)
		r.is(o.n > 0 || o.others > 0 || o.limited || len(o.flows) > 0 || len(r.flows[owner]) > 0, "owner %q has nothing", owner)
	}
	hasDefault := strings.Contains(r.record["limits"], "d")
	r.is(hasDefault == (len(r.hot["d"]) == 32), "the field d has %d bytes, and a default limit is %v", len(r.hot["d"]), hasDefault)
	counted["in flight"], counted["with handlers"], counted["blocked"] = r.flying, r.busy, r.held
	want["blocked"] = float64(len(r.blocked))
	ghosts := 0
	for id, list := range places {
		if _, there := r.messages[id]; !there {
			r.is(len(list) == 1 && list[0] == "is in flight" || len(list) == 1 && list[0] == "is delayed", "message %s %v without a body", id, list)
			if list[0] == "is in flight" {
				ghosts++
			}
		}
		r.is(len(list) == 1, "message %s %v", id, list)
	}
	for id := range r.messages {
		r.is(len(places[id]) == 1, "message %s is nowhere", id)
	}
	counted["cancelled"], want["cancelled"] = r.cancelled, float64(ghosts)
	counted["messages"], want["messages"] = r.written-r.removed, float64(len(r.messages))
	for _, m := range []map[string]float64{counted, want} {
		maps.DeleteFunc(m, func(_ string, n float64) bool { return n == 0 })
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		r.is(counted[name] == want[name], "%s: %g are there, and counted are %g", name, want[name], counted[name])
		delete(counted, name)
	}
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		r.is(false, "%s: none is there, and counted are %g", name, counted[name])
	}
}
