package rebalance

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// A chunk is the unit that one step copies: that many keys, of that size together as the server
// reports it, or one larger key.
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
