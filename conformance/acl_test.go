package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/commands"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestACL creates each user of docs/SECURITY.md as it is written there, and has it
// do all that it is for: nothing may be refused. Then it does so without one of
// the commands, and with each of them once: something must be refused.
func TestACL(t *testing.T) {
	t.Parallel()
	for user, stops := range map[string][]stop{
		"millrace":        tour,
		"millrace-viewer": views,
	} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			g := newGuardedPair(t)
			rules := g.page.user(t, user)
			users := map[string][]stop{} // of a command
			for _, s := range stops {
				g.allow(user, rules...)
				used, refused, err := g.visit(user, s)
				if err != nil || len(refused) > 0 {
					t.Errorf("%s: %v, refused: %v", s.name, err, refused)
				}
				for _, command := range used {
					users[command] = append(users[command], s)
				}
			}
			for _, command := range commandsOf(rules) {
				if command == g.unasked() || g.lacks(command) || command == "role" { // which clients ask behind Sentinels: TestACLBehindSentinels
					continue
				}
				without := slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule == "+"+command })
				g.allow(user+"-", without...)
				missed := slices.ContainsFunc(users[g.stat(command)], func(s stop) bool {
					_, refused, _ := g.visit(user+"-", s)
					return slices.Contains(refused, g.stat(command))
				})
				if !missed {
					t.Errorf("+%s is not needed", command)
				}
			}
		})
	}
}

// newer are commands that Redis 6.2 does not have: one it takes in a rule all the same, because
// it does not know the names of subcommands, and the page says to leave the others out.
var newer = []string{"cluster|shards", "eval_ro", "evalsha_ro"}

// TestACLIsOld: the lines know no other command that Redis 6.2 does not have.
func TestACLIsOld(t *testing.T) {
	t.Parallel()
	table, err := commands.Redis62()
	must(t, "the table of commands", err)
	for user, rules := range readACLPage(t).users {
		for _, command := range commandsOf(rules) {
			if table.Find(strings.Split(command, "|")) == nil && !slices.Contains(newer, command) {
				t.Errorf("%s: +%s is no command of Redis 6.2", user, command)
			}
		}
	}
}

// TestACLHasEveryCommand looks for commands in scripts that no stop may have come
// by.
func TestACLHasEveryCommand(t *testing.T) {
	t.Parallel()
	rules := readACLPage(t).user(t, "millrace")
	allowed := commandsOf(rules)
	call := regexp.MustCompile(`redis\.p?call\('(\w+)'(?:, '(\w+)')?`)
	for _, folder := range []string{"ick", "fairqueue", "lease", "expiry", "pinned", "tracker", "scatter", "observe/*", "internal/*", "internal/redis/*"} {
		files, err := filepath.Glob(filepath.Join("..", folder, "*.lua"))
		must(t, "Glob", err)
		if len(files) == 0 {
			t.Errorf("no scripts in %s", folder)
		}
		for _, file := range files {
			if strings.Contains(file, "internal/redis/replicas/") || strings.Contains(file, "internal/bench/") {
				continue // for the users of a fleet, and of the bench
			}
			source, err := os.ReadFile(file)
			must(t, "a script", err)
			for _, m := range call.FindAllStringSubmatch(strings.ToLower(string(source)), -1) {
				if !slices.Contains(allowed, m[1]) && !slices.Contains(allowed, m[1]+"|"+m[2]) {
					t.Errorf("%s calls %s, which the user millrace may not", file, m[1])
				}
			}
		}
	}
}

// TestACLKeys: a key that is in no pattern is not touched. Beside those of the Ick, its
// first call that succeeds enters it in the registry, in the background; calls that were
// refused enter nothing.
func TestACLKeys(t *testing.T) {
	t.Parallel()
	g := newGuardedPair(t)
	rules := g.page.user(t, "millrace")
	g.allow("millrace", append(rules, g.page.keys(t, "an Ick", "mine")...)...)
	client := g.reach(0, as("millrace"))
	for name, allowed := range map[string]bool{"mine": true, "mine2": false, "theirs": false} {
		k, err := ick.New(client, name, ick.Config{})
		must(t, "ick.New", err)
		_, err = k.AddNow(t.Context(), "a")
		if allowed && err != nil || !allowed && !retry.Denied(err) {
			t.Errorf("AddNow to the Ick %s = %v, want it allowed: %t", name, err, allowed)
		}
	}
	for _, key := range []string{"other", "mrs:queue:{x}"} {
		if err := client.Do(t.Context(), client.B().Get().Key(key).Build()).Error(); !retry.Denied(err) {
			t.Errorf("GET %s = %v, want it refused", key, err)
		}
	}
	registry.Settle(t.Context(), client)
	var entered []string
	for _, key := range keysOf(t, g.admins[0], "") {
		if strings.HasPrefix(key, "mr:registry:") {
			fields, err := g.admins[0].Do(t.Context(), g.admins[0].B().Hkeys().Key(key).Build()).AsStrSlice()
			must(t, "HKEYS", err)
			entered = append(entered, fields...)
			continue
		}
		if key != "mine" && !strings.HasPrefix(key, "mine/ick/{mine}/") {
			t.Errorf("the key %s was written", key)
		}
	}
	if !slices.Equal(entered, []string{"ick mine"}) {
		t.Errorf("entered in the registry: %q, want only the Ick mine", entered)
	}
}

