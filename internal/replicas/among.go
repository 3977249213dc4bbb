package replicas

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// Copies says which replicas have what was written.
type Copies struct {
	Have   int      // replicas that count
	Others []string // addresses of those that are linked and do not count
}

// ConfirmAmong is Confirm where not every replica counts: the master says, by the
// addresses that it knows them by, how far each of them is.
//
//	EVAL mark
//	ROLE        how far the master is: at the mark, or a little further
//	WAIT 1 200
//	ROLE        how far each replica is
//
// WAIT may have counted others. It is then sent again, for as many more.
func ConfirmAmong(ctx context.Context, c rueidis.CoreClient, base string, counts func(ip, port string) bool, replicas int, timeout time.Duration,
	cmds ...rueidis.Completed,
) (results []rueidis.RedisResult, copies Copies, err error) {
	until, sent := time.Now().Add(timeout), len(cmds)
	for others := 0; ; others = len(copies.Others) {
		n := len(cmds)
		all := c.DoMulti(ctx, append(slices.Clip(cmds),
			mark(c, base), c.B().Role().Build(), wait(c, replicas+others, time.Until(until)), c.B().Role().Build())...)
		if results == nil {
			results, cmds = all[:sent], nil
		}
		count, err := waited(all[n], all[n+2])
		if err == nil {
			copies, err = among(all[n+1], all[n+3], counts)
		}
		if err != nil || copies.Have >= replicas || count < replicas+others || time.Now().After(until) {
			return results, copies, err
		}
	}
}

// among reads what the master said before and after the replicas were waited for.
func among(before, after rueidis.RedisResult, counts func(ip, port string) bool) (copies Copies, err error) {
	reached, _, err := role(before)
	if err != nil {
		return copies, err
	}
	_, list, err := role(after)
	if err != nil {
		return copies, err
	}
	for _, replica := range list {
		fields, err := replica.AsStrSlice()
		switch {
		case err != nil:
			return copies, err
		case len(fields) != 3:
			return copies, fmt.Errorf("the master says %q of a replica", fields)
		}
		var offset int64
		if _, err := fmt.Sscan(fields[2], &offset); err != nil {
			return copies, fmt.Errorf("the master says that a replica is at %q: %w", fields[2], err)
		}
		switch {
		case !counts(fields[0], fields[1]):
			copies.Others = append(copies.Others, net.JoinHostPort(fields[0], fields[1]))
		case offset >= reached:
			copies.Have++
		}
	}
	return copies, nil
}

// role returns how far a master is, and its replicas.
func role(said rueidis.RedisResult) (offset int64, replicas []rueidis.RedisMessage, err error) {
	fields, err := said.ToArray()
	switch {
	case err != nil:
		return 0, nil, err
	case len(fields) != 3:
		return 0, nil, errors.New("the server is no master any more")
	}
	if offset, err = fields[1].AsInt64(); err == nil {
		replicas, err = fields[2].ToArray()
	}
	return offset, replicas, err
}
