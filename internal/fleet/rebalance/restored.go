package rebalance

import (
	"context"
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

// restoredRun is the run of trips in records that Restored writes.
const restoredRun = "restored"

// Restored repairs the records of a server that is about to be the master of a partition
// with an old copy of its data, such as one from the archive: tags that were moved away
// since are there again. Afterwards their records name their new partitions, and agents
// delete their old data. It returns how many there were. No client may write to the
// partition meanwhile.
//
// It also returns the partitions that do not answer, each with an error. Tags that were
// moved there are unknown: call [Mover.Yield] when they answer.
func Restored(ctx context.Context, option rueidis.ClientOption, moves *directory.Directory, m *directory.Map, partition int, addr string) (tags int, silent map[int]error, err error) {
	pool := members.New(option, 2*time.Second)
	defer pool.Close()
	r := &restoring{pool: pool, m: m, partition: partition, addr: addr, silent: map[int]error{}}
	if err := r.all(ctx); err != nil {
		return r.tags, r.silent, err
	}
	if r.tags > 0 {
		err = moves.Unfinished(ctx, restoredName(partition, m.Epoch))
	}
	return r.tags, r.silent, err
}

// restoredName is the name of the run that deletes the old data of a restored partition.
func restoredName(partition int, epoch int64) string {
	return fmt.Sprint(restoredRun, "-", partition, "-", epoch)
}

// restoring is one call of Restored.
type restoring struct {
	pool      *members.Pool
	m         *directory.Map
	partition int
	addr      string
	tags      int
	silent    map[int]error // partitions that do not answer
}

// all repairs all records of the server.
func (r *restoring) all(ctx context.Context) error {
	keys, err := members.Ask(ctx, r.pool, r.addr, func(ctx context.Context, c rueidis.Client) (keys []string, err error) {
		for key, err := range script.Scan(ctx, c, members.RecordKey("*")) {
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
		return keys, nil
	})
	for some := range slices.Chunk(keys, 1000) {
		if err == nil {
			err = r.some(ctx, some)
		}
	}
	return err
}

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
		var there []string
		for _, member := range p.Members() {
			if there, err = r.read(ctx, member.Addr, mine, p.ID); err == nil {
				break
			}
		}
		if err != nil {
			r.silent[p.ID] = err
			continue
		}
		for i, text := range there {
			if rec, err := parseRecord(text); err == nil && rec.Home == p.ID {
				if err := r.redirect(ctx, mine[i], texts[i], p.ID); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// read reads records of a member of a partition. A member that is fenced and refuses reads
// is opened for that long.
func (r *restoring) read(ctx context.Context, addr string, keys []string, partition int) (texts []string, err error) {
	return members.Ask(ctx, r.pool, addr, func(ctx context.Context, c rueidis.Client) ([]string, error) {
		get := func() rueidis.Completed {
			return c.B().Mget().Key(append([]string{members.IdentityKey}, keys...)...).Build()
		}
		result := c.Do(ctx, get())
		if retry.Code(result.Error(), "MASTERDOWN") {
			if result, err = members.ReadFenced(ctx, c, get()); err != nil {
				return nil, err
			}
		}
		values, err := result.ToArray()
		if err != nil {
			return nil, err
		}
		if id, _ := values[0].ToString(); id != members.Identity(r.m.Fleet, partition) {
			return nil, fmt.Errorf("%s has the identity %q", addr, id)
		}
		texts := make([]string, len(keys))
		for i, value := range values[1:] {
			texts[i], _ = value.ToString()
		}
		return texts, nil
	})
}

// redirect makes a record name another partition.
func (r *restoring) redirect(ctx context.Context, key, before string, to int) error {
	tag, _ := members.RecordedTag(key)
	after := trip{from: r.partition, to: to, run: restoredRun}.gone()
	reply, err := members.Ask(ctx, r.pool, r.addr, func(ctx context.Context, c rueidis.Client) ([]string, error) {
		return c.Do(ctx, c.B().Eval().Script(members.Scripts.Script("exchange").Source()).Numkeys(1).Key(members.Base).
			Arg(r.m.Fleet, strconv.Itoa(r.partition), tag, before, after).Build()).AsStrSlice()
	})
	if err == nil && reply[0] == "exchanged" {
		r.tags++
	}
	return err
}
