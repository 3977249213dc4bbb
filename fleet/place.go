package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/ring"
)

// The ways in which a tag is found: [Location].How.
const (
	Nowhere   = "nowhere"   // it has no place yet
	Owner     = "owner"     // the partition that owns it on the ring has it
	Older     = "older"     // a partition that owned it before others were added has it
	Forwarded = "forwarded" // the owner was full, and its record names another partition
)

// Location is where a tag is.
type Location struct {
	Tag       string `json:"-"`
	Position  uint64 `json:"-"`         // on the ring
	Partition int    `json:"partition"` // that has the tag, or would get it
	Record    int    `json:"record"`    // the partition whose record says so
	How       string `json:"how"`
	Asked     []int  `json:"asked"` // the partitions that were asked, in order

	once    bool // valid for this call only: the next one has to search again
	leaving bool // about to be moved
}

// Locate returns where a tag is. It does not place it.
func (f *Fleet) Locate(ctx context.Context, tag string) (Location, error) {
	return f.find(ctx, f.view.Load(), tag, false)
}

func (l *Location) placement(v *view, began int64) *placement {
	p := &placement{
		home: l.Partition, homeEpoch: v.partitions[l.Partition].Epoch,
		via: l.Record, viaEpoch: v.partitions[l.Record].Epoch,
		until: began + v.placementTTL, position: l.Position, leaving: l.leaving,
	}
	p.wrote.Store(began)
	return p
}

// find asks the partitions that ever owned a tag, the newest owner first. The first record
// says where the tag is. A write places the tag only if all answered that they have no
// record.
func (f *Fleet) find(ctx context.Context, v *view, tag string, write bool) (Location, error) {
	l := Location{Tag: tag, Position: ring.Position(tag)}
	candidates := v.ring.Candidates(l.Position)
	var unanswered error
	for i, id := range candidates {
		p := v.partitions[id]
		l.Asked = append(l.Asked, id)
		r, found, sure, err := p.record(ctx, tag, write)
		switch {
		case ctx.Err() != nil:
			return l, context.Cause(ctx)
		case err != nil:
			unanswered = errors.Join(unanswered, err)
		case found && (sure || !write):
			l.Record, l.How, l.once = id, Owner, !sure
			if i > 0 {
				l.How = Older
			}
			return f.resolve(ctx, v, l, r, write)
		case !sure && unanswered == nil:
			unanswered = errUnsure(id)
		}
	}
	if unanswered != nil {
		return l, ErrUnavailable.Errorf("the place of the tag cannot be found").Wrap(unanswered)
	}
	owner := v.partitions[candidates[len(candidates)-1]]
	for _, id := range candidates {
		if v.partitions[id].Phase != directory.LookUp {
			owner = v.partitions[id]
			break
		}
	}
	l.Record, l.Partition, l.How = owner.ID, owner.ID, Nowhere
	if !write {
		return l, nil
	}
	home, err := owner.place(ctx, tag, l.Position)
	if err != nil {
		return l, err
	}
	l.How = Owner
	return f.resolve(ctx, v, l, members.Record{Home: home}, write)
}

// maxHops is how many records in a row may each name the next one. There are two
// while a tag is moved.
const maxHops = 4

// resolve follows a record to the partition that has the tag. A write removes a
// Forgetting mark, and makes sure that the last partition has a record of its own: it
// has none if the client that forwarded the tag crashed.
func (f *Fleet) resolve(ctx context.Context, v *view, l Location, r members.Record, write bool) (Location, error) {
	at, found := l.Record, true
	for range maxHops {
		if at >= len(v.partitions) || r.Home >= len(v.partitions) {
			return l, errOld
		}
		if l.leaving = r.Mark == members.Leaving; write && r.Mark == members.Moving {
			return l, errMoving
		}
		if write && (r.Mark == members.Forgetting || !found) {
			outcome, home, err := v.partitions[at].placed(ctx, "place", v.placeArgs(l.Tag, at != l.Record)...)
			if err != nil {
				return l, err
			}
			if outcome != "at" {
				return l, errOld
			}
			r, found = members.Record{Home: home}, true
		}
		l.once = l.once || r.Mark != members.Unmarked || !found
		if r.Home == at || !found {
			l.Partition = at
			return l, nil
		}
		l.How = Forwarded
		at = r.Home
		l.Asked = append(l.Asked, at)
		next, has, sure, err := v.partitions[at].record(ctx, l.Tag, write)
		switch {
		case err != nil && write:
			return l, err
		case write && !sure:
			return l, errUnsure(at)
		}
		l.once = l.once || !sure
		if found = has; has {
			r = next
		} else {
			r = members.Record{Home: at}
		}
	}
	return l, fmt.Errorf("more than %d partitions in a row forward the tag", maxHops)
}

// placeArgs are the arguments of the script that places a tag.
func (v *view) placeArgs(tag string, forced bool) []string {
	force := map[bool]string{true: "1", false: "0"}[forced]
	return append(append([]string{tag, strconv.FormatInt(v.m.Epoch, 10)}, v.limits()...), force)
}

// limits are the arguments that say when a partition is full.
func (v *view) limits() []string {
	s := v.m.Settings.Effective()
	return []string{strconv.FormatInt(s.MaxTags, 10), strconv.Itoa(s.MaxFill)}
}

