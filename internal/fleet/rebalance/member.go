package rebalance

import (
	"context"
	"embed"
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
	"github.com/millrace/millrace/internal/redis/replicas"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts that partitions run to move tags.
var library = script.Load(folder, "K:")

func (m *Mover) client(partition int) rueidis.Client { return m.f.Partitions()[partition] }

// eval runs a script for a tag in a partition, and waits a moment until that many replicas
// have its writes, if there are any.
func (m *Mover) eval(ctx context.Context, partition, copies int, s *script.Script, tag string, args ...string) (outcome, detail string, err error) {
	current := m.fleetMap()
	if err := checkID(current, partition); err != nil {
		return "", "", err
	}
	c := m.client(partition)
	cmd := c.B().Eval().Script(s.Source()).Numkeys(1).Key(members.Base).
		Arg(current.Fleet, strconv.Itoa(partition), tag).Arg(args...).Build()
	var result rueidis.RedisResult
	if copies > 0 && m.live(partition) > 0 {
		var results []rueidis.RedisResult
		results, _, _ = m.confirm(ctx, partition, copies, current.Settings.Effective().ReplyTimeout/2, cmd)
		result = results[0]
	} else {
		result = c.Do(ctx, cmd)
	}
	reply, err := result.AsStrSlice()
	switch {
	case retry.Code(err, "OOM"):
		return "", "", full(partition).Wrap(err)
	case err != nil:
		return "", "", err
	case len(reply) != 2:
		return "", "", fmt.Errorf("partition %d answered %s with %q", partition, s.Name(), reply)
	case reply[0] == "stranger":
		return "", "", stranger(partition, reply[1])
	}
	return reply[0], reply[1], nil
}

// change runs a script that changes something if the record of a tag is the expected one,
// and else returns ErrTaken.
func (m *Mover) change(ctx context.Context, step string, partition, copies int, s *script.Script, tag string, args ...string) error {
	return m.retry(ctx, step, tag, func() error {
		outcome, detail, err := m.eval(ctx, partition, copies, s, tag, args...)
		if err == nil && outcome == "other" {
			err = ErrTaken.Errorf("the record of %q in partition %d is %q by now", tag, partition, detail)
		}
		return err
	})
}

// exchange replaces the record of a tag, and waits a moment for a replica to have it.
func (m *Mover) exchange(ctx context.Context, step string, partition int, tag, before, after string) error {
	return m.change(ctx, step, partition, 1, members.Scripts.Script("exchange"), tag, before, after)
}

// clear deletes keys of a tag in a partition where the tag is not, as the expected record
// says.
func (m *Mover) clear(ctx context.Context, step string, partition int, tag, expected string, keys []string) error {
	for some := range slices.Chunk(keys, chunkKeys) {
		if err := m.change(ctx, step, partition, 0, m.scripts.Script("clear"), tag, append([]string{expected}, some...)...); err != nil {
			return err
		}
	}
	return nil
}

// live returns how many replicas of a partition are not down.
func (m *Mover) live(partition int) (n int) {
	for _, r := range m.fleetMap().Partitions[partition].Replicas {
		if !r.Down {
			n++
		}
	}
	return n
}

// confirm sends commands, and waits until that many of the map's replicas have all that was
// written to the partition so far.
func (m *Mover) confirm(ctx context.Context, partition, copies int, timeout time.Duration, cmds ...rueidis.Completed) ([]rueidis.RedisResult, replicas.Copies, error) {
	all := m.fleetMap().Partitions[partition].Replicas
	counts := func(ip, port string) bool { // other servers that follow the master are no members
		return slices.ContainsFunc(all, func(r directory.Member) bool { return m.hosts.Match(r.Addr, ip, port) })
	}
	return replicas.ConfirmAmong(ctx, m.client(partition), members.Base, counts, copies, timeout, cmds...)
}

// secure makes sure that replicas that are not down have all writes to a partition:
// as many as writers wait for, and at least one.
func (m *Mover) secure(ctx context.Context, step string, partition int) error {
	set := m.fleetMap().Settings.Effective()
	return m.retry(ctx, step, "", func() error {
		live := m.live(partition)
		if live == 0 {
			return nil
		}
		_, copies, err := m.confirm(ctx, partition, live, set.ReplyTimeout)
		if need := min(live, set.Confirmed); err == nil && copies.Have < need {
			err = fleet.ErrUnavailable.Errorf("%d of the %d replicas needed in partition %d have what was written", copies.Have, need, partition)
		}
		return err
	})
}

func full(partition int) *millrace.Error {
	return millrace.ErrFull.Errorf("partition %d is full", partition).WithHint("Move the tags to another partition, or raise its maxmemory.")
}

// room refuses a partition that is too full to take new tags.
func (m *Mover) room(ctx context.Context, partition int) error {
	return m.retry(ctx, "room", "", func() error {
		c := m.client(partition)
		text, err := c.Do(ctx, c.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			return err
		}
		info := members.ParseInfo(text)
		if most := m.fleetMap().Settings.Effective().MaxFill; info.MaxMemory > 0 && info.Memory*100 >= info.MaxMemory*int64(most) {
			return full(partition).Errorf("partition %d has used %d of %d bytes, and is filled up to %d%%", partition, info.Memory, info.MaxMemory, most)
		}
		return nil
	})
}

// findKeys gives items their keys, with one pass over each of their partitions.
func (m *Mover) findKeys(ctx context.Context, items []*item, partition func(*item) int) error {
	for partition, items := range byPartition(items, partition) {
		keys, err := m.keysOf(ctx, partition, items)
		if err != nil {
			return err
		}
		for _, it := range items {
			it.keys = keys[it.tag]
		}
	}
	return nil
}

// keysOf makes one pass over the keys of a partition, and returns those of the items, by
// tag.
func (m *Mover) keysOf(ctx context.Context, partition int, items []*item) (map[string][]string, error) {
	found := map[string]map[string]bool{} // a scan may return a key twice
	for _, it := range items {
		found[it.tag] = map[string]bool{}
	}
	epoch := m.epoch(partition)
	err := m.step("scan", "", func() error {
		for key, err := range script.Scan(ctx, m.client(partition), "*") {
			if err != nil {
				return err
			}
			if keys, ok := found[fleet.Tag(key)]; ok && key != members.RecordKey(fleet.Tag(key)) {
				keys[key] = true
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
	keys := map[string][]string{}
	for tag, set := range found {
		keys[tag] = slices.AppendSeq([]string{}, maps.Keys(set))
	}
	return keys, nil
}

// epoch counts the masters that a partition has had.
func (m *Mover) epoch(partition int) int64 { return m.fleetMap().Partitions[partition].Epoch }

// replaced is the error of a step that began with one master and is invalid with another.
func replaced(partition int) error {
	return fleet.ErrUnavailable.Errorf("partition %d got another master while its keys were read", partition)
}

// Secure makes sure that replicas have all writes for a tag.
func (m *Mover) Secure(ctx context.Context, tag string) error {
	l, err := m.place(ctx, tag)
	if err != nil {
		return err
	}
	return m.secure(ctx, "secure marks", l.Partition)
}
