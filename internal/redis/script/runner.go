package script

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/retry"
)

// Runner runs the scripts of one structure. It is safe for concurrent use.
type Runner struct {
	Client  rueidis.Client
	Scripts *Library
	Hooks   []millrace.Hook
	Retry   retry.Policy

	// Errors are the names of errors that only this structure's scripts answer with,
	// by their codes.
	Errors map[string]*millrace.Error

	// Lanes are those that its calls take. Defaults to the process's.
	Lanes *reqid.Lanes

	recent   recent
	inFlight atomic.Int64 // calls
	plain    atomic.Bool  // the server refuses EVALSHA_RO
	imitate  atomic.Bool  // the server lacks the Lua library struct
}

// Run runs the script of that name on a base key and repeats it as the policy says. A
// script with the fragment lane takes effect once all the same.
func (r *Runner) Run(ctx context.Context, name, key string, args ...string) (*Reply, error) {
	s := r.Scripts.Script(name)
	if !s.lane {
		return r.run(ctx, s, key, args, nil)
	}
	request := r.Request(ctx)
	defer request.Done()
	return r.run(ctx, s, key, args, request)
}

// Request returns a request for callers that repeat a call by themselves, with
// [Runner.RunRequest]. They call Done when they have the answer or give up.
func (r *Runner) Request(ctx context.Context) *reqid.Request { return r.Lanes.Take(ctx) }

// RunRequest is Run for a request that may have been sent before: with the same script and
// arguments, it takes effect once. Without a request the server keeps nothing, which is for
// calls that may be repeated.
func (r *Runner) RunRequest(ctx context.Context, request *reqid.Request, name, key string, args ...string) (*Reply, error) {
	return r.run(ctx, r.Scripts.Script(name), key, args, request)
}

// run runs a script.
func (r *Runner) run(ctx context.Context, s *Script, key string, args []string, request *reqid.Request) (*Reply, error) {
	c := call{runner: r, script: s, key: key, unsent: request == nil || request.First(), keyed: request != nil && request.Keyed()}
	c.number(args, request)
	if declares(r.Client) {
		c.keys = r.Scripts.Keys(s, key, args)
		for i, k := range c.keys {
			c.keys[i] = c.answers(k, r.Scripts.Prefix(key)+"lanes:", r.Scripts.Prefix(key)+"keyed:")
		}
	} else {
		c.keys = []string{key}
	}
	var reply *Reply
	open := false // a try may have taken effect
	effect := retry.EffectOf(ctx)
	before := effect.Possible() // by an earlier call
	try := func(number int) (rueidis.RedisMessage, error) {
		began := ctx.Err() == nil
		effect.Note(before || !s.reads)
		m, err := c.try(ctx, number)
		switch {
		case err == nil, retry.Word(err) != "" && !retry.Transient(err):
			open = false
		case began && !s.reads && retry.Open(ctx, err):
			open = true
		}
		effect.Note(before || open || err == nil && !s.reads)
		return m, err
	}
	err := r.Retry.Do(ctx, func(number int) error {
		asked := time.Now()
		m, err := try(number)
		if number == 1 && c.unsent && retry.Code(err, "LANE") && request.Renew() {
			c.number(args, request)
			m, err = try(number)
		}
		switch {
		case err == nil:
			reply = newReply(s.name, asked, m)
			return reply.err
		case len(c.keys) == 1 || !retry.Code(err, "TRYAGAIN"):
			c.unsent = false
		case (c.unsent || !s.lane) && c.missing(ctx, args):
			reply = &Reply{Asked: asked, script: s.name, none: true}
			return nil
		default:
			c.begin(ctx)
		}
		return err
	})
	switch {
	case err == nil:
		return reply, nil
	case open:
		return nil, retry.Uncertain(err)
	}
	return nil, r.Name(err)
}

// declares reports whether a client's calls declare their keys: on a Cluster they do. A
// fleet says that it is one, but keeps the keys of a tag together.
func declares(client rueidis.Client) bool {
	if client.Mode() != rueidis.ClientModeCluster {
		return false
	}
	_, together := client.(interface{ KeepsTogether() })
	return !together
}

// call is one call of a script.
type call struct {
	runner *Runner
	script *Script
	key    string
	keys   []string // all that are declared
	args   []string
	unsent bool // no try can have taken effect
	keyed  bool // the request outlives its process
}

// answers returns the key in which the call's answer is kept, in place of one for lanes.
func (c *call) answers(key, lanes, keyed string) string {
	if n, ok := strings.CutPrefix(key, lanes); ok && c.keyed {
		return keyed + n
	}
	return key
}

// number puts the request behind the arguments.
func (c *call) number(args []string, request *reqid.Request) {
	switch {
	case request != nil:
		c.args = append(slices.Clip(args), request.Lane, request.Ticket)
	case c.script.lane:
		c.args = append(slices.Clip(args), "", "")
	default:
		c.args = args
	}
}

// try sends the call once, with its hooks around it.
func (c *call) try(ctx context.Context, number int) (m rueidis.RedisMessage, err error) {
	r := c.runner
	ctx, ended := Watch(ctx, r.Hooks, millrace.Call{Script: c.script.name, Key: c.key, Try: number})
	defer func() { ended(err) }()
	// With many calls in flight to a server that answered a moment ago, the connections
	// are open and shared, and the client follows the context by itself: the call goes
	// without the guard, and is cheaper.
	defer r.inFlight.Add(-1)
	busy := r.inFlight.Add(1) > crowd
	if busy && number == 1 && r.recent.has(r.Client, c.key) {
		m, err = c.eval(Endless(ctx))
		err = Caused(ctx, err)
	} else if m, err = Prompt(ctx, c.eval); err == nil {
		r.recent.note(r.Client, c.key)
	}
	return m, err
}

