package script

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1.
	"encoding/hex"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
)

// Script is one Lua script. It never changes and is safe for concurrent use.
type Script struct {
	name   string
	source string
	sha    string
}

// New returns the script of that name whose source is that of the fragments, in
// order, and then the script's own.
func New(name, source string, fragments ...string) *Script {
	whole := strings.Join(append(fragments, source), "\n")
	sum := sha1.Sum([]byte(whole)) //nolint:gosec // see the import
	return &Script{name: name, source: whole, sha: hex.EncodeToString(sum[:])}
}

// Name returns the script's name: "ick.add".
func (s *Script) Name() string { return s.name }

// Source returns what the server compiles, fragments included.
func (s *Script) Source() string { return s.source }

// Runner runs the scripts of one structure.
type Runner struct {
	Client rueidis.Client
	Hooks  []millrace.Hook
	Retry  retry.Policy
}

// Run runs s on key and repeats it as the policy says. The message is nil when
// the script answered nil. A refusal for want of memory is [millrace.ErrFull].
func (r *Runner) Run(ctx context.Context, s *Script, key string, args ...string) (rueidis.RedisMessage, error) {
	reply, err := Prompt(ctx, func(ctx context.Context) (reply rueidis.RedisMessage, err error) {
		err = r.Retry.Do(ctx, func(number int) (err error) {
			reply, err = r.try(ctx, s, key, args, number)
			return err
		})
		return reply, err
	})
	if retry.Code(err, "OOM") {
		err = millrace.ErrFull.With(err)
	}
	return reply, err
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
	c := r.Client
	reply, err = c.Do(ctx, c.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(key).Arg(args...).Build()).ToMessage()
	if retry.Code(err, "NOSCRIPT") {
		reply, err = c.Do(ctx, c.B().Eval().Script(s.source).Numkeys(1).Key(key).Arg(args...).Build()).ToMessage()
	}
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return reply, err
}
