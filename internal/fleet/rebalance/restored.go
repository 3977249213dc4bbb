package rebalance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// restoredRun is the run of trips that a restored record is put on.
const restoredRun = "restored"

// Restored puts right what a server says that is about to be the master of a partition
// with an old copy of its data, such as one from the archive: tags that were moved away
// since are there again. Their records say that they are elsewhere by now, and who
// tends the fleet deletes their old data. It returns how many there were. Clients must
// not write to the partition meanwhile.
//
// Partitions that do not answer are in the error, after the others were asked: what was
// moved there cannot be known.
func Restored(ctx context.Context, option rueidis.ClientOption, moves directory.Directory, m *directory.Map, partition int, addr string) (tags int, err error) {
	pool := members.New(option, 2*time.Second)
	defer pool.Close()
	r := &restoring{pool: pool, m: m, partition: partition, addr: addr, silent: map[int]error{}}
	if err := r.all(ctx); err != nil {
		return r.tags, err
	}
	if r.tags > 0 {
		// A run that has ended without finishing what it began: somebody else does.
		err = moves.Moving(ctx, fmt.Sprint(restoredRun, "-", partition, "-", m.Epoch), time.Millisecond)
	}
	for id, why := range r.silent {
		err = errors.Join(err, fmt.Errorf("partition %d could not be asked: %w", id, why))
	}
	return r.tags, err
}

// restoring is one call of Restored.
type restoring struct {
	pool      *members.Pool
	m         *directory.Map
	partition int
	addr      string
	tags      int
	silent    map[int]error // partitions that did not answer
}

// all goes through the tags that are there, by their records.
func (r *restoring) all(ctx context.Context) error {
	var keys []string
	_, err := members.Ask(ctx, r.pool, r.addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		for key, err := range script.Scan(ctx, c, members.RecordKey("*")) {
			if err != nil {
				return struct{}{}, err
			}
			keys = append(keys, key)
		}
		return struct{}{}, nil
	})
	for some := range slices.Chunk(keys, 1000) {
		if err == nil {
			err = r.some(ctx, some)
		}
	}
	return err
}

// some looks at some of them.
func (r *restoring) some(ctx context.Context, keys []string) error {
	here, err := r.read(ctx, r.addr, keys, r.partition)
	if err != nil {
		return err
	}
	var mine, texts []string // records that say that the tag is here
	for i, text := range here {
		if rec, err := parseRecord(text); err == nil && rec.Home == r.partition {
			mine, texts = append(mine, keys[i]), append(texts, text)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	for _, p := range r.m.Partitions {
		if p.ID == r.partition || r.silent[p.ID] != nil {
			continue
		}
		there, err := r.ask(ctx, p, mine)
		if err != nil {
			r.silent[p.ID] = err
			continue
		}
		for i, text := range there {
			if rec, err := parseRecord(text); err == nil && rec.Home == p.ID {
				if err := r.send(ctx, mine[i], texts[i], p.ID); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ask reads records of another partition, from any of its members.
func (r *restoring) ask(ctx context.Context, p directory.Partition, keys []string) (texts []string, err error) {
	for _, member := range p.Members() {
		if texts, err = r.read(ctx, member.Addr, keys, p.ID); err == nil {
			return texts, nil
		}
	}
	return nil, err
}

// read reads records of a member of a partition. One that is fenced and may not be
// read is, for as long as that takes.
func (r *restoring) read(ctx context.Context, addr string, keys []string, partition int) (texts []string, err error) {
	return members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) ([]string, error) {
		get := func() rueidis.Completed {
			return c.B().Mget().Key(append([]string{members.IdentityKey}, keys...)...).Build()
		}
		result := c.Do(ctx, get())
		if retry.Code(result.Error(), "MASTERDOWN") {
			result = c.DoMulti(ctx, members.Serve(c.B(), true), get(), members.Serve(c.B(), false))[1]
		}
		values, err := result.ToArray()
		if err != nil {
			return nil, err
		}
		if id, _ := values[0].ToString(); id != members.Identity(r.m.Fleet, partition) {
			return nil, fmt.Errorf("%s says it is %q", addr, id)
		}
		texts := make([]string, len(keys))
		for i, value := range values[1:] {
			texts[i], _ = value.ToString()
		}
		return texts, nil
	})
}

// send has a record say that its tag is in another partition.
func (r *restoring) send(ctx context.Context, key, before string, to int) error {
	tag, _ := members.RecordedTag(key)
	after := trip{from: r.partition, to: to, run: restoredRun}.gone()
	_, err := members.Ask(ctx, r.pool, r.addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
		reply, err := c.Do(ctx, c.B().Eval().Script(library.Script("restored").Source()).Numkeys(1).Key(members.Base).
			Arg(r.m.Fleet, strconv.Itoa(r.partition), tag, before, after).Build()).AsStrSlice()
		if err == nil && reply[0] == "done" {
			r.tags++
		}
		return struct{}{}, err
	})
	return err
}
