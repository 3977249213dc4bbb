package conformance

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// guarded are servers with users. Commands about users are sent as the default
// user, which may do everything.
type guarded struct {
	t       *testing.T
	page    aclPage
	servers []*redistest.Server
	admins  []rueidis.Client // of each server
	whole   bool             // the server counts and logs no subcommands, as before 7.0

	// reach returns a client of a server, or of all that it belongs to.
	reach func(server int, changes ...func(*rueidis.ClientOption)) rueidis.Client
}

func newGuarded(t *testing.T, servers ...*redistest.Server) *guarded {
	t.Helper()
	g := &guarded{t: t, page: readACLPage(t), servers: servers}
	g.reach = func(server int, changes ...func(*rueidis.ClientOption)) rueidis.Client {
		return servers[server].Client(t, changes...)
	}
	for _, s := range servers {
		g.admins = append(g.admins, s.Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true }))
	}
	g.everywhere("CONFIG", "SET", "acllog-max-len", fmt.Sprint(logged))
	g.whole = strings.HasPrefix(servers[0].Info("server")["redis_version"], "6.")
	return g
}

// logged is how many refusals a server remembers.
const logged = 10_000

// newGuardedPair guards two servers of the test's own.
func newGuardedPair(t *testing.T) *guarded {
	t.Helper()
	return newGuarded(t, redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{}))
}

// everywhere has each server do something. Their connections may have been cut.
func (g *guarded) everywhere(words ...string) (replies []rueidis.RedisMessage) {
	g.t.Helper()
	for _, admin := range g.admins {
		must(g.t, words[0], retry.Policy{}.Do(context.Background(), func(int) error {
			reply, err := admin.Do(context.Background(), admin.B().Arbitrary(words...).Build()).ToMessage()
			if err == nil {
				replies = append(replies, reply)
			}
			return err
		}))
	}
	return replies
}

// lacks reports whether the page says to leave a command out, because the servers do not
// have it.
func (g *guarded) lacks(command string) bool {
	g.t.Helper()
	if !strings.HasSuffix(command, "_ro") {
		return false
	}
	infos, err := g.everywhere("COMMAND", "INFO", command)[0].ToArray()
	must(g.t, "COMMAND INFO", err)
	return len(infos) == 0 || infos[0].IsNil()
}

// allow gives a user rules, without those that the page says to leave out.
func (g *guarded) allow(user string, rules ...string) {
	g.t.Helper()
	rules = slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return g.lacks(strings.TrimPrefix(rule, "+")) })
	g.everywhere(append([]string{"ACL", "SETUSER", user}, rules...)...)
}

// as returns how to connect as a user.
func as(user string) func(*rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) {
		o.Username, o.Password = user, aclPassword
		o.ClientSetInfo = rueidis.DisableClientSetInfo // as the page has it
	}
}

// unasked is the one of two commands that a client of these servers does not use to ask
// which slots a Cluster has where.
func (g *guarded) unasked() string {
	g.t.Helper()
	hello, err := g.everywhere("HELLO")[0].AsMap()
	must(g.t, "HELLO", err)
	reply := hello["version"]
	version, err := reply.ToString()
	must(g.t, "HELLO", err)
	first, _, _ := strings.Cut(version, ".")
	if major, err := strconv.Atoi(first); err == nil && major >= 8 {
		return "cluster|slots"
	}
	return "cluster|shards"
}

// stat is the servers' name of a command in counts and logs.
func (g *guarded) stat(command string) string {
	if g.whole {
		command, _, _ = strings.Cut(command, "|")
	}
	return command
}

// visit has a user go to one stop, and returns which commands the servers were
// given and which they refused. It leaves when something was refused.
func (g *guarded) visit(user string, s stop) (given, refused []string, err error) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 2*time.Minute) // a stop in long tests takes one
	defer cancel()
	name := redistest.Name(g.t)
	for _, kind := range s.of {
		g.allow(user, g.page.keys(g.t, kind, name)...)
	}
	for _, forget := range []string{"FLUSHALL", "SCRIPT FLUSH", "CONFIG RESETSTAT", "ACL LOG RESET"} {
		g.everywhere(strings.Fields(forget)...)
	}
	last := len(g.servers) - 1
	w := &walker{Context: ctx, client: g.reach(0, as(user)), other: g.reach(last, as(user)), name: name}
	w.admin = &walker{Context: ctx, client: g.reach(0), other: g.reach(last), name: name}
	w.dial = func(change func(*rueidis.ClientOption)) rueidis.Client { return g.reach(0, as(user), change) }
	for _, client := range []rueidis.Client{w.client, w.other, w.admin.client, w.admin.other} {
		defer client.Close()
	}
	done := make(chan error, 1)
	go func() { done <- w.visit(s) }()
	for over := false; !over; {
		select {
		case err = <-done:
			over = true
		case <-time.After(5 * time.Millisecond):
		}
		if refused = g.refused(user, s.may...); len(refused) > 0 {
			cancel()
		}
	}
	return used(g.servers), refused, err
}

// refused returns the commands that servers refused to a user, but for those that it
// can do without.
func (g *guarded) refused(user string, may ...string) (refused []string) {
	g.t.Helper()
	for _, reply := range g.everywhere("ACL", "LOG", fmt.Sprint(logged)) {
		entries, err := reply.ToArray()
		must(g.t, "ACL LOG", err)
		for _, entry := range entries {
			fields, err := entry.AsStrMap()
			must(g.t, "ACL LOG", err)
			what := fields["object"]
			if fields["reason"] != "command" {
				what = fields["reason"] + " " + what
			}
			if fields["username"] == user && !slices.Contains(may, what) {
				refused = append(refused, what)
			}
		}
	}
	return refused
}

// used returns the commands that servers were given since their statistics began.
func used(servers []*redistest.Server) (commands []string) {
	for _, s := range servers {
		for name := range s.Info("commandstats") {
			commands = append(commands, strings.TrimPrefix(name, "cmdstat_"))
		}
	}
	return commands
}
