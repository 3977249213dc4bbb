package expiry

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/batch"
	"github.com/millrace/millrace/internal/script"
)

// Value is a value and for how long it still lives.
type Value struct {
	Value []byte
	TTL   time.Duration // NoTTL without a deadline
}

const (
	// headSize is how many bytes stand in front of a value: a mark, the version, and the
	// deadline, six bytes with the most significant first.
	headSize = 8

	mark, version = 250, 2

	// never is the deadline of a field without one.
	never = 1<<48 - 1
)

// readStored reads what is stored for a value or a field, by the server's clock in
// microseconds. It reports whether its time is not over.
func readStored(stored string, now int64, name string) (v Value, ok bool, err error) {
	if len(stored) < headSize || stored[0] != mark || stored[1] != version {
		return v, false, millrace.ErrBroken.Errorf("what is stored for %q is no value of version %d", name, version)
	}
	v.Value = []byte(stored)
	deadline := int64(binary.BigEndian.Uint64(v.Value) & never)
	v.Value, v.TTL = v.Value[headSize:], NoTTL
	if deadline != never {
		v.TTL = max(time.Millisecond, lifetime(deadline-(now+999)/1000))
	}
	return v, deadline == never || deadline*1000 > now, nil
}

// lifetime is a time in milliseconds, or the longest that there is.
func lifetime(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// A read is some fields of one Redis hash. It is made by plain commands, which replicas
// serve as well: HGET or HMGET, and behind them TIME, in one pipeline. A deadline later
// than that time was not over when the value was read. Reads of many goroutines share a
// pipeline, and so the time.
type read struct {
	base   string // of the shard
	key    string
	fields []string
}

// answer is what a read brought: nil for a field that is not there.
type answer struct {
	stored []rueidis.RedisMessage
	now    int64 // the server's clock in microseconds
	err    error
}

// readers put reads together: on a Cluster, where shards lie on several servers, those of
// one shard.
type readers struct {
	client rueidis.Client
	shards sync.Map // base key -> *batch.Batcher
}

// do makes a read.
func (r *readers) do(ctx context.Context, want read) (answer, error) {
	place := ""
	if r.client.Mode() == rueidis.ClientModeCluster {
		place = want.base
	}
	b, ok := r.shards.Load(place)
	if !ok {
		b, _ = r.shards.LoadOrStore(place, batch.New(batch.Config[read, answer]{
			Call: r.call,
			Size: func(want read) (items, bytes int) { return len(want.fields), 0 },
		}))
	}
	a, err := b.(*batch.Batcher[read, answer]).Do(ctx, want)
	if err == nil {
		err = a.err
	}
	return a, err
}

// call makes reads in one pipeline.
func (r *readers) call(ctx context.Context, reads []read) ([]answer, error) {
	ctx, cancel := script.Reading(ctx)
	defer cancel()
	c := r.client
	cmds := make(rueidis.Commands, len(reads), len(reads)+1)
	for i, want := range reads {
		if len(want.fields) == 1 {
			cmds[i] = c.B().Hget().Key(want.key).Field(want.fields[0]).Build()
		} else {
			cmds[i] = c.B().Hmget().Key(want.key).Field(want.fields...).Build()
		}
	}
	results := c.DoMulti(ctx, append(cmds, timeAt(c, reads[0].base))...)
	now, err := microsOf(results[len(reads)])
	if err != nil {
		return nil, err
	}
	answers := make([]answer, len(reads))
	for i, want := range reads {
		a := answer{now: now}
		if len(want.fields) == 1 {
			var stored rueidis.RedisMessage
			if stored, a.err = results[i].ToMessage(); rueidis.IsRedisNil(a.err) {
				a.err = nil
			}
			a.stored = []rueidis.RedisMessage{stored}
		} else {
			a.stored, a.err = results[i].ToArray()
		}
		answers[i] = a
	}
	return answers, nil
}

// timeAt asks for the time. As a read of a key's slot it goes to the node that the reads
// in front of it go to.
func timeAt(c rueidis.Client, key string) rueidis.Completed {
	return c.B().Arbitrary("TIME").ReadOnly().SetSlot(key)
}

// microsOf reads the answer to that.
func microsOf(result rueidis.RedisResult) (int64, error) {
	parts, err := result.AsIntSlice()
	if err == nil && len(parts) != 2 {
		err = fmt.Errorf("TIME answered %d numbers", len(parts))
	}
	if err != nil {
		return 0, err
	}
	return parts[0]*1e6 + parts[1], nil
}

// firstPage is how many values a read of many asks for first. Then it asks for as many as
// a page holds if they are as large as the largest so far, at most ten times as many as
// before.
const firstPage = 10

// readMany reads fields of a Redis hash of a shard in pages, and tells of those that are
// there. What is missing is only then not there if the shard is one of so many, which the
// error says otherwise.
func (n *namespace) readMany(ctx context.Context, name, base string, shards int, key string, fields []string, found func(i int, v Value)) error {
	sure, size, largest := false, firstPage, 1
	for from := 0; from < len(fields); {
		page := fields[from:min(len(fields), from+size)]
		a, err := n.readPage(ctx, name, read{base, key, page})
		if err != nil {
			return err
		}
		for i, m := range a.stored {
			if m.IsNil() {
				if !sure {
					err = n.checkShard(ctx, name, base, shards)
				}
				if sure = true; err != nil {
					return err
				}
				continue
			}
			stored, err := m.ToString()
			if err != nil {
				return err
			}
			v, ok, err := readStored(stored, a.now, page[i])
			if err != nil {
				return err
			}
			if largest = max(largest, len(stored)); ok {
				found(from+i, v)
			}
		}
		from += len(page)
		size = max(1, min(10*size, MaxFields, n.pageBytes/largest))
	}
	return nil
}

// readPage makes one read.
func (n *namespace) readPage(ctx context.Context, name string, want read) (a answer, err error) {
	err = n.run.Plain(ctx, name, want.base, func(ctx context.Context) (err error) {
		a, err = n.readers.do(ctx, want)
		return err
	})
	return a, err
}

// checkShard returns the error with which scripts refuse to work on a shard, see
// check.lua.
func (n *namespace) checkShard(ctx context.Context, name, base string, shards int) error {
	a, err := n.readPage(ctx, name, read{base, base, []string{"version", "shards"}})
	if err != nil {
		return err
	}
	found, _ := a.stored[0].ToString()
	count, _ := a.stored[1].AsInt64()
	switch {
	case found == "": // a script can tell whether there is something else
		_, err := n.ask(ctx, nil, n.kind.script("stats"), base, shards)
		return err
	case found != n.kind.wireVersion():
		return millrace.ErrVersion.Errorf("%s has version %q", base, found)
	case count != int64(shards):
		return errShards
	}
	return nil
}
