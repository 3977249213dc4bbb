package ick

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/gem.json, with MILLRACE_ICK_GEM")

// gem is the gem redis-ick at an Ick. With MILLRACE_ICK_GEM, a folder of the gem, its own scripts run, as its programs run
// them. Otherwise each of its calls is played: it must find the keys as they were when it was recorded, leaves them
// as the scripts left them, and returns their reply.
type gem struct {
	t       *testing.T
	k       *Ick
	scripts map[string]string // nil if calls are played
	calls   []gemCall         // recorded, the next one first; or those of now
}

// gemCall is a call of the gem, with the keys that it knows before and after it: "version", "pset" and "cset".
type gemCall struct {
	Script string
	Args   []string
	Before map[string]string
	After  map[string]string
	Reply  string
}

// gemScripts reads the Lua of the gem from its Ruby.
func gemScripts(t *testing.T, folder string) map[string]string {
	t.Helper()
	ruby, err := os.ReadFile(filepath.Join(folder, "lib", "redis", "ick.rb"))
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)LUA_ICK(\w+) *= *(?:\(LUA_ICK_PREFIX \+ )?%\{\n(.*?)\n    \}\)?\.freeze`).FindAllStringSubmatch(string(ruby), -1) {
		scripts[m[1]] = m[2]
	}
	if scripts["DEL"] == "" { // newer ones have it within a method, beside UNLINK
		scripts["DEL"] = "return redis.call('DEL', unpack(KEYS))"
	}
	for _, name := range []string{"_PREFIX", "DEL", "STATS", "ADD", "EXCHANGE"} {
		if scripts[name] == "" {
			t.Fatalf("%s has no script %s, but %v", folder, name, slices.Sorted(maps.Keys(scripts)))
		}
		if name != "_PREFIX" {
			scripts[name] = scripts["_PREFIX"] + "\n" + scripts[name]
		}
	}
	return scripts
}

// keys returns what the keys hold that the gem knows. Those that do not exist are absent.
func (g *gem) keys() map[string]string {
	g.t.Helper()
	held := map[string]string{}
	if version, err := do(g.t, g.k.run.Client, "GET", g.k.name).ToString(); err == nil {
		held["version"] = version
	}
	for _, part := range []string{keyPset, keyCset} {
		list, err := do(g.t, g.k.run.Client, "ZRANGE", key(g.k.name, part), "0", "-1", "WITHSCORES").AsZScores()
		if err != nil {
			g.t.Fatal(err)
		}
		var words []string
		for _, e := range list {
			words = append(words, fmt.Sprint(e.Member, " ", e.Score))
		}
		if len(words) > 0 {
			held[part] = strings.Join(words, ", ")
		}
	}
	return held
}

// set sets the keys that the gem knows.
func (g *gem) set(held map[string]string) {
	g.t.Helper()
	run := func(args ...string) {
		if err := do(g.t, g.k.run.Client, args...).Error(); err != nil {
			g.t.Fatal(err)
		}
	}
	run("DEL", g.k.name, key(g.k.name, keyPset), key(g.k.name, keyCset))
	if version, ok := held["version"]; ok {
		run("SET", g.k.name, version)
	}
	for _, part := range []string{keyPset, keyCset} {
		for _, mark := range strings.FieldsFunc(held[part], func(r rune) bool { return r == ',' }) {
			member, score, _ := strings.Cut(strings.TrimSpace(mark), " ")
			run("ZADD", key(g.k.name, part), score, member)
		}
	}
}

// call runs or plays a call, and returns its reply as JSON.
func (g *gem) call(script string, args ...string) string {
	g.t.Helper()
	call := gemCall{Script: script, Args: args, Before: g.keys()}
	if g.scripts == nil {
		if len(g.calls) == 0 {
			g.t.Fatalf("%s %v was not recorded: set MILLRACE_ICK_GEM, and -update", script, args)
		}
		recorded := g.calls[0]
		call.After, call.Reply = recorded.After, recorded.Reply
		if diff := cmp.Diff(recorded, call); diff != "" {
			g.t.Fatalf("the gem found something else when it was recorded (-recorded +now):\n%s", diff)
		}
		g.calls = g.calls[1:]
		g.set(recorded.After)
		return recorded.Reply
	}
	names := []string{g.k.name, key(g.k.name, keyPset), key(g.k.name, keyCset)}
	reply, err := do(g.t, g.k.run.Client, slices.Concat([]string{"EVAL", g.scripts[script], "3"}, names, args)...).ToAny()
	if err != nil {
		g.t.Fatalf("%s: %v", script, err)
	}
	text, err := json.Marshal(reply)
	if err != nil {
		g.t.Fatal(err)
	}
	call.After, call.Reply = g.keys(), strings.ReplaceAll(string(text), g.k.name, "NAME")
	g.calls = append(g.calls, call)
	return call.Reply
}

// add is ickadd of marks as help_test.go writes them.
func (g *gem) add(add, reply string) {
	g.t.Helper()
	var args []string
	for _, e := range marks(g.t, add) {
		args = append(args, fmt.Sprint(e.Score), e.Member)
	}
	want(g.t, "ickadd "+add, g.call("ADD", args...), reply, nil)
}

// exchange is ickexchange, ickcommit with n = 0, and ickreserve without members.
func (g *gem) exchange(n int, backwash bool, members, reply string) {
	g.t.Helper()
	args := append([]string{fmt.Sprint(n), map[bool]string{true: "backwash", false: "false"}[backwash]}, strings.Fields(members)...)
	want(g.t, "ickexchange", g.call("EXCHANGE", args...), reply, nil)
}

// TestBesideTheGem: what docs/WIRE.md allows programs with the gem works, and loses no mark.
func TestBesideTheGem(t *testing.T) {
	t.Parallel()
	var scripts map[string]string
	if folder := os.Getenv("MILLRACE_ICK_GEM"); folder != "" {
		scripts = gemScripts(t, folder)
	}
	const file = "testdata/gem.json"
	recorded := map[string][]gemCall{}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &recorded); err != nil {
			t.Fatal(err)
		}
	}
	run := map[string][]gemCall{}
	for _, c := range []struct {
		name string
		play func(t *testing.T, g *gem, k *Ick)
	}{
		{"producers of the gem, consumers of Millrace", gemProduces},
		{"producers of Millrace, consumers of the gem", gemConsumes},
		{"Millrace takes over from the gem", takeOver},
		{"back to the gem", goBack},
		{"a delete of the gem", gemDeletes},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &gem{t: t, k: open(t, Config{}), scripts: scripts}
			if scripts == nil {
				g.calls = recorded[c.name]
			}
			c.play(t, g, g.k)
			if scripts == nil {
				want(t, "calls that were recorded and not made", len(g.calls), 0, nil)
				return
			}
			run[c.name] = g.calls
		})
	}
	switch {
	case scripts == nil || t.Failed():
	case *update:
		text, err := json.MarshalIndent(run, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		if diff := cmp.Diff(run, recorded); diff != "" {
			t.Errorf("%s is not what the gem does (-gem +file): record it with -update\n%s", file, diff)
		}
	}
}

// gemProduces: marks of both fold, and a mark that comes while its member is handled is returned again.
func gemProduces(t *testing.T, g *gem, k *Ick) {
	g.add("a10 b20", `[2,0]`)
	wantAdd(t, k, "b15 c30", 1, 1)
	g.add("c25 d40", `[1,1]`)
	token := wantReserve(t, k, 2, "a10 b15")
	g.add("a50 b5", `[2,0]`)
	want(t, "ickstats", g.call("STATS"), `["key","NAME","pset_key","NAME/ick/{NAME}/pset","cset_key","NAME/ick/{NAME}/cset","ver","ick.v1",`+
		`"cset_size",2,"pset_size",4,"total_size",6,"pset_min","5","pset_max","50","cset_min","10","cset_max","15","total_min","5","total_max","50"]`, nil)
	wantCommit(t, k, token, "a b", 2, 0)
	token = wantReserve(t, k, 10, "b5 c25 d40 a50")
	wantCommit(t, k, token, "a b c d", 4, 0)
	wantReserve(t, k, 10, "")
	s, err := k.Stats(t.Context())
	want(t, "left", s.Total, 0, err)
}

// gemConsumes: its commits and its backwash leave what Millrace adds meanwhile.
func gemConsumes(t *testing.T, g *gem, k *Ick) {
	wantAdd(t, k, "a10 b20 c30", 3, 0)
	g.exchange(2, false, "", `[0,"a","10","b","20"]`)
	wantAdd(t, k, "a40 d5", 2, 0)
	g.exchange(2, false, "a", `[1,"d","5","b","20"]`)
	wantAdd(t, k, "e1", 1, 0)
	g.exchange(2, true, "", `[0,"e","1","d","5"]`)
	g.exchange(0, false, "e d", `[2]`)
	g.exchange(10, false, "", `[0,"b","20","c","30","a","40"]`)
	g.exchange(10, false, "a b c", `[3]`)
	s, err := k.Stats(t.Context())
	want(t, "left", s.Total, 0, err)
}

// takeOver: what the gem's consumer held when it was stopped is returned, and can be committed.
func takeOver(t *testing.T, g *gem, k *Ick) {
	g.add("a10 b20 c30", `[3,0]`)
	g.exchange(2, false, "", `[0,"a","10","b","20"]`)
	g.add("a40", `[1,0]`)
	token := wantReserve(t, k, 10, "a10 b20 c30") // with the later mark of a
	g.add("b50", `[1,0]`)
	wantCommit(t, k, token, "a b c", 3, 0)
	token = wantReserve(t, k, 10, "b50")
	wantCommit(t, k, token, "b", 1, 0)
	wantReserve(t, k, 10, "")
}

// goBack: the steps of docs/WIRE.md leave all marks to the gem, also parked and reserved ones.
func goBack(t *testing.T, g *gem, k *Ick) {
	wantAdd(t, k, "a10 b20 c30 d40", 4, 0)
	token := wantReserve(t, k, 3, "a10 b20 c30")
	n, err := k.park(t.Context(), token, ConsumeConfig{MaxAttempts: 1}, "why", []string{"a"})
	want(t, "park", n, 1, err)
	wantCommit(t, k, token, "b", 1, 0)
	n, err = k.Retry(t.Context(), "a")
	want(t, "retry", n, 1, err)
	if err := do(t, k.run.Client, "DEL", key(k.name, keyFolds)).Error(); err != nil {
		t.Fatal(err)
	}
	g.exchange(10, false, "", `[0,"a","10","c","30","d","40"]`)
	g.exchange(10, false, "a c d", `[3]`)
	// And to Millrace again, with the reservations of before.
	wantAdd(t, k, "c50", 1, 0)
	wantCommit(t, k, token, "c", 0, 0)
	wantCommit(t, k, wantReserve(t, k, 10, "c50"), "c", 1, 0)
}

// gemDeletes: the Ick of the same name begins anew, and tokens of before commit nothing.
func gemDeletes(t *testing.T, g *gem, k *Ick) {
	wantAdd(t, k, "a10 b20", 2, 0)
	token := wantReserve(t, k, 1, "a10")
	want(t, "ickdel", g.call("DEL"), "3", nil)
	g.add("a30", `[1,0]`)
	second := wantReserve(t, k, 1, "a30")
	wantCommit(t, k, token, "a", 0, 1)
	wantCommit(t, k, second, "a", 1, 0)
}
