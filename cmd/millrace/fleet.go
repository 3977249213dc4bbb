package main

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/fleet/etcd"
	"github.com/millrace/millrace/internal/fleet/beside"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/overview"
)

// fleetCommands is the noun fleet.
type fleetCommands struct {
	Init      fleetInit      `cmd:"" help:"Make a fleet of empty servers."`
	Add       fleetAdd       `cmd:"" help:"Add partitions to a fleet that is in use; no data moves."`
	Set       fleetSet       `cmd:"" help:"Show the fleet's settings, or change one while the fleet is in use."`
	Show      fleetShow      `cmd:"" help:"Show partitions, their members, what they have left and what happened."`
	Check     fleetCheck     `cmd:"" help:"Check what a fleet assumes: settings, replication, durability, and one home for each tag."`
	Locate    fleetLocate    `cmd:"" help:"Show where a tag is, and how it was found."`
	Forget    fleetForget    `cmd:"" help:"Give up the places of tags that have no keys any more."`
	Agent     fleetAgent     `cmd:"" help:"Watch the fleet, and replace masters that are lost."`
	Failover  fleetFailover  `cmd:"" help:"Make a replica the master of a partition, and lose nothing."`
	Replica   fleetReplica   `cmd:"" help:"Add, remove and move members of partitions."`
	Node      fleetNode      `cmd:"" help:"Replace or drain a machine."`
	Spare     fleetSpare     `cmd:"" help:"Keep empty servers that replace dead members."`
	Restart   fleetRestart   `cmd:"" help:"Restart members one at a time, masters switched first."`
	Recover   fleetRecover   `cmd:"" help:"Rebuild a lost directory from the copies that members and the archive have, or change the directory."`
	Cancel    fleetCancel    `cmd:"" help:"Drop what is left of a change of members."`
	Restore   fleetRestore   `cmd:"" help:"Decide with which data a partition goes on that waits for a person."`
	Snapshot  fleetSnapshot  `cmd:"" help:"Show how old the partitions' snapshots are, or take new ones."`
	Rebalance fleetRebalance `cmd:"" help:"Move tags to other partitions while they are in use."`
	Plan      fleetPlan      `cmd:"" help:"Calculate the size of a fleet before it is built."`
	Dev       fleetDev       `cmd:"" help:"Run a whole fleet on this machine, to try things out."`
}

func (*fleetCommands) Help() string {
	return `A fleet is many Redis servers as one: each tag (what is in the braces of a key, or the whole key) lives on one partition, and partitions are added without moving data. A directory holds the list of servers: etcd (etcd://HOST:PORT,HOST2:PORT2/FLEET), or a small Redis of its own (fleet://HOST:PORT). Every other noun runs on a fleet, too.

    plan ──▶ init ──▶ agent ──▶ show, locate ──▶ add ──▶ show ...
                                     ▲                    │
                                     └────────────────────┘

Examples:

    millrace fleet dev
    export MILLRACE_REDIS_URL=fleet://127.0.0.1:7000
    millrace fleet agent
    millrace fleet show
    millrace fleet locate user:7
    millrace fleet add --partition 10.0.0.5:7001@e,10.0.0.6:7001@f
    millrace queue write orders --tenant acme --body hello`
}

// isFleet reports whether a URL is that of a fleet.
func isFleet(url string) bool {
	return strings.HasPrefix(url, "fleet://") || strings.HasPrefix(url, "fleets://") || isEtcd(url)
}

// isEtcd reports whether a URL is that of a fleet whose directory is in etcd.
func isEtcd(url string) bool {
	return strings.HasPrefix(url, "etcd://") || strings.HasPrefix(url, "etcds://")
}

// fleetURL returns the URL of the fleet.
func (a *app) fleetURL() (string, error) {
	url := a.url()
	if !isFleet(url) {
		err := dial.ErrURL.Errorf("this command needs to know which fleet to work on")
		if url != "" {
			err = dial.ErrURL.Errorf("this command works on a fleet, not on one Redis")
		}
		err.Hint = "Add --redis fleet://HOST:PORT or --redis etcd://HOST:PORT/FLEET, where the fleet's directory is, or set MILLRACE_REDIS_URL."
		return "", a.noURL(err)
	}
	_, err := fleet.ParseURL(url)
	if isEtcd(url) {
		var dir *directory.Directory
		if dir, _, err = etcd.Open(url); err == nil {
			dir.Close()
		}
	}
	if err != nil {
		return "", dial.ErrURL.Errorf("%s", err).WithHint(millrace.Hint(err))
	}
	return url, nil
}

// directoryTimeout is how long the directory may take to answer at first.
const directoryTimeout = 3 * time.Second

var errNoAnswer = errors.New("no answer within " + directoryTimeout.String())

// openFleet opens the fleet. Close it when done.
func (a *app) openFleet(ctx context.Context) (*fleet.Fleet, error) {
	url, err := a.fleetURL()
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, directoryTimeout, errNoAnswer)
	defer cancel()
	open := fleet.Dial
	if isEtcd(url) {
		open = etcd.Dial
	}
	f, err := within(bounded, func() (*fleet.Fleet, error) { return open(bounded, url, fleet.Config{Logger: a.logger()}) }, (*fleet.Fleet).Close)
	if err != nil {
		return nil, explain(ctx, url, err)
	}
	return f, nil
}

