package fleet

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// client is a rueidis.Client that sends each command to the partition of its tag.
type client struct {
	f         *Fleet
	partition int  // where all commands go, whatever their tags are; anyPartition otherwise
	spread    bool // whether a write waits a moment for a replica
}

const anyPartition = -1

// tag returns the tag of a command.
func (c *client) tag(words []string) (string, error) {
	if c.partition != anyPartition {
		return "", nil
	}
	return tagOf(words)
}

// locate returns the targets of commands with these tags.
func (c *client) locate(ctx context.Context, tags []string, writes []bool) ([]target, error) {
	if c.partition == anyPartition {
		return c.f.locateAll(ctx, tags, writes)
	}
	t, err := c.locateOne(ctx, "", slices.Contains(writes, true))
	return slices.Repeat([]target{t}, len(tags)), err
}

// locateOne returns the target of one command.
func (c *client) locateOne(ctx context.Context, tag string, write bool) (target, error) {
	if c.partition == anyPartition {
		return c.f.locate(ctx, tag, write)
	}
	v, began, err := c.f.permitted(ctx, write)
	if err != nil {
		return target{}, err
	}
	if c.partition >= len(v.partitions) {
		return target{}, ErrUnavailable.Errorf("the fleet's map has no partition %d", c.partition)
	}
	return target{p: v.partitions[c.partition], began: began}, nil
}

// B returns a builder of commands.
func (c *client) B() rueidis.Builder { return c.f.builder }

// Do sends a command to the partition of its tag. A write is sent once. A read that
// fails is tried on another member.
func (c *client) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	tag, err := c.tag(cmd.Commands())
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	cmd = c.f.marked(cmd)
	write := mayWrite(cmd)
	t, err := c.locateOne(ctx, tag, write)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	g := group{target: t}
	g.add(t, 0, write)
	return g.do(ctx, c.spread, []rueidis.Completed{cmd})[0]
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
	cmds, writes := make([]rueidis.Completed, len(multi)), make([]bool, len(multi))
	for i, cmd := range multi {
		cmds[i] = c.f.marked(cmd)
		writes[i] = mayWrite(cmds[i])
	}
	targets, err := c.locate(ctx, tags, writes)
	if err != nil {
		return all(len(multi), err)
	}
	groups := map[int]*group{}
	for i, t := range targets {
		g := groups[t.p.ID]
		if g == nil {
			g = &group{target: t}
			groups[t.p.ID] = g
		}
		g.add(t, i, writes[i])
	}
	if len(groups) == 1 { // as most pipelines
		return groups[targets[0].p.ID].do(ctx, c.spread, cmds)
	}
	results := make([]rueidis.RedisResult, len(multi))
	var working sync.WaitGroup
	for _, g := range groups {
		working.Go(func() {
			own := make([]rueidis.Completed, len(g.at))
			for i, at := range g.at {
				own[i] = cmds[at]
			}
			for i, result := range g.do(ctx, c.spread, own) {
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
	if !g.write {
		return g.read(ctx, cmds)
	}
	results := g.writeAll(ctx, spread, cmds)
	for _, place := range g.places {
		place.wrote.Store(g.p.f.now())
	}
	return results
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
				if tag, err := c.tag(words); err == nil {
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
		tag, err := c.tag(words)
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
		if tag, err := c.tag([]string{"MULTI"}); err == nil {
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
