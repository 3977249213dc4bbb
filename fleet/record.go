package fleet

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts that members run.
var library = script.Load(folder, "K:")

// record is what a partition has written down about a tag: "3", or with a mark
// behind it "3 -TOKEN".
type record struct {
	home  int    // the partition that has the tag
	mark  mark   // what is being done to it
	token string // by whom
}

// mark says what is being done to a tag.
type mark string

// Marks.
const (
	unmarked   mark = ""
	forgetting mark = "-" // it is about to be given up, unless somebody writes for it
	leaving    mark = "+" // it is about to be moved: whoever uses it asks for it each time
	moving     mark = "!" // it is being moved: whoever writes for it waits
)

func (r record) String() string {
	if r.mark == unmarked {
		return strconv.Itoa(r.home)
	}
	return fmt.Sprintf("%d %s%s", r.home, r.mark, r.token)
}

func parseRecord(text string) (r record, err error) {
	home, rest, marked := strings.Cut(text, " ")
	if r.home, err = strconv.Atoi(home); err != nil || r.home < 0 || marked && rest == "" {
		return record{}, fmt.Errorf("%q is no record of a tag", text)
	}
	if marked {
		r.mark, r.token = mark(rest[:1]), rest[1:]
		if r.mark != forgetting && r.mark != leaving && r.mark != moving {
			return record{}, fmt.Errorf("%q is no record of a tag", text)
		}
	}
	return r, nil
}

// identity is what a member of the partition says it is.
func (p *partition) identity() string { return directory.Identity(p.v.m.Fleet, p.id) }

// stranger is the error for a server that says it is something else.
func (p *partition) stranger(said string) error {
	if said == "" {
		said = "nothing: it may have lost its data"
	}
	return ErrStranger.Errorf("partition %d of this fleet is expected at %s, and the server says it is %s", p.id, p.master().addr, said)
}

// lookUpScript is run by members outside of any runner: a look-up that fails is the
// caller's to repeat.
var lookUpScript = rueidis.NewLuaScript(library.Script("lookup").Source())

// lookUp asks the master for the record of a tag. The answer is sure if nobody can
// have replaced the master before it was given; only then does it count that there
// is no record. A master that was started again since the map was made may have
// forgotten the record.
func (p *partition) lookUp(ctx context.Context, tag string) (r record, found, sure bool, err error) {
	began := p.f.now()
	fresh := p.v.fresh(began) && !p.readOnly
	m := p.master()
	c, err := m.open(ctx)
	if err != nil {
		return r, false, false, p.lost(ctx, m, err)
	}
	reply, err := lookUpScript.Exec(ctx, c, []string{baseKey}, []string{p.v.m.Fleet, strconv.Itoa(p.id), tag}).AsStrSlice()
	switch {
	case err != nil:
		return r, false, false, p.refused(ctx, m, err)
	case len(reply) != 2:
		return r, false, false, fmt.Errorf("%s answered a look-up with %q", m.addr, reply)
	}
	sure = fresh && p.f.now()-began <= p.v.replyLimit
	switch outcome, detail := reply[0], reply[1]; outcome {
	case "stranger":
		return r, false, false, p.stranger(detail)
	case "none":
		if known := p.v.m.Partitions[p.id].Master.Run; known != "" && detail != known {
			p.f.refreshSoon()
			return r, false, false, ErrUnavailable.Errorf("%s was started again, and has not been looked at since", m.addr)
		}
		return r, false, sure, nil
	default:
		r, err = parseRecord(detail)
		return r, err == nil, sure && err == nil, err
	}
}

// refused is the error for a member that could not be asked.
func (p *partition) refused(ctx context.Context, m *member, err error) error {
	if _, answered := rueidis.IsRedisErr(err); !answered {
		return p.lost(ctx, m, err)
	}
	if troubled(err) {
		p.f.refreshSoon()
	}
	return ErrUnavailable.Errorf("partition %d cannot be asked", p.id).Wrap(err)
}

// readAt reads the record that a member has, which may be an old one, or not there
// yet.
func (p *partition) readAt(ctx context.Context, m *member, tag string) (r record, found bool, err error) {
	c, err := m.open(ctx)
	if err != nil {
		return r, false, p.lost(ctx, m, err)
	}
	reply, err := c.Do(ctx, c.B().Mget().Key(identityKey, recordKey(baseKey, tag)).Build()).ToArray()
	if err != nil {
		return r, false, p.refused(ctx, m, err)
	}
	if said, _ := reply[0].ToString(); said != p.identity() {
		return r, false, p.stranger(said)
	}
	if reply[1].IsNil() {
		return r, false, nil
	}
	text, err := reply[1].ToString()
	if err != nil {
		return r, false, err
	}
	r, err = parseRecord(text)
	return r, err == nil, err
}

// run runs one of the scripts above on the master. Its outcome is never that of a
// stranger.
func (p *partition) run(ctx context.Context, name string, args ...string) (outcome, detail string, err error) {
	reply, err := p.runner.Run(ctx, name, baseKey, append([]string{p.v.m.Fleet, strconv.Itoa(p.id)}, args...)...)
	if err != nil {
		return "", "", err
	}
	outcome, detail = reply.Text(), reply.Text()
	if outcome == "stranger" {
		return "", "", p.stranger(detail)
	}
	return outcome, detail, reply.Err()
}

// placed runs a script whose outcome may be where a tag is.
func (p *partition) placed(ctx context.Context, name string, args ...string) (outcome string, home int, err error) {
	outcome, detail, err := p.run(ctx, name, args...)
	if err == nil && outcome == "at" {
		home, err = strconv.Atoi(detail)
	}
	return outcome, home, err
}

// exchange replaces the record of a tag if it is what the caller saw; an empty text
// is no record. It reports whether it was, or is the new one already.
func (p *partition) exchange(ctx context.Context, tag, before, after string) (bool, error) {
	outcome, _, err := p.run(ctx, "exchange", tag, before, after)
	return outcome == "exchanged", err
}

// limits returns the arguments that say when a partition is full.
func limits(s directory.Settings) []string {
	s = s.Effective()
	return []string{strconv.FormatInt(s.MaxTags, 10), strconv.Itoa(s.MaxFill)}
}
