package scatter

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// While a server L is left, each of its keys goes to another server T in parcels, which
// are numbered, one after the other:
//
//	          L                          T
//	       taken = 7                  applied = 7
//	take   taken = 8, parcel
//	put                               value += parcel, applied = 8
//	done   parcel gone
//
// A gather looks at the two at different moments. By the numbers it knows whether the
// parcel is in T's value by now, or is still to be added. If neither can be, one of them
// was seen after a step, and the other one before the step that preceded it: it looks
// again.
//
// When the fold is over the numbers are forgotten, first on L, then on T. So what a
// gather sees may look the same before all of a fold and after it. What stays is the
// number of the last fold on L that has ended, and how often T has forgotten what it
// took. Who finds them changed since the round before looks again, too.

// past is what a server knows of folds that are over.
type past struct {
	ended  int64 // number of its own last one
	parted int64 // how often it has forgotten what it took in another server's
}

// round is what the servers answered to one gather. All lists are by server.
type round struct {
	servers []*server
	asks    []ask
	most    int      // members of one result
	known   []*past  // before the round began
	replies []*reply // nil of one that did not answer
	failed  []error  // why it did not

	changed []bool     // whether something ended during the round
	takers  [][]*reply // those that take parcels in the fold that is under way
	late    []error    // why it is missing in some result though it has answered
}

func newRound(servers []*server, asks []ask, most int) *round {
	n := len(servers)
	return &round{
		servers: servers, asks: asks, most: most,
		known: make([]*past, n), replies: make([]*reply, n), failed: make([]error, n),
	}
}

// reply is what one server answered.
type reply struct {
	past  past
	fold  int64            // number of its own fold that is under way, 0 for none
	folds map[string]int64 // numbers of the folds of which it took something, by server

	values []value
	marks  map[int]*mark // by position of the key, where there is anything to say
}

// value is what a server has of a key.
type value struct {
	texts []string
	bad   bool // it is something else
	many  int  // it has so many members, and they are too many to be sent
}

// mark is what there is to be known about a key on a server.
type mark struct {
	epoch   int64
	dated   bool // whether it has one; a server that is new has none, and is in that of the others
	taken   int64
	parcel  *value
	applied map[string]int64 // by the server that is being left
}

// part is a value that counts, and where it comes from.
type part struct {
	server, key string
	value
}

// judge looks at how the answers fit together.
func (r *round) judge() {
	n := len(r.servers)
	r.changed, r.takers, r.late = make([]bool, n), make([][]*reply, n), make([]error, n)
	marked := map[int]bool{}
	for j, one := range r.replies {
		if one == nil {
			continue
		}
		for i := range one.marks {
			marked[i] = true
		}
		r.compare(j)
		if r.changed[j] {
			r.late[j] = r.unsettled(j)
		}
	}
	for i := range marked {
		_, unsettled := r.parts(i)
		for _, j := range unsettled {
			r.late[j] = r.unsettled(j)
		}
	}
}

// compare finds out who takes parcels from server j, and whether it was seen in the same
// fold by all.
func (r *round) compare(j int) {
	one, before := r.replies[j], r.known[j]
	if before == nil {
		before = &past{}
	}
	r.changed[j] = one.past != *before
	for _, other := range r.replies {
		if other == nil {
			continue
		}
		switch fold := other.folds[r.servers[j].Name]; {
		case fold <= one.past.ended: // nothing, or in a fold that was over before the round
		case fold == one.fold:
			r.takers[j] = append(r.takers[j], other)
		default: // in a fold that has begun since
			r.changed[j] = true
		}
	}
}

// fits reports whether nobody is missing who has answered.
func (r *round) fits() bool {
	return !slices.ContainsFunc(r.late, func(err error) bool { return err != nil })
}

// missing returns why servers are missing in some result, nil for those that are in all.
func (r *round) missing() []error {
	missing := slices.Clone(r.failed)
	for j, err := range r.late {
		if err != nil {
			missing[j] = err
		}
	}
	return missing
}

// unsettled is why a server is missing that has answered.
func (r *round) unsettled(j int) error {
	return fmt.Errorf("server %s: it cannot be told what of it has gone to others; if it is being left, and no Fold is under way, call that again", r.servers[j].Name)
}

