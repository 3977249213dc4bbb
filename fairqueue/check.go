package fairqueue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
)

// maxChecked is the most fields and members of a queue that Check reads.
const maxChecked = 20_000

// Check compares everything that a queue stores in two places, at one instant: each message is in exactly one
// place, each flow where it belongs, and all counts are right. It returns the faults in words, nil for none.
// It changes nothing. All random tests of this package end with it; `millrace doctor --deep` runs it.
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

// keys are the contents of a queue's keys, read at one instant.
type keys struct {
	hot                                                       map[string]string
	active, blocked, asleep, flight, delayed, deadlines, dead map[string]float64
	backlog, young                                            []string
	settings                                                  map[string]string

	record

	messages   map[string]string         // id -> its stored text
	flows      map[string][]entry        // those in backlog included
	deliveries map[string]storedDelivery // by handle
	owners     map[string]storedOwner
	batches    map[string]Batch // by id
	wrong      []string
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
	r := &keys{messages: map[string]string{}, flows: map[string][]entry{}, deliveries: map[string]storedDelivery{}, owners: map[string]storedOwner{}, batches: map[string]Batch{}}
	r.hot, r.settings, r.young = pairs(reply.Texts()), pairs(reply.Texts()), reply.Texts()
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

// is notes a fault unless good is true, and returns good.
func (r *keys) is(good bool, format string, args ...any) bool {
	if !good {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
	return good
}

func (r *keys) parse() {
	r.record, _ = readRecord([]string{r.hot["w"], r.hot["t"]}) // the script has seen that it is there
	behind := map[string][]entry{}
	for _, m := range r.backlog {
		flow, e, ok := readBacklog(m)
		if r.is(ok && r.hot[flow] != "", "backlog has %q, which cannot be read, or whose flow has none in front", m) {
			behind[flow] = append(behind[flow], e)
		}
	}
	for field, value := range r.hot {
		switch {
		case field == "" || field == "w" || field == "t" || field == "d" || field[0] == 'l':
		case field == failingField:
			r.is(failingForm.MatchString(value), "field %q of tenants that fail has %.100q", field, value)
		case idForm.MatchString(field):
			r.messages[field] = value
		case strings.HasPrefix(field, batchPrefix), strings.HasPrefix(field, endPrefix):
			r.parseBatch(field, value)
		case strings.HasPrefix(field, pastPrefix):
			_, ok := readPast(value)
			r.is(ok && idForm.MatchString(field[1:]) && r.hot[field[1:]] != "", "field %q of a message has %q, or there is no message", field, value)
		case handleForm.MatchString(field):
			d, ok := readDelivery(value)
			if r.is(ok, "delivery %s cannot be read", field) {
				r.deliveries[field] = d
			}
		case isFlow(field):
			entries, more, err := readEntries(value)
			r.is(err == nil, "flow %q: %v", field, err)
			r.is(more || len(behind[field]) == 0, "flow %q has %d entries in backlog, and does not say so", field, len(behind[field]))
			r.flows[field] = append(entries, behind[field]...)
			r.is(slices.IsSorted(r.flows[field]), "flow %q is not in order: %q", field, r.flows[field])
		case strings.HasPrefix(field, quickPrefix+"#"):
			r.is(r.hot[field[1:]] != "" && len(value) <= maxQuick && value[0] == 1 && value[len(value)-1] == 1,
				"field %q has %q, or its stream no messages", field, value)
		case strings.HasPrefix(field, ownerPrefix):
			r.owners[strings.TrimPrefix(field, ownerPrefix)] = readOwner(value)
		default:
			r.is(false, "field %q of %d bytes is of no class", field, len(value))
		}
	}
}

// check notes all faults.
func (r *keys) check() {
	places := map[string][]string{}
	at := func(id, place string) { places[id] = append(places[id], place) }
	for flow, entries := range r.flows {
		for _, e := range entries {
			at(e.id(), "waits in "+flow)
			h, _, err := readHeader(r.messages[e.id()])
			kind := byte(';')
			if err == nil && h.deadline.IsZero() && h.cost == 1 && h.batch == "" && h.priority == e[0] && r.hot[pastPrefix+e.id()] == "" {
				kind = '.'
				if len(r.messages[e.id()]) > largeMessage {
					kind = ','
				}
			}
			r.is(kind == e[17] || kind == ';' && e[17] == '$' || r.messages[e.id()] == "", "entry %q of %q has the wrong kind", e, flow)
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
	for flow, score := range r.blocked {
		r.is(r.least <= score, "flow %q is blocked at %v, and the record looks from %v on", flow, score, r.least)
		r.is(len(r.flows[flow]) > 0, "flow %q is blocked without messages", flow)
		owner := flow
		if flow[0] == '#' && len(r.flows[flow]) > 0 {
			h, _, _ := readHeader(r.messages[r.flows[flow][0].id()])
			owner = h.owner
		}
		r.is(slices.Contains(r.owners[owner].flows, flow), "blocked flow %q is not one that %q knows", flow, owner)
	}
	for member := range r.delayed {
		_, e, ok := readBacklog(member + ".") // an entry without its kind
		if r.is(ok, "delayed has %q, which cannot be read", member) {
			at(e.id(), "is delayed")
		}
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
		counted["with handlers, of "+owner], counted["with other readers, of "+owner] = o.n, o.others
		r.is(o.n > 0 || o.others > 0 || o.limited || len(o.flows) > 0 || len(r.flows[owner]) > 0, "owner %q has nothing", owner)
	}
	r.checkBatches()
	hasDefault := strings.Contains(r.settings["limits"], "d")
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
