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
	"github.com/millrace/millrace/internal/replicas"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts that partitions run to move tags.
var library = script.Load(folder, "K:")

func (m *Mover) client(partition int) rueidis.Client { return m.f.Partitions()[partition] }

// eval runs a script for a tag in a partition, and waits a moment until that many replicas
// have what it wrote, if there are any.
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
		return "", "", fleet.ErrUnknownServer.Errorf("the server that should be partition %d has the identity %q", partition, reply[1])
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

// read returns the record of a tag in a partition, as text, "" for none, and parsed. The
// answer is certain: the call passes the fence as a write does.
func (m *Mover) read(ctx context.Context, partition int, tag string) (text string, r record, err error) {
	err = m.retry(ctx, "read", tag, func() error {
		outcome, detail, err := m.eval(ctx, partition, 0, members.Scripts.Script("lookup"), tag)
		if text = ""; err != nil {
			return err
		}
		if outcome == "record" {
			text = detail
		} else if run := m.fleetMap().Partitions[partition].Master.Run; run != "" && detail != run {
			return fleet.ErrUnavailable.Errorf("the master of partition %d was restarted, and no agent has examined it since", partition)
		}
		return nil
	})
	if err == nil && text != "" {
		r, err = parseRecord(text)
	}
	return text, r, err
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

// secure makes sure that replicas that are not down have what was written to a partition:
// as many as writers wait for, and at least one.
func (m *Mover) secure(ctx context.Context, step string, partition int) error {
	return m.retry(ctx, step, "", func() error {
		live, set := m.live(partition), m.fleetMap().Settings.Effective()
		if live == 0 {
			return nil
		}
		_, copies, err := m.confirm(ctx, partition, live, set.ReplyTimeout)
		if need := min(live, max(1, set.Confirmed)); err == nil && copies.Have < need {
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

// A chunk is what one step copies: that many keys, of that size together by what the server
// reports, or one larger key.
const (
	chunkKeys  = 200
	chunkBytes = 1 << 20
)

// dumped is the value of a key in transit.
type dumped struct {
	key     string
	payload string
	ends    int64 // when it expires, in Unix milliseconds by the server's clock, 0 for never
}

// copy copies all keys of a tag, chunk by chunk.
func (m *Mover) copy(ctx context.Context, it *item) error {
	for keys := range slices.Chunk(it.keys, chunkKeys) {
		chunks, err := m.pack(ctx, it, keys)
		if err != nil {
			return err
		}
		for _, chunk := range chunks {
			values, err := m.dump(ctx, it, chunk)
			if err != nil {
				return err
			}
			if err := m.restore(ctx, it, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack distributes keys over chunks by their size.
func (m *Mover) pack(ctx context.Context, it *item, keys []string) (chunks [][]string, err error) {
	err = m.retry(ctx, "pack", it.tag, func() error {
		c := m.client(it.from)
		cmds := make([]rueidis.Completed, len(keys))
		for i, key := range keys {
			cmds[i] = c.B().MemoryUsage().Key(key).Build()
		}
		chunks = nil
		var size int64
		for i, reply := range c.DoMulti(ctx, cmds...) {
			bytes, err := reply.AsInt64()
			if err != nil && !rueidis.IsRedisNil(err) {
				return err
			}
			if size += bytes; i == 0 || size > chunkBytes {
				chunks, size = append(chunks, nil), bytes
			}
			chunks[len(chunks)-1] = append(chunks[len(chunks)-1], keys[i])
		}
		return nil
	})
	return chunks, err
}

// dump returns the values of keys as they are at one moment: a late write is in all of
// them or in none. Expired keys are left out.
func (m *Mover) dump(ctx context.Context, it *item, keys []string) (values []dumped, err error) {
	err = m.retry(ctx, "dump", it.tag, func() error {
		c := m.client(it.from)
		cmds := []rueidis.Completed{c.B().Multi().Build(), c.B().Time().Build()}
		for _, key := range keys {
			cmds = append(cmds, c.B().Pttl().Key(key).Build(), c.B().Dump().Key(key).Build())
		}
		replies := c.DoMulti(ctx, append(cmds, c.B().Exec().Build())...)
		done, err := replies[len(replies)-1].ToArray()
		if err != nil {
			return err
		}
		now, err := done[0].AsIntSlice() // seconds and microseconds
		if err != nil {
			return err
		}
		values = nil
		for i, key := range keys {
			ttl, err := done[1+2*i].AsInt64()
			if err != nil {
				return err
			}
			payload, err := done[2+2*i].ToString()
			if rueidis.IsRedisNil(err) {
				continue
			}
			if err != nil {
				return err
			}
			v := dumped{key: key, payload: payload}
			if ttl >= 0 {
				v.ends = now[0]*1000 + now[1]/1000 + ttl
			}
			values = append(values, v)
		}
		return nil
	})
	return values, err
}

// restore writes a chunk, together with a claim of the next number: a claim with a number
// shows that all chunks up to it are on the same server. A master that took over without a
// chunk lacks the claim too, and accepts no further one.
func (m *Mover) restore(ctx context.Context, it *item, values []dumped) error {
	next := it.claimText(it.chunks + 1)
	args := []string{it.claimed, next}
	var bytes int64
	for _, v := range values {
		args = append(args, v.key, strconv.FormatInt(v.ends, 10), v.payload)
		bytes += int64(len(v.payload))
	}
	if err := m.change(ctx, "restore", it.to, 0, m.scripts.Script("restore"), it.tag, args...); err != nil {
		return err
	}
	it.claimed = next
	it.chunks++
	it.copies += int64(len(values))
	it.bytes += bytes
	return nil
}
