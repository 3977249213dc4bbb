package shards

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/batch"
	"github.com/millrace/millrace/internal/redis/script"
)

// NoTTL is the time left of a value without a deadline.
const NoTTL time.Duration = -1

const (
	// headSize is the length of the head of a value: a mark, the version, and the
	// deadline in six bytes with the most significant first.
	headSize = 8

	mark, version = 250, 2

	// never is the deadline of a field without one.
	never = 1<<48 - 1
)

// Found is called with a value that exists: its position in the call, and the time that is
// left, or NoTTL.
type Found func(i int, value []byte, ttl time.Duration)

// Decode returns the value and the remaining time of a stored text, by the server's clock in
// microseconds. It returns false for an expired value.
func Decode(stored string, now int64, name string) (value []byte, ttl time.Duration, ok bool, err error) {
	if len(stored) < headSize || stored[0] != mark || stored[1] != version {
		return nil, 0, false, millrace.ErrBroken.Errorf("what is stored for %q is no value of version %d", name, version)
	}
	value = []byte(stored)
	deadline := int64(binary.BigEndian.Uint64(value) & never)
	if deadline == never {
		return value[headSize:], NoTTL, true, nil
	}
	left := deadline - (now+999)/1000
	ttl = time.Duration(min(max(left, 1), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	return value[headSize:], ttl, deadline*1000 > now, nil
}

// A read is some fields of one Redis hash. It uses plain commands, which replicas also
// serve: HGET or HMGET, followed by TIME, in one pipeline. A value whose deadline is later
// than that time existed when it was read. Reads of many goroutines share a pipeline and
// its TIME.
type read struct {
	base   string // of the shard
	key    string
	fields []string
}

// answer is the result of a read: nil for a missing field.
type answer struct {
	stored []rueidis.RedisMessage
	now    int64 // the server's clock in microseconds
	err    error
}

// readers batch reads: on a Cluster, where shards lie on several servers, those of one
// shard.
type readers struct {
	client rueidis.Client
	shards sync.Map // base key -> *batch.Batcher
}

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
	a, err := b.(*batch.Batcher[read, answer]).Do(ctx, want) //nolint:forcetypeassert // only batchers are stored
	if err == nil {
		err = a.err
	}
	return a, err
}

func (r *readers) call(ctx context.Context, reads []read) ([]answer, error) {
	ctx, cancel := script.Reading(ctx)
	defer cancel()
	c := r.client
	cmds := make(rueidis.Commands, len(reads), len(reads)+1)
	for i, want := range reads { // pinned, see script.Runner
		if len(want.fields) == 1 {
			cmds[i] = c.B().Hget().Key(want.key).Field(want.fields[0]).Build().Pin()
		} else {
			cmds[i] = c.B().Hmget().Key(want.key).Field(want.fields...).Build().Pin()
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

// timeAt returns a TIME command that goes to the node of a key, as the reads in front of it
// do.
func timeAt(c rueidis.Client, key string) rueidis.Completed {
	return c.B().Arbitrary("TIME").ReadOnly().SetSlot(key).Pin()
}

// microsOf decodes the reply to TIME.
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

// firstPage is how many values a read of many values requests first. The next pages hold
// as many as fit into a page if they are as large as the largest so far, at most ten times
// as many as the page before.
const firstPage = 10

// maxPage is how many values a page requests at most.
const maxPage = 1000

// ReadMany reads fields of a Redis hash of a shard in pages, and calls found for those that
// exist. If some are missing, it checks the shard, and returns the error with which scripts
// refuse one that does not exist or belongs to another number of shards.
func (s *Space) ReadMany(ctx context.Context, base string, shards int, key string, fields []string, found Found) error {
	checked, size, largest := false, firstPage, 1
	for from := 0; from < len(fields); {
		page := fields[from:min(len(fields), from+size)]
		a, err := s.readPage(ctx, read{base, key, page})
		if err != nil {
			return err
		}
		for i, m := range a.stored {
			if m.IsNil() {
				if !checked {
					err = s.checkShard(ctx, base, shards)
				}
				if checked = true; err != nil {
					return err
				}
				continue
			}
			stored, err := m.ToString()
			if err != nil {
				return err
			}
			value, ttl, ok, err := Decode(stored, a.now, page[i])
			if err != nil {
				return err
			}
			if largest = max(largest, len(stored)); ok {
				found(from+i, value, ttl)
			}
		}
		from += len(page)
		size = max(1, min(10*size, maxPage, s.PageBytes/largest))
	}
	return nil
}

func (s *Space) readPage(ctx context.Context, want read) (a answer, err error) {
	err = s.Run.Plain(ctx, s.Kind.Package+".get", want.base, func(ctx context.Context) (err error) {
		a, err = s.readers.do(ctx, want)
		return err
	})
	return a, err
}

// checkShard returns the error with which scripts refuse to work on a shard, see
// check.lua.
func (s *Space) checkShard(ctx context.Context, base string, shards int) error {
	a, err := s.readPage(ctx, read{base, base, []string{"version", "shards"}})
	if err != nil {
		return err
	}
	found, _ := a.stored[0].ToString()
	count, _ := a.stored[1].AsInt64()
	switch {
	case found == "": // a script can tell whether something else is stored there
		_, err := s.Ask(ctx, nil, "stats", base, shards)
		return err
	case found != s.Kind.Version:
		return millrace.ErrVersion.Errorf("%s has version %q", base, found)
	case count != int64(shards):
		return errShards
	}
	return nil
}
