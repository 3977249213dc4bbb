package fleet

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// client is a rueidis.Client whose commands go where by routes them.
type client struct {
	f      *Fleet
	by     route
	close  func()
	spread bool // whether a write waits a moment for a replica
}

// route says where commands go.
type route interface {
	// tag returns the tag of a command.
	tag(words []string) (string, error)

	// locate returns the target of a command with the tag.
	locate(ctx context.Context, tag string, write bool) (target, error)

	// locateAll returns the targets of several commands.
	locateAll(ctx context.Context, tags []string, writes []bool) ([]target, error)
}

// byTag routes by the tag of a command's keys.
type byTag struct{ f *Fleet }

func (r byTag) tag(words []string) (string, error) { return tagOf(words) }

func (r byTag) locate(ctx context.Context, tag string, write bool) (target, error) {
	return r.f.locate(ctx, tag, write)
}

func (r byTag) locateAll(ctx context.Context, tags []string, writes []bool) ([]target, error) {
	return r.f.locateAll(ctx, tags, writes)
}

// byOneTag routes the commands of one tag, and refuses others.
type byOneTag struct {
	byTag
	only string
}

func (r byOneTag) tag(words []string) (string, error) {
	tag, err := tagOf(words)
	if err == nil && tag != r.only {
		return "", ErrMixedTags.Errorf("the keys of %s have another tag than this client", words[0])
	}
	return tag, err
}

// byPartition sends everything to one partition.
type byPartition struct {
	f  *Fleet
	id int
}

func (r byPartition) tag([]string) (string, error) { return "", nil }

func (r byPartition) locate(ctx context.Context, _ string, write bool) (target, error) {
	if !write {
		return target{p: r.f.view.Load().partitions[r.id]}, nil
	}
	v, began, err := r.f.confirmed(ctx)
	if err != nil {
		return target{}, err
	}
	return target{p: v.partitions[r.id], began: began}, nil
}

func (r byPartition) locateAll(ctx context.Context, tags []string, writes []bool) ([]target, error) {
	t, err := r.locate(ctx, "", slices.Contains(writes, true))
	return slices.Repeat([]target{t}, len(tags)), err
}

// B returns a builder of commands.
func (c *client) B() rueidis.Builder { return c.f.builder }

// Do sends a command to the partition of its tag. A write is sent once. A read that
// fails is tried on another member.
func (c *client) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	tag, err := c.by.tag(cmd.Commands())
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	cmd = c.f.marked(cmd)
	write := mayWrite(cmd)
	t, err := c.by.locate(ctx, tag, write)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	switch {
	case !write:
		return t.read(ctx, cmd)
	case c.spread:
		return t.writeAll(ctx, true, cmd)[0]
	default:
		return t.write(ctx, cmd)
	}
}

// DoMulti sends commands to the partitions of their tags: to all in parallel, and to
// each in one pipeline in their order. A transaction, MULTI to EXEC, has one tag. WAIT
// and TIME go with the command before them. Unknown tags are found and placed in
// parallel before anything is sent. If one command cannot be routed, none is sent.
func (c *client) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	tags, err := c.tags(multi)
	if err != nil {
		return all(len(multi), err)
	}
	if len(multi) == 0 {
		return nil
	}
	writes, own := make([]bool, len(multi)), false
	for i, cmd := range multi {
		if marked := c.f.marked(cmd); marked != cmd {
			if !own {
				multi, own = slices.Clone(multi), true
			}
			multi[i] = marked
		}
		writes[i] = mayWrite(multi[i])
	}
	targets, err := c.by.locateAll(ctx, tags, writes)
	if err != nil {
		return all(len(multi), err)
	}
	first := &group{target: targets[0], at: make([]int, 0, len(multi))} // most pipelines go to one partition
	groups := map[int]*group{first.p.id: first}
	for i, t := range targets {
		g := first
		if t.p.id != first.p.id {
			if g = groups[t.p.id]; g == nil {
				g = &group{target: t}
				groups[t.p.id] = g
			}
		}
		g.add(t, i, writes[i])
	}
	if len(groups) == 1 {
		return first.do(ctx, c.spread, multi)
	}
	results := make([]rueidis.RedisResult, len(multi))
	var working sync.WaitGroup
	for _, g := range groups {
		working.Go(func() {
			cmds := make([]rueidis.Completed, len(g.at))
			for i, at := range g.at {
				cmds[i] = multi[at]
			}
			for i, result := range g.do(ctx, c.spread, cmds) {
				results[g.at[i]] = result
			}
		})
	}
	working.Wait()
	return results
}

// group is the commands for one partition.
type group struct {
	target

	write  bool
	at     []int        // their indexes among all commands
	places []*placement // of tags that are written, if ReadYourWrites
}

func (g *group) add(t target, at int, write bool) {
	// The oldest permission to write counts for all.
	if write && (!g.write || t.began < g.began) {
		g.target, g.write = t, true
	}
	if write && t.place != nil && t.p.f.cfg.ReadYourWrites {
		g.places = append(g.places, t.place)
	}
	g.at = append(g.at, at)
}

func (g *group) do(ctx context.Context, spread bool, cmds []rueidis.Completed) []rueidis.RedisResult {
	if g.write {
		results := g.writeAll(ctx, spread, cmds...)
		for _, place := range g.places {
			place.wrote.Store(g.p.f.now())
		}
		return results
	}
	return g.readAll(ctx, cmds...)
}

// tags returns the tag of each command. A command without a key belongs to its
// transaction, or to the command before it.
func (c *client) tags(multi []rueidis.Completed) ([]string, error) {
	tags := make([]string, len(multi))
	begun, known := -1, false // where a transaction began, and whether its tag is known
	for i := range multi {
		words := multi[i].Commands()
		name := strings.ToUpper(words[0])
		switch {
		case name == "MULTI":
			begun, known = i, false
			continue
		case name == "EXEC" || name == "DISCARD":
			if begun < 0 || !known {
				if tag, err := c.by.tag(words); err == nil {
					tags[i] = tag
					continue
				}
				return nil, ErrNoTag.Errorf("%s ends a transaction without a key", name)
			}
			tags[i] = tags[begun]
			begun = -1
			continue
		case (name == "WAIT" || name == "TIME") && i > 0:
			tags[i] = tags[i-1]
			continue
		}
		tag, err := c.by.tag(words)
		if err != nil {
			return nil, err
		}
		tags[i] = tag
		switch {
		case begun < 0:
		case !known:
			for j := begun; j < i; j++ {
				tags[j] = tag
			}
			known = true
		case tag != tags[begun]:
			return nil, ErrMixedTags.Errorf("a transaction has keys of several tags")
		}
	}
	if begun >= 0 && !known {
		if tag, err := c.by.tag([]string{"MULTI"}); err == nil {
			tags[begun] = tag
			return tags, nil
		}
		return nil, ErrNoTag.Errorf("a transaction has no key")
	}
	return tags, nil
}

// mayWrite reports whether a command may change anything. MULTI and EXEC do not by
// themselves: a transaction of reads is a read.
func mayWrite(cmd rueidis.Completed) bool {
	if cmd.IsReadOnly() {
		return false
	}
	switch words := cmd.Commands(); words[0] {
	case "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "PING", "ECHO", "INFO", "ROLE", "TIME", "DBSIZE", "SCAN":
		return false
	default:
		return true
	}
}
