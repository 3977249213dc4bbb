package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/retry"
)

var (
	// errUsage means that the command line is wrong. Redis was not asked.
	errUsage = &millrace.Error{Code: "bad_usage"}

	// errPrinted means that the result on standard output shows the failure.
	errPrinted = errors.New("the result shows what failed")
)

// wrongUsage turns an error of kong into one of ours, unless it is one already.
func wrongUsage(err error, command *kong.Node) error {
	if millrace.Code(err) != "" {
		return err
	}
	wrong := errUsage.Errorf("%s", err)
	switch {
	case strings.HasPrefix(wrong.Message, "unknown flag"):
		wrong.Hint = command.FullPath() + " --help shows the flags. An argument that begins with two hyphens goes behind a bare --, the end of flags."
	case strings.HasPrefix(wrong.Message, "missing flags"):
		wrong.Hint = firstExample(command)
	}
	return wrong
}

// firstExample returns the first line of a command's help that is a command, or nothing.
func firstExample(command *kong.Node) string {
	for line := range strings.Lines(command.Detail) {
		if example, ok := strings.CutPrefix(line, "    millrace "); ok {
			return "millrace " + strings.TrimSpace(example)
		}
	}
	return ""
}

// failure is an error as JSON.
type failure struct {
	Error string `json:"error"`
	Code  string `json:"code"`
	Hint  string `json:"hint"`
}

// fail reports an error of a command and returns the exit code.
func (a *app) fail(err error, command string) int {
	f := describe(err)
	exit := 1
	if strings.HasPrefix(f.Code, "bad_") {
		exit = 2
		if f.Hint == "" {
			f.Hint = command + " --help"
		}
	}
	if a.json {
		jsontype.Encode(a.stderr, f) //nolint:errcheck // there is nowhere left to report it
		return exit
	}
	fmt.Fprintf(a.stderr, "millrace: %s\n", f.Error)
	if f.Hint != "" {
		fmt.Fprintf(a.stderr, "Try: %s\n", f.Hint)
	}
	return exit
}

// describe finds code and hint for an error.
func describe(err error) failure {
	bare := retry.Bare(err) // why there is no answer; the text says the rest
	f := failure{Error: err.Error(), Code: millrace.Code(bare), Hint: millrace.Hint(bare)}
	if one, ok := err.(*millrace.Error); ok { //nolint:errorlint // of several, each has a line
		f.Error = readable.Line(one) // which may have several causes
	}
	_, isReply := errors.AsType[*rueidis.RedisError](err)
	_, isNet := errors.AsType[*net.OpError](err)
	switch {
	case f.Code != "":
	case errors.Is(err, context.Canceled):
		f.Error, f.Code = "interrupted", "interrupted"
	case retry.Denied(err):
		f.Code, f.Hint = "no_permission", "Let the Redis user run scripts and use the structure's keys (ACL SETUSER)."
	case isReply:
		f.Code = "redis"
	case isNet, errors.Is(err, io.EOF), errors.Is(err, context.DeadlineExceeded):
		f.Code, f.Hint = "unreachable", "Check that the server runs, then repeat the command."
	default:
		f.Code = "failed"
	}
	return f
}
