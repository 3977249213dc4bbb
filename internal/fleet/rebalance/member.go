package rebalance

import (
	"context"
	"embed"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/members"
	"github.com/millrace/millrace/internal/replicas"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// client returns the client of one partition.
func (m *Mover) client(partition int) rueidis.Client { return m.f.Partitions()[partition] }

//go:embed *.lua
var folder embed.FS

// library holds the scripts that partitions run.
var library = script.Load(folder, "K:")

// run runs a script that does something for a tag in one partition if the record
// there is the expected one, and returns ErrTaken otherwise.
func (m *Mover) run(ctx context.Context, step, name string, partition int, tag string, args ...string) error {
	return m.step(step, tag, func() error {
		runner := script.Runner{Client: m.client(partition), Scripts: m.scripts, Retry: retry.Policy{Patience: m.times().patience}}
		reply, err := runner.Run(ctx, name, base, append([]string{m.f.Map().Fleet, strconv.Itoa(partition), tag}, args...)...)
		if errors.Is(err, millrace.ErrFull) {
			return full(partition).Wrap(err)
		}
		if err != nil {
			return err
		}
		switch outcome, detail := reply.Text(), reply.Text(); outcome {
		case "stranger":
			return fleet.ErrStranger.Errorf("the server that is expected to be partition %d says it is %q", partition, detail)
		case "other":
			return ErrTaken.Errorf("the record of %q in partition %d is %q by now", tag, partition, detail)
		}
		return reply.Err()
	})
}

// full is the error for a partition that has no room for more.
func full(partition int) *millrace.Error {
	e := millrace.ErrFull.Errorf("partition %d is full", partition)
	e.Hint = "Move the tags to another partition, or raise its maxmemory."
	return e
}

// room refuses a partition of whose memory so much is used that it is given no new
// tags either.
func (m *Mover) room(ctx context.Context, partition int) error {
	return m.again(ctx, "room", "", func() error {
		c := m.client(partition)
		info, err := c.Do(ctx, c.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			return err
		}
		used, limit := members.Number(info, "used_memory"), members.Number(info, "maxmemory")
		if most := m.f.Map().Settings.Effective().MaxFill; limit > 0 && used*100 >= limit*int64(most) {
			return full(partition).Errorf("partition %d has used %d of %d bytes, and is filled up to %d%%", partition, used, limit, most)
		}
		return nil
	})
}

// secure makes sure that what was written to a partition is on a replica by now, if
// it has any that is not down: on so many as writers wait for, at least on one.
func (m *Mover) secure(ctx context.Context, step string, partition int) error {
	return m.again(ctx, step, "", func() error {
		set := m.f.Map().Settings.Effective()
		all := m.f.Map().Partitions[partition].Replicas
		live := slices.DeleteFunc(slices.Clone(all), func(r directory.Member) bool { return r.Down })
		if len(live) == 0 {
			return nil
		}
		counts := func(ip, port string) bool { // others that follow the master are no members
			return slices.ContainsFunc(all, func(r directory.Member) bool { return m.hosts.Match(r.Addr, ip, port) })
		}
		_, copies, err := replicas.ConfirmAmong(ctx, m.client(partition), base, counts, len(live), set.ReplyLimit)
		if need := min(len(live), max(1, set.Confirmed)); err == nil && copies.Have < need {
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
			if keys, ok := wanted[fleet.Tag(key)]; ok && key != recordKey(fleet.Tag(key)) {
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
func (m *Mover) epoch(partition int) int64 { return m.f.Map().Partitions[partition].Epoch }

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
	for some := range slices.Chunk(keys, parcelKeys) {
		if err := m.run(ctx, step, "clear", partition, tag, append([]string{expected}, some...)...); err != nil {
			return err
		}
	}
	return nil
}
