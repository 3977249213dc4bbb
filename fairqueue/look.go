package fairqueue

import (
	"context"
	"errors"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

// A look reads a queue by plain commands, a pipeline a step: a message that moves between two
// commands is shown once or missed. The second word of a command is the end of its key.
type look struct {
	q      *Queue
	name   string // what hooks see
	master bool   // no replica may answer
}

// pipe sends commands together.
func (l look) pipe(ctx context.Context, commands [][]string) (reply *script.Reply, err error) {
	err = l.q.observe(ctx, l.name, func(ctx context.Context) (err error) {
		reply, err = l.q.run.Pipe(ctx, "fairqueue."+l.name, baseKey(l.q.name), !l.master, commands)
		return err
	})
	return reply, err
}

// start is the first step of a look. It checks the queue's version and record first, as the fragment
// record does for scripts, and returns that and the reply to the commands. The error is errNotFound
// without a queue.
func (l look) start(ctx context.Context, commands [][]string) (reply *script.Reply, r record, err error) {
	begin := [][]string{{"HGET", "", "version"}, {"HLEN", ""}, {"HMGET", ":hot", "w", "t", ""}}
	for range 3 { // a queue that is being made or deleted looks broken
		if reply, err = l.pipe(ctx, append(begin, commands...)); err == nil {
			r, err = readStart(reply)
		}
		if !errors.Is(err, millrace.ErrBroken) {
			break
		}
	}
	return reply, r, err
}

func readStart(reply *script.Reply) (r record, err error) {
	version, size := reply.Text(), reply.Int()
	if version != "" && version != wireVersion {
		return r, millrace.ErrVersion.Errorf("the queue has version %.60q", version)
	}
	fields := reply.Texts()
	switch {
	case reply.Err() != nil:
		return r, reply.Err()
	case (fields[2] == "") != (version == "") || version == "" && size > 1: // a placeholder is a 0
		return r, errBroken
	case version == "":
		return r, errNotFound
	}
	return readRecord(fields)
}

// ignore returns err, or nil if it is the other one.
func ignore(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}
