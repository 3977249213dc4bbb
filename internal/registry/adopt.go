package registry

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// leasePrefix begins the key that is a lease.
const leasePrefix = "mr:lease:{"

// Adopted is what was found among keys.
type Adopted struct {
	New    int   // structures, and leases, that nobody had entered, and that are entered now
	Failed int   // commands that failed, each of which was to enter one
	Err    error // why; nil if there are none
}

// Adopt enters the structures that keys belong to, unless somebody has, and the leases
// that are held or were abandoned.
func Adopt(ctx context.Context, client rueidis.Client, keys []string) Adopted {
	now := time.Now()
	var cmds rueidis.Commands
	var leases []string
	for _, k := range keys {
		if kind, name, ok := find(k); ok {
			f := field(kind, name)
			cmds = append(cmds, client.B().Hsetnx().Key(key(shardOf(f, parts))).Field(f).Value(millis(now)).Build())
		}
		if name, ok := strings.CutPrefix(k, leasePrefix); ok && strings.HasSuffix(name, "}") {
			leases = append(leases, strings.TrimSuffix(name, "}"))
		}
	}
	for _, name := range lasting(ctx, client, leases) {
		cmds = append(cmds, client.B().Arbitrary("ZADD").Keys(LeasesKey(shardOf(name, DueShards))).
			Args("NX", millis(now.Add(DueAfter)), name).Build())
	}
	var a Adopted
	for _, answer := range multi(ctx, client, cmds) {
		switch n, err := answer.AsInt64(); {
		case err != nil:
			a.Failed++
			a.Err = err
		case n > 0:
			a.New++
		}
	}
	return a
}

// lasting returns those leases that do not leave by themselves, as released ones do.
func lasting(ctx context.Context, client rueidis.Client, names []string) []string {
	cmds := make(rueidis.Commands, len(names))
	for i, name := range names {
		cmds[i] = client.B().Pttl().Key(leasePrefix + name + "}").Build()
	}
	var last []string
	for i, answer := range multi(ctx, client, cmds) {
		if ttl, err := answer.AsInt64(); err == nil && ttl == -1 {
			last = append(last, names[i])
		}
	}
	return last
}

// multi sends commands. When there is no answer in time, each has that error.
func multi(ctx context.Context, client rueidis.Client, cmds rueidis.Commands) []rueidis.RedisResult {
	if len(cmds) == 0 {
		return nil
	}
	ctx, cancel := script.Within(ctx, listTimeout)
	defer cancel()
	n := len(cmds)
	answers, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		return client.DoMulti(ctx, cmds...), nil
	})
	if err == nil {
		return answers
	}
	answers = make([]rueidis.RedisResult, n)
	for i := range answers {
		answers[i] = rueidis.NewErrorResult(err)
	}
	return answers
}
