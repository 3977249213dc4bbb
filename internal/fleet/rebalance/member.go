package rebalance

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/replicas"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// client returns the client of one partition.
func (m *Mover) client(partition int) rueidis.Client { return m.f.Partitions()[partition] }

//go:embed *.lua
var folder embed.FS

// library holds the scripts that partitions run to move tags.
var library = script.Load(folder, "K:")

// run runs a script that changes something for a tag in one partition if the record
// there is the expected one, and returns ErrTaken otherwise.
func (m *Mover) run(ctx context.Context, step, name string, partition int, tag string, args ...string) error {
	return m.step(step, tag, func() error {
		runner := script.Runner{Client: m.client(partition), Scripts: m.scripts, Retry: retry.Policy{Timeout: m.times().timeout}}
		reply, err := runner.Run(ctx, name, members.Base, append([]string{directory.MapOf(m.f.Client()).Fleet, strconv.Itoa(partition), tag}, args...)...)
		if errors.Is(err, millrace.ErrFull) {
			return full(partition).Wrap(err)
		}
		if err != nil {
			return err
		}
		switch outcome, detail := reply.Text(), reply.Text(); outcome {
		case "stranger":
			return unknownServer(partition, detail)
		case "other":
			return ErrTaken.Errorf("the record of %q in partition %d is %q by now", tag, partition, detail)
		}
		return reply.Err()
	})
}

func unknownServer(partition int, identity string) error {
	return fleet.ErrUnknownServer.Errorf("the server that is expected to be partition %d says it is %q", partition, identity)
}

// read returns the record that a partition has of a tag, as text, "" for none, and
// parsed. The answer is sure: the call goes through the fence as a write does.
func (m *Mover) read(ctx context.Context, partition int, tag string) (text string, r record, err error) {
	err = m.retry(ctx, "read", tag, func() error {
		outcome, detail, err := m.eval(ctx, partition, 0, "lookup", tag)
		switch text = ""; {
		case err != nil:
			return err
		case outcome == "record":
			text = detail
			return nil
		}
		if run := directory.MapOf(m.f.Client()).Partitions[partition].Master.Run; run != "" && detail != run {
			return fleet.ErrUnavailable.Errorf("the master of partition %d was restarted, and no agent has examined it since", partition)
		}
		return nil
	})
	if err == nil && text != "" {
		r, err = parseRecord(text)
	}
	return text, r, err
}

// exchange replaces the record that a partition has of a tag, and waits a moment for a
// replica to have it. If the record is another one by now, that is ErrTaken.
func (m *Mover) exchange(ctx context.Context, step string, partition int, tag, before, after string) error {
	return m.retry(ctx, step, tag, func() error {
		outcome, _, err := m.eval(ctx, partition, 1, "exchange", tag, before, after)
		if err == nil && outcome != "exchanged" {
			err = ErrTaken.Errorf("the record of %q in partition %d is not %q any more", tag, partition, before)
		}
		return err
	})
}

// eval runs one of the members' scripts for a tag in a partition, and waits a moment
// until so many replicas have what it wrote, if there are any.
func (m *Mover) eval(ctx context.Context, partition, copies int, name, tag string, args ...string) (outcome, detail string, err error) {
	if partition < 0 || partition >= len(directory.MapOf(m.f.Client()).Partitions) {
		return "", "", millrace.ErrBadArgument.Errorf("there is no partition %d", partition)
	}
	c := m.client(partition)
	cmd := c.B().Eval().Script(members.Scripts.Script(name).Source()).Numkeys(1).Key(members.Base).
		Arg(directory.MapOf(m.f.Client()).Fleet, strconv.Itoa(partition), tag).Arg(args...).Build()
	var result rueidis.RedisResult
	if live := m.live(partition); copies > 0 && live > 0 {
		var results []rueidis.RedisResult
		results, _, _ = m.confirm(ctx, partition, copies, directory.MapOf(m.f.Client()).Settings.Effective().ReplyTimeout/2, cmd)
		result = results[0]
	} else {
		result = c.Do(ctx, cmd)
	}
	reply, err := result.AsStrSlice()
	switch {
	case err != nil:
		return "", "", err
	case len(reply) != 2:
		return "", "", fmt.Errorf("partition %d answered %s with %q", partition, name, reply)
	case reply[0] == "stranger":
		return "", "", unknownServer(partition, reply[1])
	}
	return reply[0], reply[1], nil
}