// place places a tag that p owns, or forwards it clockwise if p is full. It returns
// the partition that has the tag.
func (p *partition) place(ctx context.Context, tag string, position uint64) (home int, err error) {
	outcome := "full"
	if p.Phase == directory.Open {
		if outcome, home, err = p.placed(ctx, "place", p.v.placeArgs(tag, false)...); err != nil {
			return 0, err
		}
	}
	if outcome == "full" {
		next, err := p.vacancy(ctx, position)
		if err != nil {
			return 0, err
		}
		if outcome, home, err = p.placed(ctx, "forward", tag, strconv.FormatInt(p.v.m.Epoch, 10), strconv.Itoa(next)); err != nil {
			return 0, err
		}
	}
	if outcome == "old" {
		return 0, errOld
	}
	return home, nil
}

// vacancy returns the next partition clockwise that accepts another tag.
func (p *partition) vacancy(ctx context.Context, position uint64) (int, error) {
	var unanswered error
	for id := range p.v.ring.Walk(position) {
		q := p.v.partitions[id]
		if q == p || q.Phase != directory.Open || q.ReadOnly {
			continue
		}
		outcome, _, err := q.run(ctx, "vacancy", p.v.limits()...)
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil:
			unanswered = errors.Join(unanswered, err)
		case outcome == "room":
			return id, nil
		}
	}
	if unanswered != nil {
		return 0, ErrUnavailable.Errorf("partition %d is full, and no other one with room answers", p.ID).Wrap(unanswered)
	}
	full := millrace.ErrFull.Errorf("all partitions of the fleet are full")
	full.Hint = "Add a partition with millrace fleet add, or forget tags that are not in use."
	return 0, full
}

func (p *partition) identity() string { return members.Identity(p.v.m.Fleet, p.ID) }

// unknownServer is the error for a server with another identity.
func (p *partition) unknownServer(identity string) error {
	if identity == "" {
		identity = "nothing: it may have lost its data"
	}
	return ErrUnknownServer.Errorf("partition %d of this fleet is expected at %s, and the server says it is %s", p.ID, p.master().addr, identity)
}

// lookUpScript runs without a runner: the caller retries a look-up that fails.
var lookUpScript = rueidis.NewLuaScript(members.Scripts.Script("lookup").Source())

// lookUp asks the master for the record of a tag. The answer is sure if the master cannot
// have been replaced before it answered; only then is a missing record evidence. A master
// that restarted since the map was stored may have lost the record.
func (p *partition) lookUp(ctx context.Context, tag string) (r members.Record, found, sure bool, err error) {
	began := p.f.now()
	fresh := p.v.fresh(began) && !p.ReadOnly
	m := p.master()
	c, err := m.open(ctx)
	if err != nil {
		return r, false, false, p.lost(ctx, m, err, ErrUnavailable)
	}
	reply, err := lookUpScript.Exec(ctx, c, []string{members.Base}, []string{p.v.m.Fleet, strconv.Itoa(p.ID), tag}).AsStrSlice()
	switch {
	case err != nil:
		return r, false, false, p.refused(ctx, m, err)
	case len(reply) != 2:
		return r, false, false, fmt.Errorf("%s answered a look-up with %q", m.addr, reply)
	}
	sure = fresh && p.f.now()-began <= p.v.replyTimeout
	switch outcome, detail := reply[0], reply[1]; outcome {
	case "stranger":
		return r, false, false, p.unknownServer(detail)
	case "none":
		if run := p.Master.Run; run != "" && detail != run {
			p.f.refreshSoon()
			return r, false, false, ErrUnavailable.Errorf("%s was restarted, and no agent has examined it since", m.addr)
		}
		return r, false, sure, nil
	default:
		r, err = members.ParseRecord(detail)
		return r, err == nil, sure && err == nil, err
	}
}

// refused is the error for a member that did not answer, or answered with an error.
func (p *partition) refused(ctx context.Context, m *member, err error) error {
	if _, answered := rueidis.IsRedisErr(err); !answered {
		return p.lost(ctx, m, err, ErrUnavailable)
	}
	if troubled(err) {
		p.f.refreshSoon()
	}
	return ErrUnavailable.Errorf("partition %d refuses a look-up", p.ID).Wrap(err)
}

// record returns the record of a tag: the master's, or for a read that of any member if the
// master does not answer. A replica may lack a new record, but the records that it has are
// valid; so are those of a fenced master.
func (p *partition) record(ctx context.Context, tag string, write bool) (r members.Record, found, sure bool, err error) {
	r, found, sure, err = p.lookUp(ctx, tag)
	if err == nil || write {
		return r, found, sure, err
	}
	for _, m := range p.members {
		c, err := m.open(ctx)
		if err != nil {
			continue
		}
		reply, err := c.Do(ctx, c.B().Mget().Key(members.IdentityKey, members.RecordKey(tag)).Build()).ToArray()
		if err != nil {
			continue
		}
		identity, _ := reply[0].ToString()
		text, _ := reply[1].ToString()
		if r, err := members.ParseRecord(text); err == nil && identity == p.identity() {
			return r, true, false, nil
		}
	}
	return members.Record{}, false, false, err
}

// run runs one of the members' scripts on the master.
func (p *partition) run(ctx context.Context, name string, args ...string) (outcome, detail string, err error) {
	reply, err := p.runner.Run(ctx, name, members.Base, append([]string{p.v.m.Fleet, strconv.Itoa(p.ID)}, args...)...)
	if err != nil {
		return "", "", err
	}
	outcome, detail = reply.Text(), reply.Text()
	if outcome == "stranger" {
		return "", "", p.unknownServer(detail)
	}
	return outcome, detail, reply.Err()
}

// placed runs a script that may reply with the place of a tag.
func (p *partition) placed(ctx context.Context, name string, args ...string) (outcome string, home int, err error) {
	outcome, detail, err := p.run(ctx, name, args...)
	if err == nil && outcome == "at" {
		home, err = strconv.Atoi(detail)
	}
	return outcome, home, err
}