// parts returns what counts of a key, in the order of the servers, and the servers of
// which nobody can tell what does.
func (r *round) parts(i int) (parts []part, unsettled []int) {
	epoch := int64(0)
	for _, one := range r.replies {
		if one != nil {
			epoch = max(epoch, one.mark(i).epoch)
		}
	}
	for j, one := range r.replies {
		if one == nil {
			continue
		}
		if about := one.mark(i); about.dated && about.epoch < epoch { // that one is not reset yet
			continue
		}
		parcel, known := r.pending(i, j)
		if !known {
			unsettled = append(unsettled, j)
			continue
		}
		name, key := r.servers[j].Name, r.asks[i].key
		parts = append(parts, part{name, key, one.values[i]})
		if parcel != nil {
			parts = append(parts, part{name, key, *parcel})
		}
	}
	return parts, unsettled
}

// pending returns the parcel of a key that has left the value of server j and is in no
// other one, nil if there is none, and whether that is known.
func (r *round) pending(i, j int) (parcel *value, known bool) {
	if r.changed[j] {
		return nil, false
	}
	m, applied := r.replies[j].mark(i), int64(0)
	for _, taker := range r.takers[j] {
		applied = max(applied, taker.mark(i).applied[r.servers[j].Name])
	}
	switch {
	case applied == m.taken:
		return nil, true
	case applied == m.taken-1 && m.parcel != nil:
		return m.parcel, true
	case applied == 0 && slices.Contains(r.replies, nil):
		// Those that did answer have none of the parcels.
		return m.parcel, true
	}
	return nil, false
}

// mark returns what there is to be known about a key.
func (r *reply) mark(i int) mark {
	if m := r.marks[i]; m != nil {
		return *m
	}
	return mark{}
}

// parseReply reads what a server answered to so many questions.
func parseReply(message rueidis.RedisMessage, asked int) (*reply, error) {
	all, err := message.ToArray()
	if err != nil {
		return nil, err
	}
	if len(all) != asked+2 {
		return nil, fmt.Errorf("%d answers to %d questions", len(all)-2, asked)
	}
	r := &reply{folds: map[string]int64{}, values: make([]value, asked), marks: map[int]*mark{}}
	if err := r.parseAbout(all[0]); err != nil {
		return nil, err
	}
	marks, err := all[1].ToArray()
	if err != nil {
		return nil, err
	}
	for _, m := range marks {
		if err := r.parseMark(m); err != nil {
			return nil, err
		}
	}
	for i, m := range all[2:] {
		if r.values[i], err = parseValue(m); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// parseAbout reads what a server says about folds.
func (r *reply) parseAbout(m rueidis.RedisMessage) error {
	about, err := m.AsStrSlice()
	if err != nil {
		return err
	}
	number := func(text string) (n int64) {
		if text != "" && err == nil {
			n, err = strconv.ParseInt(text, 10, 64)
		}
		return n
	}
	if len(about) < 3 {
		return fmt.Errorf("%q about folds", about)
	}
	r.past, r.fold = past{ended: number(about[0]), parted: number(about[1])}, number(about[2])
	for i := 3; i+1 < len(about); i += 2 {
		r.folds[about[i]] = number(about[i+1])
	}
	return err
}

// parseMark reads what a server says about one key.
func (r *reply) parseMark(m rueidis.RedisMessage) error {
	fields, err := m.ToArray()
	if err != nil {
		return err
	}
	position, err := fields[0].AsInt64()
	if err != nil {
		return err
	}
	what, err := fields[1].ToString()
	if err != nil {
		return err
	}
	about := r.marks[int(position)-1]
	if about == nil {
		about = &mark{applied: map[string]int64{}}
		r.marks[int(position)-1] = about
	}
	last := fields[len(fields)-1]
	switch what {
	case "epoch":
		about.dated = true
		about.epoch, err = last.AsInt64()
	case "taken":
		about.taken, err = last.AsInt64()
	case "parcel":
		var v value
		v, err = parseValue(last)
		about.parcel = &v
	case "applied":
		from, unreadable := fields[2].ToString()
		if unreadable != nil {
			return unreadable
		}
		about.applied[from], err = last.AsInt64()
	}
	return err
}

// parseValue reads what a server has of one key.
func parseValue(m rueidis.RedisMessage) (value, error) {
	switch {
	case m.IsNil():
		return value{}, nil
	case m.IsInt64():
		n, err := m.AsInt64()
		return value{bad: n == 0, many: int(n)}, err
	case m.IsString():
		text, err := m.ToString()
		return value{texts: []string{text}}, err
	}
	texts, err := m.AsStrSlice()
	return value{texts: texts}, err
}