// live returns how many replicas of a partition are not down.
func (m *Mover) live(partition int) (n int) {
	for _, r := range directory.MapOf(m.f.Client()).Partitions[partition].Replicas {
		if !r.Down {
			n++
		}
	}
	return n
}

// confirm sends commands, and waits until so many of the map's replicas have what was
// written to the partition before and by them.
func (m *Mover) confirm(ctx context.Context, partition, copies int, timeout time.Duration, cmds ...rueidis.Completed) ([]rueidis.RedisResult, replicas.Copies, error) {
	all := directory.MapOf(m.f.Client()).Partitions[partition].Replicas
	counts := func(ip, port string) bool { // others that follow the master are no members
		return slices.ContainsFunc(all, func(r directory.Member) bool { return m.hosts.Match(r.Addr, ip, port) })
	}
	return replicas.ConfirmAmong(ctx, m.client(partition), members.Base, counts, copies, timeout, cmds...)
}

// full is the error for a partition that has no room for more.
func full(partition int) *millrace.Error {
	e := millrace.ErrFull.Errorf("partition %d is full", partition)
	e.Hint = "Move the tags to another partition, or raise its maxmemory."
	return e
}

// room refuses a partition that is so full that it accepts no new tags.
func (m *Mover) room(ctx context.Context, partition int) error {
	return m.retry(ctx, "room", "", func() error {
		c := m.client(partition)
		text, err := c.Do(ctx, c.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			return err
		}
		info := members.ParseInfo(text)
		if most := directory.MapOf(m.f.Client()).Settings.Effective().MaxFill; info.MaxMemory > 0 && info.Memory*100 >= info.MaxMemory*int64(most) {
			return full(partition).Errorf("partition %d has used %d of %d bytes, and is filled up to %d%%", partition, info.Memory, info.MaxMemory, most)
		}
		return nil
	})
}

// secure makes sure that replicas that are not down have what was written to a
// partition: as many as writers wait for, and at least one.
func (m *Mover) secure(ctx context.Context, step string, partition int) error {
	return m.retry(ctx, step, "", func() error {
		live, set := m.live(partition), directory.MapOf(m.f.Client()).Settings.Effective()
		if live == 0 {
			return nil
		}
		_, copies, err := m.confirm(ctx, partition, live, set.ReplyTimeout)
		if need := min(live, max(1, set.Confirmed)); err == nil && copies.Have < need {
			err = fleet.ErrUnavailable.Errorf("%d replicas of partition %d have what was written, and %d should", copies.Have, partition, need)
		}
		return err
	})
}

// keysOf goes once through the keys of a partition, and returns those of some tags,
// by tag.
func (m *Mover) keysOf(ctx context.Context, partition int, tags []string) (map[string][]string, error) {
	wanted := map[string]map[string]bool{}
	for _, tag := range tags {
		wanted[tag] = map[string]bool{}
	}
	epoch := m.epoch(partition)
	err := m.step("scan", "", func() error {
		for key, err := range script.Scan(ctx, m.client(partition), "*") {
			if err != nil {
				return err
			}
			if keys, ok := wanted[fleet.Tag(key)]; ok && key != members.RecordKey(fleet.Tag(key)) {
				keys[key] = true // a scan may show a key twice
			}
		}
		return nil
	})
	if err == nil && m.epoch(partition) != epoch {
		err = replaced(partition)
	}
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for tag, keys := range wanted {
		found[tag] = slices.AppendSeq([]string{}, maps.Keys(keys))
	}
	return found, nil
}

// epoch counts the masters that a partition has had.
func (m *Mover) epoch(partition int) int64 {
	return directory.MapOf(m.f.Client()).Partitions[partition].Epoch
}

// replaced is the error for what was begun with one master, and is of no use with
// another one.
func replaced(partition int) error {
	return fleet.ErrUnavailable.Errorf("partition %d got another master while its keys were looked at", partition)
}

func tags(items []*item) []string {
	all := make([]string, len(items))
	for i, it := range items {
		all[i] = it.tag
	}
	return all
}

// clear deletes keys of a tag in a partition where the tag is not, as the record
// there says.
func (m *Mover) clear(ctx context.Context, step string, partition int, tag, expected string, keys []string) error {
	for some := range slices.Chunk(keys, chunkKeys) {
		if err := m.run(ctx, step, "clear", partition, tag, append([]string{expected}, some...)...); err != nil {
			return err
		}
	}
	return nil
}
