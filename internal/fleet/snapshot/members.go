package snapshot

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/members"
)

// look is what a member says of itself.
type look struct {
	clock    int64  // the time that it has, in seconds
	run      string // another one after each start
	identity string // which partition of which fleet it is
	master   bool   // whether it takes writes
	linked   bool   // whether a replica is given what its master does
	copying  bool   // whether it gets all of its master's data
	loading  bool   // whether it reads its data from disk
	history  string // the id of what it replicates or, as a master, makes
	offset   int64  // how far in its history it is
	end      int64  // how far it hands its history on
	saving   bool   // whether a child of it writes a snapshot, for the disk or for a replica
	forked   bool   // whether a child of it does anything else
	saved    int64  // when it last completed one, in seconds; when it started if it did not
	ok       bool   // whether the last one that was not given up went well
	memory   int64  // what it uses, in bytes
	copied   int64  // what the last snapshot used on top of that, in bytes
}

// lookLimit is how long a member has to say what it is.
const lookLimit = 2 * time.Second

// pool reaches members by their addresses.
type pool struct{ *members.Pool }

// newPool allows more silence than others do: a member that forks is silent.
func newPool(option rueidis.ClientOption) pool {
	return pool{members.New(option, 2*time.Second)}
}

// look asks a member what it is.
func (p pool) look(ctx context.Context, addr string) (look, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookLimit, errors.New("it does not answer"))
	defer cancel()
	return members.Ask(ctx, p.Pool, addr, func(ctx context.Context, c rueidis.Client) (look, error) {
		// The clock first: what happens after it is later than it.
		results := c.DoMulti(ctx, c.B().Time().Build(), c.B().Info().Build(), c.B().Get().Key(directory.IdentityKey).Build())
		clock, err := results[0].AsIntSlice()
		if err != nil {
			return look{}, err
		}
		info, err := results[1].ToString()
		if err != nil {
			return look{}, err
		}
		identity, err := results[2].ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return look{}, err
		}
		l := parse(info)
		l.clock, l.identity = clock[0], identity
		return l, nil
	})
}

// parse reads what INFO says.
func parse(info string) look {
	fields := members.Fields(info)
	number := func(name string) int64 {
		n, err := strconv.ParseInt(fields[name], 10, 64)
		if err != nil {
			return 0 // it has no such thing
		}
		return n
	}
	l := look{
		run:     fields["run_id"],
		master:  fields["role"] == "master",
		linked:  fields["master_link_status"] == "up",
		copying: number("master_sync_in_progress") != 0,
		loading: number("loading") != 0,
		history: fields["master_replid"],
		offset:  number("slave_repl_offset"),
		end:     number("master_repl_offset"),
		saving:  number("rdb_bgsave_in_progress") != 0,
		forked:  number("aof_rewrite_in_progress") != 0,
		saved:   number("rdb_last_save_time"),
		ok:      fields["rdb_last_bgsave_status"] == "ok",
		memory:  number("used_memory"),
		copied:  number("rdb_last_cow_size"),
	}
	if l.master {
		l.offset = l.end
	}
	return l
}

// bgsave asks a member to save its data. An error of the connection says nothing:
// the fork may have held the answer up.
func (p pool) bgsave(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	_, err := members.Ask(ctx, p.Pool, addr, func(ctx context.Context, c rueidis.Client) (string, error) {
		return c.Do(ctx, c.B().Bgsave().Build()).ToString()
	})
	if refusal, ok := rueidis.IsRedisErr(err); ok {
		return refused(refusal.Error())
	}
	return nil
}

// refused returns what it means that a member does not begin to save.
func refused(why string) error {
	if strings.Contains(why, "already in progress") || strings.Contains(why, "child process is active") {
		return errBusy
	}
	return ErrFailed.Errorf("the member refuses to save: %s", why)
}
