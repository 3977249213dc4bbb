package script

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
)

// Pipe reads the structure with that base key by plain commands in one pipeline, with hooks,
// repeats and errors as for a script of that name. A command is its name, the end of a key behind
// the base key, and arguments. The values of the reply are the answers, and its Clock is the
// server's behind them. An error that would be the same the next time is the value of its command.
//
// The commands read the structure one after the other: an element that moves meanwhile is seen in
// two places or in none.
//
// Where a replica may answer, a client that sends reads to replicas sends the pipeline there,
// except on a Cluster, as scripts.
func (r *Runner) Pipe(ctx context.Context, name, key string, replica bool, commands [][]string) (reply *Reply, err error) {
	replica = replica && !declares(r.Client)
	cmds := make(rueidis.Commands, len(commands)+1)
	for i := range cmds {
		cmd := r.Client.B().Arbitrary("TIME")
		if i < len(commands) {
			cmd = r.Client.B().Arbitrary(commands[i][0]).Keys(key + commands[i][1]).Args(commands[i][2:]...)
		}
		if replica {
			cmds[i] = cmd.ReadOnly()
		} else {
			cmds[i] = cmd.Build()
		}
		if i == len(commands) {
			cmds[i] = cmds[i].SetSlot(key) // TIME goes to the node of the key
		}
		cmds[i] = cmds[i].Pin() // see send
	}
	err = r.Plain(ctx, name, key, func(ctx context.Context) (err error) {
		reply, err = Prompt(ctx, func(ctx context.Context) (*Reply, error) { return r.pipe(ctx, name, cmds) })
		return err
	})
	return reply, err
}

// pipe sends the commands once.
func (r *Runner) pipe(ctx context.Context, name string, cmds rueidis.Commands) (*Reply, error) {
	ctx, cancel := Reading(ctx)
	defer cancel()
	reply := &Reply{Asked: time.Now(), script: name, name: r.Name}
	for _, result := range r.Client.DoMulti(ctx, cmds...) {
		m, err := result.ToMessage()
		if lasting := err == nil || rueidis.IsRedisNil(err) || retry.Word(err) != "" && !retry.Transient(err); !lasting {
			return nil, err
		}
		reply.values = append(reply.values, m)
	}
	clock, err := reply.values[len(cmds)-1].AsIntSlice()
	if err != nil {
		return nil, err
	}
	reply.values, reply.Clock = reply.values[:len(cmds)-1], clock[0]*1e6+clock[1]
	return reply, nil
}
