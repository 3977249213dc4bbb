package top

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/survey"
)

// actTimeout is how long an action may take.
const actTimeout = 10 * time.Second

// errUncertain means that Redis has the request, perhaps, and did not answer.
var errUncertain = fmt.Errorf("no answer within %s; it may be done all the same when Redis answers again", actTimeout)

// errDenied means that nothing was changed.
var errDenied = &millrace.Error{
	Code: "no_permission", Message: "the Redis user of this view may not do that",
	Hint: "Start it as a user that may write (ACL SETUSER)",
}

// source is where numbers come from and actions go to.
type source interface {
	// look reads all structures. If fresh, it lists new names, too.
	look(fresh bool) *survey.View

	// act carries out an action.
	act(a action) error
}

// action pauses or resumes a queue, or a tenant of it.
type action struct {
	queue  string
	tenant string // empty for the queue as a whole
	resume bool
}

// target names the queue or tenant of the action.
func (a action) target() string {
	if a.tenant == "" {
		return "queue " + name(a.queue)
	}
	return jsontype.Text(a.tenant).String() + " of queue " + name(a.queue)
}

// done says that it happened.
func (a action) done() string {
	if a.resume {
		return a.target() + " goes on"
	}
	return a.target() + " is paused"
}

// redisSource is the source of a Redis or a fleet.
type redisSource struct {
	ctx    context.Context //nolint:containedctx // commands of the terminal library have none
	client rueidis.Client
	survey *survey.Survey
	note   func(context.Context, audit.Entry, error)
}

func (r *redisSource) look(fresh bool) *survey.View {
	read := r.survey.Poll
	if fresh {
		read = r.survey.Refresh
	}
	v, _ := read(r.ctx) // the View has the error
	return v
}

func (r *redisSource) act(a action) error {
	ctx, cancel := context.WithTimeout(r.ctx, actTimeout)
	defer cancel()
	err := a.do(ctx, r.client)
	switch {
	case ctx.Err() != nil:
		err = errUncertain
	case retry.Denied(err):
		err = errDenied
	}
	r.note(ctx, audit.Entry{Action: a.kind(), Name: a.queue, Result: "millrace top: " + a.done()}, err)
	return err
}

// kind is what the audit log calls the action.
func (a action) kind() string {
	noun, verb := "queue", "pause"
	if a.tenant != "" {
		noun = "tenant"
	}
	if a.resume {
		verb = "resume"
	}
	return noun + "." + verb
}

// do does it.
func (a action) do(ctx context.Context, client rueidis.Client) error {
	q, err := fairqueue.New(client, a.queue, fairqueue.Config{})
	if err != nil {
		return err
	}
	whole := a.tenant == ""
	switch {
	case whole && a.resume:
		return q.Resume(ctx)
	case whole:
		return q.Pause(ctx)
	case a.resume:
		return q.Limits().Resume(ctx, a.tenant)
	}
	return q.Limits().Pause(ctx, a.tenant, 0)
}
