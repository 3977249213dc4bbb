// Package oldscript is replaced by package script, one structure after the other.
package oldscript

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1.
	"encoding/hex"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// Script is one Lua script. It never changes and is safe for concurrent use.
type Script struct {
	name     string
	source   string
	sha      string
	numbered bool
}

// New returns the script of that name whose source is that of the fragments, in
// order, and then the script's own.
func New(name, source string, fragments ...string) *Script {
	whole := strings.Join(append(fragments, source), "\n")
	sum := sha1.Sum([]byte(whole)) //nolint:gosec // see the import
	return &Script{name: name, source: whole, sha: hex.EncodeToString(sum[:])}
}

// Numbered returns the same script with the number of the try, 1 for the first,
// behind its arguments: a first try has no answer to look up. That of a request
// whose ids come from a seed may be a repeat, and is the second (see package reqid).
func (s *Script) Numbered() *Script {
	n := *s
	n.numbered = true
	return &n
}

// Source returns what the server compiles, fragments included.
func (s *Script) Source() string { return s.source }

// Runner runs the scripts of one structure.
type Runner struct {
	Client rueidis.Client
	Hooks  []millrace.Hook
	Retry  retry.Policy

	answered atomic.Int64 // when the server last answered, in Unix milliseconds
	underWay atomic.Int64 // calls that are
}

// Run runs s on key and repeats it as the policy says. The message is nil when
// the script answered nil. A refusal for want of memory is [millrace.ErrFull].
func (r *Runner) Run(ctx context.Context, s *Script, key string, args ...string) (rueidis.RedisMessage, error) {
	reply, _, err := r.RunSince(ctx, s, key, args...)
	return reply, err
}

// RunSince is Run, and tells when the last try began: what its answer says came
// about after that.
func (r *Runner) RunSince(ctx context.Context, s *Script, key string, args ...string) (rueidis.RedisMessage, time.Time, error) {
	var reply rueidis.RedisMessage
	var began time.Time
	err := r.Retry.Do(ctx, func(number int) (err error) {
		began = time.Now()
		reply, err = r.try(ctx, s, key, args, number)
		return err
	})
	if retry.Code(err, "OOM") {
		err = millrace.ErrFull.With(err)
	}
	return reply, began, err
}

func (r *Runner) try(ctx context.Context, s *Script, key string, args []string, number int) (reply rueidis.RedisMessage, err error) {
	for _, hook := range r.Hooks {
		if h, ok := hook.(millrace.CallHook); ok {
			var done func(error)
			if ctx, done = h.OnCall(ctx, millrace.Call{Script: s.name, Key: key, Try: number}); done != nil {
				defer func() { done(err) }()
			}
		}
	}
	if s.numbered {
		nth := number
		if reqid.Seeded(ctx) {
			nth++ // the first may have been another process's
		}
		args = append(slices.Clip(args), strconv.Itoa(nth))
	}
	// Where many calls are under way, to a server that answered a moment ago, the
	// connections are open and shared, and the client heeds the context by itself.
	// That is where a call must be cheap; a lonely one can afford the guard.
	defer r.underWay.Add(-1)
	busy := r.underWay.Add(1) > crowd
	if now := time.Now().UnixMilli(); busy && number == 1 && now-r.answered.Load() < trust {
		reply, err = r.eval(script.Endless(ctx), s, key, args)
		err = script.Caused(ctx, err)
	} else if reply, err = script.Prompt(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return r.eval(ctx, s, key, args)
	}); err == nil {
		r.answered.Store(time.Now().UnixMilli())
	}
	return reply, err
}

// crowd is how many calls under way show that connections are shared: more than
// the client has to one server.
const crowd = 8

// trust is for how long an answer says that connections are open, in
// milliseconds.
const trust = 1000

func (r *Runner) eval(ctx context.Context, s *Script, key string, args []string) (rueidis.RedisMessage, error) {
	c := r.Client
	reply, err := c.Do(ctx, c.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(key).Arg(args...).Build()).ToMessage()
	if retry.Code(err, "NOSCRIPT") {
		reply, err = c.Do(ctx, c.B().Eval().Script(s.source).Numkeys(1).Key(key).Arg(args...).Build()).ToMessage()
	}
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return reply, err
}

// Prompt is script.Prompt.
func Prompt[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	return script.Prompt(ctx, call)
}

// Within is script.Within.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return script.Within(ctx, limit)
}

// Scan is script.Scan.
func Scan(ctx context.Context, client rueidis.Client, match string) iter.Seq2[string, error] {
	return script.Scan(ctx, client, match)
}

// Rounds is script.Rounds.
type Rounds = script.Rounds
