package fairqueue

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// raw is what the keys of a queue hold, read at one instant.
type raw struct {
	hot                                                       map[string]string
	active, blocked, asleep, flight, delayed, deadlines, dead map[string]float64
	backlog, young                                            []string
	record                                                    map[string]string

	written, sleepers                                                     float64
	virtual, flags, delivered, acked, flying, busy, capacity, next, least float64
	since, others, used, cancelled, held, removed                         float64
	tenant                                                                string

	messages   map[string]string      // id -> what is stored
	flows      map[string][]string    // flow -> entries, those in backlog included
	deliveries map[string]rawDelivery // by handle
	owners     map[string]rawOwner
	wrong      []string
}

type rawDelivery struct {
	at, ends    int64
	kind, place byte
	entry       string // without the id
	flow, owner string
}

type rawOwner struct {
	n, mean float64
	others  int
	limited bool
	flows   []string
}

const rawScript = `local all = {redis.call('HGETALL', KEYS[1] .. ':hot'), redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[1] .. ':young', 0, -1)}
for _, name in ipairs({'active', 'blocked', 'asleep', 'flight', 'delayed', 'deadlines', 'dead', 'backlog'}) do
	all[#all + 1] = redis.call('ZRANGE', KEYS[1] .. ':' .. name, 0, -1, 'WITHSCORES')
end
return all`

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

// readRaw reads the keys; ok is false if the server is away.
func readRaw(t testing.TB, q *Queue) (r *raw, ok bool) {
	t.Helper()
	reply, err := q.run.Client.Do(t.Context(), q.run.Client.B().Eval().Script(rawScript).Numkeys(1).Key(baseKey(q.name)).Build()).ToArray()
	if err != nil {
		return nil, false
	}
	r = &raw{messages: map[string]string{}, flows: map[string][]string{}, deliveries: map[string]rawDelivery{}, owners: map[string]rawOwner{}}
	r.hot, _ = reply[0].AsStrMap()
	r.record, _ = reply[1].AsStrMap()
	r.young, _ = reply[2].AsStrSlice()
	set := func(i int) map[string]float64 {
		words, _ := reply[i].AsStrSlice()
		m := map[string]float64{}
		for i := 0; i+1 < len(words); i += 2 {
			if words[i] != "" && words[i][0] != '~' {
				m[words[i]], _ = strconv.ParseFloat(words[i+1], 64)
			}
		}
		return m
	}
	r.active, r.blocked, r.asleep, r.flight, r.delayed, r.deadlines, r.dead = set(3), set(4), set(5), set(6), set(7), set(8), set(9)
	r.backlog = slices.Sorted(maps.Keys(set(10)))
	r.parse()
	return r, true
}

var handleForm = regexp.MustCompile(`^\d{16}[A-Za-z0-9]{8}$`)

