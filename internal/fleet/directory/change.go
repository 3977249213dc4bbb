package directory

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/replicas"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// waitForReplica is how long a change waits for a replica of the directory.
const waitForReplica = time.Second

// tryTimeout is how long one try of a change may take. The next one finds the master
// again, which may be another server.
const tryTimeout = 2 * time.Second

// Change implements Directory. It retries for about ten seconds. A change whose outcome
// stays unknown may have been made.
func (d *Redis) Change(ctx context.Context, epoch int64, next *Map) error {
	if err := next.MayReplace(epoch); err != nil {
		return err
	}
	text, err := pack(next)
	if err != nil {
		return err
	}
	var done changed
	err = retry.Policy{}.Do(ctx, func(int) (err error) {
		done, err = d.change(ctx, epoch, next, text)
		return err
	})
	switch {
	case retry.Code(err, "OOM"):
		return millrace.ErrFull.Wrap(err)
	case err != nil:
		return err
	case !done.stored:
		return ErrConflict.Errorf("the map has epoch %d by now, not %d", done.epoch, epoch)
	case !done.replicated:
		return ErrUnconfirmed
	}
	return nil
}

// changed is the result of a change.
type changed struct {
	stored     bool
	epoch      int64 // of the present map
	replicated bool  // also true if there is no replica
}

// change tries once.
func (d *Redis) change(ctx context.Context, epoch int64, next *Map, text string) (done changed, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tryTimeout, ErrSilent)
	defer cancel()
	old, err := d.Confirm(ctx, 0) // which also finds the master
	if errors.Is(err, ErrNoFleet) || errors.Is(err, ErrMap) || errors.Is(err, ErrVersion) {
		err = nil // the epoch decides whether it can be replaced
	}
	args := []string{strconv.FormatInt(epoch, 10), strconv.FormatInt(next.Epoch, 10), text, ""}
	if known := d.known.Load(); err == nil && old != nil && known.Epoch == epoch && known.Fleet == next.Fleet {
		args[3], err = pack(differ(*known, held{next, Sum(text)}))
	}
	if err == nil {
		run := d.servers[d.master.Load()]
		done, err = script.Prompt(ctx, func(ctx context.Context) (changed, error) { return changeOn(ctx, run, args) })
	}
	return done, own(ctx, err)
}

// changeOn runs the script on the master. If that has replicas, it waits for one to have
// the map.
func changeOn(ctx context.Context, run *script.Runner, args []string) (done changed, err error) {
	c := run.Client
	role, err := c.Do(ctx, c.B().Role().Build()).ToArray()
	if err != nil {
		return done, err
	}
	change := c.B().Eval().Script(run.Scripts.Script("change").Source()).Numkeys(1).Key(baseKey).Arg(args...).Build()
	var result rueidis.RedisResult
	done.replicated = true
	var unknown error // why it is not known whether a replica has it
	if followers, err := role[len(role)-1].ToArray(); err == nil && len(followers) > 0 {
		results, have, err := replicas.Confirm(ctx, c, baseKey, 1, waitForReplica, change)
		result, done.replicated, unknown = results[0], have > 0, err
	} else {
		result = c.Do(ctx, change)
	}
	reply, err := result.AsIntSlice()
	if err != nil {
		return changed{}, err
	}
	done.stored, done.epoch = reply[0] == 1, reply[1]
	return done, unknown
}