// withFleet opens the fleet for do.
func (a *app) withFleet(ctx context.Context, do func(f *fleet.Fleet) (any, table, error)) error {
	f, err := a.openFleet(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	return a.show(do(f))
}

// withDirectory opens a directory that answers for do, which is told how to connect to
// members. It may have no fleet yet.
func (a *app) withDirectory(ctx context.Context, do func(dir *directory.Directory, option rueidis.ClientOption) error) error {
	url, err := a.fleetURL()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, directoryTimeout, errNoAnswer)
	defer cancel()
	var option rueidis.ClientOption
	dir, err := within(bounded, func() (dir *directory.Directory, err error) {
		if isEtcd(url) {
			dir, option, err = etcd.Open(url)
		} else if option, err = fleet.ParseURL(url); err == nil {
			dir, err = directory.Dial(option)
		}
		return dir, err
	}, (*directory.Directory).Close)
	if err != nil {
		return explain(ctx, url, err)
	}
	defer dir.Close()
	if _, err := dir.Confirm(bounded, 0); err != nil && !errors.Is(err, directory.ErrNoFleet) {
		return explain(ctx, url, err)
	}
	return do(dir, option)
}

// fleetAt is a fleet with its present map.
type fleetAt struct {
	*fleet.Fleet
	dir    *directory.Directory
	option rueidis.ClientOption // how to connect to members
	m      *directory.Map
}

// withMap opens the fleet for do, which needs a directory that confirms the map, and a map that
// has some partitions.
func (a *app) withMap(ctx context.Context, do func(f *fleetAt) (any, table, error), partitions ...int) error {
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
		bounded, cancel := context.WithTimeoutCause(ctx, directoryTimeout, errNoAnswer)
		defer cancel()
		at := &fleetAt{Fleet: f, dir: directory.Of(f.Client()), option: directory.OptionOf(f.Client())}
		var err error
		if at.m, err = at.dir.Confirm(bounded, 0); err != nil {
			return nil, nil, explain(ctx, a.url(), err)
		}
		for _, id := range partitions {
			if n := len(at.m.Partitions); id < 0 || id >= n {
				return nil, nil, errNoPartition.Errorf("there is no partition %d: the fleet has %d, from 0 on", id, n)
			}
		}
		return do(at)
	})
}

// errNoPartition means that the fleet has no partition of that number.
var errNoPartition = &millrace.Error{Code: "not_found", Hint: "Look at millrace fleet show for the partitions that there are."}

// checkAddr refuses what is not the address of a member.
func checkAddr(flag, addr string) error {
	if m, err := parseMember(addr); err != nil || m.Node != "" {
		return errUsage.Errorf("%s %s: a member is named by its HOST:PORT", flag, addr)
	}
	return nil
}

// help returns a function that runs an agent beside a command until end is called, so that the
// command needs no other one. The agent logs warnings only: the command reports its steps.
func (a *app) help(dir *directory.Directory, option rueidis.ClientOption) failover.Help {
	return beside.Agent(dir, option, agent.Config{Logger: slog.New(warnings{a.logger().Handler()})})
}

// warnings passes on what is at least a warning.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// grpcWords finds what gRPC adds to an error of the network.
var grpcWords = regexp.MustCompile(`connection error: desc = "(?:transport: )?|Error while dialing: |"(;|$)`)

// explain adds the directory's address and a hint to an error of opening a fleet.
func explain(ctx context.Context, url string, err error) error {
	if unavailable, ok := errors.AsType[*millrace.Error](err); ok && unavailable.Err != nil && millrace.Code(unavailable.Err) == "" && errors.Is(err, fleet.ErrUnavailable) {
		err = unavailable.Err // without the address
	}
	known, isKnown := errors.AsType[*millrace.Error](err)
	_, isReply := rueidis.IsRedisErr(err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, directory.ErrNoFleet):
		return directory.ErrNoFleet.Errorf("there is no fleet in the directory at %s", serversOf(url))
	case isKnown:
		return known
	}
	failed := dial.ErrConnect.Errorf("the fleet's directory at %s does not answer", serversOf(url)).Wrap(errors.New(grpcWords.ReplaceAllString(overview.OneLine(err), "$1")))
	switch {
	case isEtcd(url) && strings.Contains(err.Error(), "server preface"):
		failed.Hint = "Write etcds:// if etcd serves TLS. Otherwise another kind of server listens there."
	case isEtcd(url):
		failed.Hint = "Check that most members of etcd run, and that the URL names them: etcd://HOST:PORT,HOST2:PORT2/FLEET."
	case isReply:
		failed.Hint = "The URL names the fleet's directory, with user and password if it has any: fleet://USER:PASSWORD@HOST:PORT."
	default:
		failed.Hint = "Check that the directory's redis-server runs, and that the URL names it."
	}
	return failed
}

// serversOf returns the servers of the directory that a valid URL names.
func serversOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.ReplaceAll(rest[strings.LastIndex(rest, "@")+1:], ",", ", ")
}
