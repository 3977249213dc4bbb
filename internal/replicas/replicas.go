// Package replicas waits until replicas have what was written.
//
// WAIT does not do that by itself. Since Redis 7.2, and in every Valkey, it waits
// for the last command of its own connection that the replicas were sent. Behind a
// read, or a write that changed nothing, that may be one of an hour ago: WAIT then
// returns at once, although no replica has what others wrote in between. So a write
// that replicas are sent in any case goes in front of it, in the same pipeline:
//
//	SETNX k v     0: somebody set it a moment ago, and no replica has it yet
//	EVAL mark     INCR K:waits
//	WAIT 1 200    has a replica the mark? Then it has k, too
//
// The mark is a script because a full server refuses INCR by itself. PUBLISH would be
// cheaper (0.5 instead of 3 us of the server's time), but its users would need a channel,
// and the nodes of a Cluster do not send it to their replicas.
//
// All of Millrace waits for replicas by calling [Confirm]; a test looks for others.
package replicas

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// Key is the key of the counter that [Confirm] leaves on a server.
func Key(base string) string { return base + ":waits" }

// Confirm sends commands to a master and waits until that many replicas have all
// that was written there before and by them, for timeout at most. It returns the
// commands' results and how many replicas have it; the error says why that is not
// known. [Key] counts its calls there.
func Confirm(ctx context.Context, c rueidis.CoreClient, base string, replicas int, timeout time.Duration,
	cmds ...rueidis.Completed,
) (results []rueidis.RedisResult, have int, err error) {
	n := len(cmds)
	results = c.DoMulti(ctx, append(slices.Clip(cmds), mark(c, base), wait(c, replicas, timeout))...)
	have, err = waited(results[n], results[n+1])
	return results[:n], have, err
}

// mark is a script because EVALSHA might not find it.
func mark(c rueidis.CoreClient, base string) rueidis.Completed {
	return c.B().Eval().Script(library.Script("mark").Source()).Numkeys(1).Key(base).Build()
}

func wait(c rueidis.CoreClient, replicas int, timeout time.Duration) rueidis.Completed {
	return c.B().Wait().Numreplicas(int64(replicas)).Timeout(max(1, timeout.Milliseconds())).Build()
}

// waited returns what WAIT said. A mark that failed, or is only queued in a
// transaction, stands before no WAIT.
func waited(mark, wait rueidis.RedisResult) (have int, err error) {
	if _, err := mark.AsInt64(); err != nil {
		return 0, fmt.Errorf("the replicas were not waited for: %w", err)
	}
	count, err := wait.AsInt64()
	if err != nil {
		return 0, fmt.Errorf("the replicas were not waited for: %w", err)
	}
	return int(count), nil
}
