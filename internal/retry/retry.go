package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Policy says how often and for how long a call is repeated. The zero value works.
type Policy struct {
	// Base is the pause before the second try; it doubles with each further
	// one. Defaults to 5 ms.
	Base time.Duration

	// Max is the longest pause between two tries. Defaults to 500 ms.
	Max time.Duration

	// Timeout is the time after which no further try begins, counted from the
	// first. A shorter deadline of the context wins. Defaults to 5 s.
	Timeout time.Duration
}

// Do calls try until it succeeds, fails for good, the timeout is over or ctx
// ends. The number it hands to try is 1 for the first. The error is that of the
// last try, joined by ctx's own if that ended it.
func (p Policy) Do(ctx context.Context, try func(number int) error) error {
	timeout := p.Timeout
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	var start time.Time
	closed := false
	for number := 1; ; number++ {
		err := try(number)
		if err == nil || !Transient(err) && !foreign(ctx, err, closed) {
			return err
		}
		closed = errors.Is(err, rueidis.ErrClosing)
		pause := p.Pause(number)
		if number == 1 {
			start = time.Now()
		}
		if time.Since(start)+pause > timeout {
			return err
		}
		if !Sleep(ctx, pause) {
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				err = fmt.Errorf("%w (last error: %w)", cause, err)
			}
			return err
		}
	}
}

// foreign reports whether an error speaks of an end that is not the caller's, and
// passes. Closed says that the try before was told that the client is closed.
//
// A call whose context ends may take its connection along, and others on it are told
// that they were cancelled, or that they were too late. So are those for whom a
// connection is opened too slowly. And a client that follows the master to another
// server closes the connection to the one before under its calls: only who is told so
// twice has a client that is closed.
func foreign(ctx context.Context, err error, closed bool) bool {
	if ctx.Err() != nil {
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, rueidis.ErrClosing) && !closed
}

// Pause returns how long to wait after the failed try with that number: between
// a half and the whole of the doubling pause, so that callers that failed
// together do not return together.
func (p Policy) Pause(number int) time.Duration {
	base, most := p.Base, p.Max
	if base == 0 {
		base = 5 * time.Millisecond
	}
	if most == 0 {
		most = 500 * time.Millisecond
	}
	pause := most
	if shift := number - 1; shift < 30 && base < most>>shift { // base<<shift may be too large for any number
		pause = base << shift
	}
	return pause/2 + rand.N(pause/2+1)
}

// Sleep waits for d and reports whether it did so to the end; it returns at
// once when ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// trouble lists the error codes of a server that will serve again, or of one
// that is no longer the one to ask.
var trouble = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY",
	"NOREPLICAS", "MOVED", "ASK", "UNBLOCKED", "NOSCRIPT",
}

// wordless lists what the nodes of a Cluster say without a code when a command of a
// script meets a slot that is being moved, or a Cluster that is down.
var wordless = []string{
	"attempted to access a non local key",
	"undeclared keys were accessed during rehashing of the slot",
	"while the cluster is down",
}

// Transient reports whether err is worth another try: the server is in trouble
// that passes, or the connection was lost and nobody knows what became of the
// call.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, rueidis.ErrClosing) {
		return false
	}
	if reply, ok := errors.AsType[*rueidis.RedisError](err); ok {
		text := said(reply)
		return slices.ContainsFunc(trouble, func(code string) bool { return hasCode(text, code) }) ||
			slices.ContainsFunc(wordless, func(words string) bool { return strings.Contains(text, words) })
	}
	return !rueidis.IsParseErr(err)
}

// Code reports whether err is a Redis error with that code, be it of a command or of
// one inside a script.
func Code(err error, code string) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && hasCode(said(reply), code)
}

// Word returns the code of the Redis error in err's chain, ERR for one without a code
// of its own, and "" when there is no such error.
func Word(err error) string {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok || reply.IsNil() {
		return ""
	}
	text := said(reply)
	for _, denial := range denials {
		if strings.HasPrefix(text, denial) {
			return noPermission
		}
	}
	word, _, _ := strings.Cut(text, " ")
	if word != strings.ToUpper(word) {
		return "ERR"
	}
	return word
}

// noPermission is the code of what a user may not do.
const noPermission = "NOPERM"

// denials begin what is denied to a script, which has no code: that of Redis 7.2 and
// later and of Valkey, and that of older ones.
var denials = []string{"ACL failure in script: ", "The user executing the script can't "}

// Denied reports whether the server says that its user may not do that.
func Denied(err error) bool { return Word(err) == noPermission }

// wrapping is what servers before 7.0 put in front of the error of a command inside a
// script: the first part if it was raised (redis.call), the second one and the minus if
// the server refused to run the command at all.
var wrapping = regexp.MustCompile(`^(Error running script \([^)]*\): @user_script:\d+: )?(@user_script: \d+: )?-?(ERR )?`)

// said returns the error itself, without what servers put around that of a command
// inside a script.
func said(reply *rueidis.RedisError) string {
	text := strings.TrimPrefix(reply.Error(), "ERR ")
	if strings.HasPrefix(text, "Error running script ") || strings.HasPrefix(text, "@user_script: ") {
		text = text[len(wrapping.FindString(text)):]
	}
	return text
}

func hasCode(text, code string) bool {
	rest, ok := strings.CutPrefix(text, code)
	return ok && (rest == "" || rest[0] == ' ')
}