// TestACLViewer: a user that may only look has no command that writes, so no script can.
func TestACLViewer(t *testing.T) {
	t.Parallel()
	g := newGuardedPair(t)
	rules := g.page.user(t, "millrace-viewer")
	table, err := commands.Redis62()
	must(t, "the table of commands", err)
	for _, command := range commandsOf(rules) {
		if c := table.Find(strings.Split(command, "|")); !slices.Contains(newer, command) && (c == nil || c.Is("write")) {
			t.Errorf("+%s is a command that writes, or none", command)
		}
	}
	g.allow("millrace-viewer", rules...)
	q, err := fairqueue.New(g.reach(0, as("millrace-viewer")), "q", fairqueue.Config{})
	must(t, "fairqueue.New", err)
	if _, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "a"}); !retry.Denied(err) {
		t.Errorf("Write = %v, want it refused", err)
	}
	if keys := keysOf(t, g.admins[0], ""); len(keys) > 0 {
		t.Errorf("the keys %v were written", keys)
	}
}

// TestACLOnCluster: slots that move need one command more, and nothing else does.
func TestACLOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	g := newGuarded(t, cluster.Nodes...)
	g.reach = func(_ int, changes ...func(*rueidis.ClientOption)) rueidis.Client {
		return cluster.Client(t, changes...)
	}
	g.allow("millrace", g.page.user(t, "millrace")...)
	for _, s := range shortTour {
		if _, refused, err := g.visit("millrace", s); err != nil || len(refused) > 0 {
			t.Errorf("%s: %v, refused: %v", s.name, err, refused)
		}
	}

	const key = "mr:x"
	from := slices.Index(cluster.Nodes, cluster.MasterOf(key))
	to := (from + 1) % len(cluster.Nodes)
	ask := func(node int, words ...string) string {
		text, err := g.admins[node].Do(t.Context(), g.admins[node].B().Arbitrary(words...).Build()).ToAny()
		must(t, words[1], err)
		return fmt.Sprint(text)
	}
	slot := ask(from, "CLUSTER", "KEYSLOT", key)
	ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ask(from, "CLUSTER", "MYID"))
	ask(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", ask(to, "CLUSTER", "MYID"))
	client := g.reach(0, as("millrace"))
	exists := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return client.Do(ctx, client.B().Exists().Key(key).Build()).Error()
	}
	if err := exists(100 * time.Millisecond); err == nil || !slices.Contains(g.refused("millrace"), "asking") {
		t.Errorf("EXISTS of a key on its way = %v, refused: %v, want +asking to be missing", err, g.refused("millrace"))
	}
	g.allow("millrace", g.page.user(t, "millrace +asking")...)
	must(t, "EXISTS of a key on its way", exists(10*time.Second))
}

// TestACLBehindSentinels: the user is that of the servers, and not of the
// Sentinels, which are asked without one.
func TestACLBehindSentinels(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinels(t, 0)
	g := newGuarded(t, set.Data...)
	g.reach = func(_ int, changes ...func(*rueidis.ClientOption)) rueidis.Client { return set.Client(t, changes...) }
	g.allow("millrace", g.page.user(t, "millrace")...)
	for _, s := range shortTour {
		if _, refused, err := g.visit("millrace", s); err != nil || len(refused) > 0 {
			t.Errorf("%s: %v, refused: %v", s.name, err, refused)
		}
	}
}

// shortTour is the stops that show whether the way to the server makes a difference.
var shortTour = []stop{
	{name: "channel", walk: walkChannel, of: []string{"a channel's Icks"}},
	{name: "queue", walk: walkQueue},
	{name: "lease", walk: walkLease},
	{name: "hashes", walk: walkHashes},
}
