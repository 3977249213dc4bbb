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

// Policy limits repeats of a call. The zero value works.
type Policy struct {
	// Base is the pause before the second try; it doubles with each try. Defaults to 5 ms.
	Base time.Duration

	// Max is the longest pause between two tries. Defaults to 500 ms.
	Max time.Duration

	// Timeout is how long after the first try the last one may begin, within the deadline of
	// the context. Defaults to 5 s.
	Timeout time.Duration
}

// Do calls try until it succeeds, fails permanently, the timeout is over or ctx ends. The number of
// the first try is 1. The error is that of the last try, joined with ctx's if that ended it.
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

// foreign reports whether an error is about the end of something else than the call. Closed means
// that the error of the last try was ErrClosing.
//
// A call whose context ends may end its connection, and other calls on it fail as cancelled or too
// late. So do calls whose connection is opened too slowly. And a client that follows the master to
// another server closes the old connection during calls: only two errors in a row mean that the
// client is closed.
func foreign(ctx context.Context, err error, closed bool) bool {
	if ctx.Err() != nil {
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, rueidis.ErrClosing) && !closed
}

// Pause returns how long to wait after a failed try: at random between half of the doubling pause
// and all of it, so that callers that failed together do not repeat together.
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

// Sleep waits for d, and reports whether it was not ended by ctx.
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

// trouble lists the error codes of a server that recovers, or is no longer responsible.
var trouble = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MISCONF",
	"NOREPLICAS", "MOVED", "ASK", "UNBLOCKED", "NOSCRIPT",
}

// codeless lists errors without a code of the nodes of a Cluster, for a command of a script whose
// slot moves, or while the Cluster is down.
var codeless = []string{
	"attempted to access a non local key",
	"undeclared keys were accessed during rehashing of the slot",
	"while the cluster is down",
}

// Transient reports whether err is worth another try: the server will recover, or the connection
// was lost and the outcome is unknown.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, rueidis.ErrClosing) {
		return false
	}
	if reply, ok := errors.AsType[*rueidis.RedisError](err); ok {
		text := textOf(reply)
		return slices.ContainsFunc(trouble, func(code string) bool { return hasCode(text, code) }) ||
			slices.ContainsFunc(codeless, func(words string) bool { return strings.Contains(text, words) })
	}
	return !rueidis.IsParseErr(err)
}

// Code reports whether err is a Redis error with that code, of a command or of one in a script.
func Code(err error, code string) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && hasCode(textOf(reply), code)
}

// Word returns the code of the Redis error in err's chain, ERR for one without a code, and "" for no
// Redis error.
func Word(err error) string {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok || reply.IsNil() {
		return ""
	}
	text := textOf(reply)
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

const noPermission = "NOPERM"

// denials begin the errors without a code for a command in a script that the user may not call: of
// Redis 7.2 and later and of Valkey, and of older ones.
var denials = []string{"ACL failure in script: ", "The user executing the script can't "}

// Denied reports whether the user lacks a permission.
func Denied(err error) bool { return Word(err) == noPermission }

// wrapping is the text that servers before 7.0 put in front of the error of a command in a script:
// the first part if it was raised (redis.call), the second one and the minus if the server refused
// to run the command.
var wrapping = regexp.MustCompile(`^(Error running script \([^)]*\): @user_script:\d+: )?(@user_script: \d+: )?-?(ERR )?`)

// textOf returns the text of an error, without the wrapping of errors of commands in scripts.
func textOf(reply *rueidis.RedisError) string {
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