// Plain makes a read that is no script as if it were one: with hooks, repeats as the policy
// says, and errors by the names that programs know. A try must return when its context
// ends, and end by itself, see [Reading].
func (r *Runner) Plain(ctx context.Context, name, key string, try func(ctx context.Context) error) error {
	return r.Name(r.Retry.Do(ctx, func(number int) error {
		ctx, ended := Watch(ctx, r.Hooks, millrace.Call{Script: name, Key: key, Try: number})
		err := try(ctx)
		ended(err)
		return err
	}))
}

// Watch reports a call to hooks, and returns the function that reports its end.
func Watch(ctx context.Context, hooks []millrace.Hook, call millrace.Call) (context.Context, func(error)) {
	var ends []func(error)
	for _, hook := range hooks {
		if h, ok := hook.(millrace.CallHook); ok {
			var end func(error)
			if ctx, end = h.OnCall(ctx, call); end != nil {
				ends = append(ends, end)
			}
		}
	}
	return ctx, func(err error) {
		for _, end := range slices.Backward(ends) {
			end(err)
		}
	}
}

// crowd is how many calls in flight show that connections are shared: more than the
// client has to one server.
const crowd = 8

// eval runs the script. One that a replica may answer is sent with a command that clients
// know to be a read, unless the server refuses that command, as before Redis 7.0. On a
// Cluster it is not: there the client, not the runner, would repeat a read that a moving
// slot refuses.
func (c *call) eval(ctx context.Context) (rueidis.RedisMessage, error) {
	if c.script.replica && !c.runner.plain.Load() && !declares(c.runner.Client) {
		ctx, cancel := Reading(ctx)
		defer cancel()
		m, err := c.send(ctx, "_RO")
		if !lacksReadOnly(err) {
			return m, err
		}
		c.runner.plain.Store(true)
	}
	return c.send(ctx, "")
}

// readOnlyCommand is in the errors of servers that lack the read-only commands or refuse
// them, and of miniredis, which takes TIME for a write. An unknown command has no code,
// and NOPERM may be about a key.
var readOnlyCommand = regexp.MustCompile(`(?i)\beval(sha)?_ro\b|not allowed in read-only scripts`)

func lacksReadOnly(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && readOnlyCommand.MatchString(reply.Error())
}

// lacksStruct reports whether the first line of a script failed, which changes nothing.
func lacksStruct(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && strings.Contains(reply.Error(), "nonexistent global variable 'struct'")
}

// send runs the script by its name, or whole if the server does not know it, as after a
// restart or on a node to which its slot is moving.
func (c *call) send(ctx context.Context, suffix string) (rueidis.RedisMessage, error) {
	do := func(command, script string) (rueidis.RedisMessage, error) {
		client := c.runner.Client
		cmd := client.B().Arbitrary(command+suffix, script, strconv.Itoa(len(c.keys))).Keys(c.keys...).Args(c.args...)
		if suffix != "" {
			// rueidis sends a read again when its connection breaks. Without Pin it would recycle
			// the command after that while the first connection may still be writing it.
			return client.Do(ctx, cmd.ReadOnly().Pin()).ToMessage()
		}
		return client.Do(ctx, cmd.Build()).ToMessage()
	}
	run := func(s *Script) (rueidis.RedisMessage, error) {
		m, err := do("EVALSHA", s.sha)
		if retry.Code(err, "NOSCRIPT") {
			m, err = do("EVAL", s.source)
		}
		if rueidis.IsRedisNil(err) {
			err = nil
		}
		return m, err
	}
	imitation := c.script.imitation
	if imitation != nil && c.runner.imitate.Load() {
		return run(imitation)
	}
	m, err := run(c.script)
	if imitation != nil && lacksStruct(err) {
		c.runner.imitate.Store(true)
		return run(imitation)
	}
	return m, err
}

// begin prepares the next try of a call that a moving slot refused. A call that creates a
// structure needs its keys to exist; one that only reads needs just the base key if there
// is no structure. The next try reports errors.
func (c *call) begin(ctx context.Context) {
	if c.script.waits() {
		return
	}
	client, prefix := c.runner.Client, c.runner.Scripts.Prefix(c.key)
	if len(c.script.makes) == 0 {
		n, err := Prompt(ctx, func(ctx context.Context) (int64, error) {
			return client.Do(ctx, client.B().Exists().Key(c.key).Build().Pin()).AsInt64()
		})
		if err == nil && n == 0 {
			c.keys = c.keys[:1]
		}
		return
	}
	for _, p := range c.script.makes {
		p.key = c.answers(p.key, "lanes:", "keyed:")
		if _, err := Prompt(ctx, func(ctx context.Context) (int64, error) {
			return client.Do(ctx, p.command(client, c.key, prefix)).AsInt64()
		}); err != nil && !errors.Is(err, context.Canceled) {
			return
		}
	}
}

// missing reports whether both nodes of the slot lack the key without which the script has
// nothing to do.
func (c *call) missing(ctx context.Context, args []string) bool {
	if c.script.without == nil {
		return false
	}
	client := c.runner.Client
	key := c.script.without.key(c.runner.Scripts.Prefix(c.key), args)
	n, err := Prompt(ctx, func(ctx context.Context) (int64, error) {
		return client.Do(ctx, client.B().Exists().Key(key).Build().Pin()).AsInt64()
	})
	return err == nil && n == 0
}

// waits reports whether the script waits until its slot has moved.
func (s *Script) waits() bool { return slices.Contains(s.keys, template{text: "none"}) }
