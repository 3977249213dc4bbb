// Package open opens fleets, and directories, whose URL is only known when a program runs: with etcd, or
// with a Redis of their own. Its errors name the servers of the directory, and never a password.
package open

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/etcd"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/script"
)

// Is reports whether a URL is that of a fleet.
func Is(url string) bool {
	return strings.HasPrefix(url, "fleet://") || strings.HasPrefix(url, "fleets://") || inEtcd(url)
}

// inEtcd reports whether a URL is that of a fleet whose directory is in etcd.
func inEtcd(url string) bool {
	return strings.HasPrefix(url, "etcd://") || strings.HasPrefix(url, "etcds://")
}

// Servers returns the servers of the directory that a valid URL names.
func Servers(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.ReplaceAll(rest[strings.LastIndex(rest, "@")+1:], ",", ", ")
}

// Check returns dial.ErrURL for an invalid URL of a fleet. It connects to nothing.
func Check(url string) (err error) {
	if inEtcd(url) {
		var dir *directory.Directory
		if dir, _, err = etcd.Open(url); err == nil {
			dir.Close()
		}
	} else {
		_, err = fleet.ParseURL(url)
	}
	if err != nil {
		return dial.ErrURL.Errorf("%s", err).WithHint(millrace.Hint(err))
	}
	return nil
}

// Fleet opens the fleet that a valid URL names. Close it when done.
func Fleet(ctx context.Context, url string, log *slog.Logger) (*fleet.Fleet, error) {
	bounded, cancel := directory.Bound(ctx)
	defer cancel()
	open := fleet.Dial
	if inEtcd(url) {
		open = etcd.Dial
	}
	f, err := script.Prompt(bounded, func(context.Context) (*fleet.Fleet, error) { return open(bounded, url, fleet.Config{Logger: log}) })
	return f, explain(ctx, url, err)
}

// Directory opens the directory that a valid URL names, and returns how to connect to members. The
// directory answers, and may have no fleet yet. Close it when done.
func Directory(ctx context.Context, url string) (dir *directory.Directory, option rueidis.ClientOption, err error) {
	bounded, cancel := directory.Bound(ctx)
	defer cancel()
	if inEtcd(url) {
		dir, option, err = etcd.Open(url)
	} else if option, err = fleet.ParseURL(url); err == nil {
		// Connecting knows no context, and an interrupt need not wait for it.
		dir, err = script.Prompt(bounded, func(context.Context) (*directory.Directory, error) { return directory.Dial(option) })
	}
	if err == nil {
		if _, err = dir.Confirm(bounded, 0); err == nil || errors.Is(err, directory.ErrNoFleet) {
			return dir, option, nil
		}
		dir.Close()
	}
	return nil, option, explain(ctx, url, err)
}

// Confirm returns the present map of the directory that a URL names.
func Confirm(ctx context.Context, url string, dir *directory.Directory) (*directory.Map, error) {
	bounded, cancel := directory.Bound(ctx)
	defer cancel()
	m, err := dir.Confirm(bounded, 0)
	return m, explain(ctx, url, err)
}

// explain adds the directory's address and a hint to an error of opening a fleet.
func explain(ctx context.Context, url string, err error) error {
	if err == nil {
		return nil
	}
	if cause := errors.Unwrap(err); cause != nil && millrace.Code(cause) == "" && errors.Is(err, fleet.ErrUnavailable) {
		err = cause // without the address
	}
	known, isKnown := errors.AsType[*millrace.Error](err)
	_, isReply := rueidis.IsRedisErr(err)
	hint := "Check that the directory's redis-server runs, and that the URL names it."
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, directory.ErrNoFleet):
		return directory.ErrNoFleet.Errorf("there is no fleet in the directory at %s", Servers(url))
	case isKnown:
		return known
	case inEtcd(url) && strings.Contains(err.Error(), "server preface"):
		hint = "Write etcds:// if etcd serves TLS. Otherwise another kind of server listens there."
	case inEtcd(url):
		hint = "Check that most members of etcd run, and that the URL names them: etcd://HOST:PORT,HOST2:PORT2/FLEET."
	case isReply:
		hint = "The URL names the fleet's directory, with user and password if it has any: fleet://USER:PASSWORD@HOST:PORT."
	}
	return dial.ErrConnect.Errorf("the fleet's directory at %s does not answer", Servers(url)).Wrap(errors.New(readable.Line(err))).WithHint(hint)
}