func (r *raw) is(good bool, format string, args ...any) {
	if !good {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

// entryEnd is where the entry that starts there ends.
func entryEnd(text string, at int) int {
	if at+17 < len(text) && text[at+17] == ';' && at+22 <= len(text) {
		size, _ := strconv.Atoi(text[at+18 : at+22])
		return at + 22 + size - 1000
	}
	return at + 18
}

func (r *raw) parse() {
	last := r.hot["w"]
	last = doubles(last, &r.written, &r.sleepers)
	r.tenant = doubles(r.hot["t"], &r.virtual, &r.flags, &r.delivered, &r.acked, &r.flying, &r.busy, &r.capacity, &r.next, &r.least,
		&r.since, &r.others, &r.used, &r.cancelled, &r.held, &r.removed)
	for field, value := range r.hot {
		switch {
		case field == "" || field == "w" || field == "t" || field[0] == 'l':
		case idForm.MatchString(field):
			r.messages[field] = value
		case handleForm.MatchString(field):
			d := rawDelivery{kind: value[29], place: value[30]}
			d.at, _ = strconv.ParseInt(value[:16], 10, 64)
			d.ends, _ = strconv.ParseInt(value[16:29], 10, 64)
			end := 33
			if value[32] == ';' {
				size, _ := strconv.Atoi(value[33:37])
				end = 37 + size - 1000
			}
			d.entry, d.flow = value[31:end], value[end:]
			d.owner = d.flow
			if d.flow[0] == '#' {
				d.owner = d.entry[strings.Index(d.entry, "="):]
			}
			r.deliveries[field] = d
		case field[0] == '=' || field[0] == '#':
			count, more := int(value[0])-'A', false
			if value[0] >= 'a' {
				count, more = int(value[0])-'a', true
			}
			for at := 2; at < len(value); {
				end := entryEnd(value, at)
				r.flows[field] = append(r.flows[field], value[at:end])
				at = end
			}
			entries := r.flows[field]
			r.is(len(entries) == count && count > 0 && count <= 16, "flow %q counts %d entries and has %d", field, count, len(entries))
			r.is(len(entries) > 0 && value[1] == entries[len(entries)-1][0], "flow %q has priority %q in front", field, value[1])
			r.is(slices.IsSorted(entries), "flow %q is not in order: %q", field, entries)
			behind := 0
			for _, m := range r.backlog {
				if entry, found := strings.CutPrefix(m, field+"\x01"); found {
					behind++
					r.flows[field] = append(r.flows[field], entry)
				}
			}
			r.is(more == (behind > 0), "flow %q has %d entries in backlog, and says %v", field, behind, more)
			r.is(slices.IsSorted(r.flows[field]), "flow %q has entries in backlog in front of others", field)
		case field[0] == 'o':
			o := rawOwner{}
			tail := doubles(value, &o.n, &o.mean)
			if tail != "" {
				others, rest, _ := strings.Cut(tail, " ")
				o.others, _ = strconv.Atoi(others)
				o.limited = strings.HasPrefix(rest, "1")
				if len(rest) > 2 {
					o.flows = strings.Split(strings.TrimSuffix(rest[2:], "\x01"), "\x01")
				}
			}
			r.owners[field[1:]] = o
		default:
			r.is(false, "field %q is of no class", field)
		}
	}
	for _, m := range r.backlog {
		flow, _, _ := strings.Cut(m, "\x01")
		r.is(r.hot[flow] != "", "backlog has an entry of %q, which has none in front", flow)
	}
}

// check compares all that is stored twice. It returns what is wrong, "" for nothing.
func (r *raw) check() string {
	places := map[string][]string{}
	at := func(id, place string) { places[id] = append(places[id], place) }
	for flow, entries := range r.flows {
		for _, e := range entries {
			at(e[1:17], "waits in "+flow)
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
			head := r.flows[flow][0]
			owner = head[strings.Index(head, "="):]
		}
		r.is(slices.Contains(r.owners[owner].flows, flow), "blocked flow %q is not one that %q knows", flow, owner)
	}
	for member := range r.delayed {
		_, rest, _ := strings.Cut(member, "\x01")
		at(rest[1:17], "is delayed")
	}
	for id := range r.dead {
		at(id, "is dead")
	}
	counted, want := map[string]float64{}, map[string]float64{}
	for handle, d := range r.deliveries {
		at(handle[:16], "is in flight")
		want["in flight"]++
		switch d.kind {
		case 'c', 'C':
			want["busy"]++
			want[d.owner]++
		case 'o', 'O':
			want[d.owner+" others"]++
		}
		_, flies := r.flight[handle]
		r.is(flies == (d.place == 'f'), "delivery %s has place %q, and in flight it is %v", handle, d.place, flies)
		r.is(d.place == 'f' || slices.Contains(r.young, handle), "delivery %s is not young", handle)
	}
	for handle := range r.flight {
		r.is(r.hot[handle] != "", "flight has %s, which is settled", handle)
	}
	for owner, o := range r.owners {
		counted[owner] = o.n
		counted[owner+" others"] = float64(o.others)
		r.is(o.n > 0 || o.others > 0 || o.limited || len(o.flows) > 0 || len(r.flows[owner]) > 0, "owner %q has nothing", owner)
	}
	counted["in flight"], counted["busy"], counted["blocked"] = r.flying, r.busy, r.held
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
	if diff := cmp.Diff(want, counted); diff != "" {
		r.wrong = append(r.wrong, "counts (-there +counted):\n"+diff)
	}
	return strings.Join(r.wrong, "\n")
}
