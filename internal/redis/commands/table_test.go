package commands

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

var update = flag.Bool("update", false, "add to newer.json what the server has, and write redis62.json as a server of version 7.0 tells it")

// TestTable compares the embedded files with a live server's own descriptions. The server
// must have all of redis62.json, and agree with the commands of newer.json that it has. A
// server without commands newer than 7.0, as the one that redis62.json was made from, must
// give the same file.
func TestTable(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	if refusal, ok := rueidis.IsRedisErr(client.Do(t.Context(), client.B().Arbitrary("COMMAND", "DOCS", "GET").Build()).Error()); ok {
		t.Skipf("this server has no COMMAND DOCS: %v", refusal)
	}
	live := readTables(t, client)
	for name, c := range readTables(t, sentinelClient(t)).old {
		if strings.HasPrefix(name, "SENTINEL ") {
			live.old[name] = c
		}
	}
	same := compareVersions(t, live.newest, "7.1.0") < 0
	old, err := decode("redis62.json", redis62JSON)
	if err != nil {
		t.Fatal(err)
	}
	newer, err := decode("newer.json", newerJSON)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		maps.Copy(newer, live.newer)
		write(t, "newer.json", newer)
		if same {
			write(t, "redis62.json", live.old)
		}
		return
	}
	if diff := cmp.Diff(live.old, old); same && diff != "" {
		t.Errorf("redis62.json is not what the server says (-server +file); run this test with -update:\n%s", diff)
	}
	for name, c := range old {
		said, ok := live.old[name]
		if !ok {
			t.Errorf("the server does not say that 6.2 has %s", name)
		}
		for _, token := range c.Tokens {
			if !slices.Contains(said.Tokens, token) {
				t.Errorf("the server does not say that 6.2 has %s of %s", token, name)
			}
		}
		if diff := cmp.Diff(said.Keys, c.Keys); diff != "" {
			t.Errorf("keys of %s (-server +redis62.json):\n%s", name, diff)
		}
	}
	for name, said := range live.newer {
		if c, ok := newer[name]; ok {
			if diff := cmp.Diff(said.Keys, c.Keys); diff != "" {
				t.Errorf("keys of %s (-server +newer.json):\n%s", name, diff)
			}
		}
	}
}

// TestNothingIsLacking: the table knows all commands of the server. Those of modules
// that are loaded apart, which have a dot in their names, do not count, and neither do
// those that 7.0 no longer lists: STRALGO, and words of HTTP that end a connection.
func TestNothingIsLacking(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	var lacking []string
	for _, name := range commandsOf(t, client) {
		known := everything().Find(strings.Fields(name)) != nil || everything().HasSubcommands(name)
		if !known && !strings.Contains(name, ".") && !slices.Contains([]string{"HOST:", "POST", "STRALGO"}, name) {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		t.Errorf("the table lacks %d commands of this server: %s; run TestTable with -update", len(lacking), strings.Join(lacking, ", "))
	}
}

// TestTableKnows looks at entries that were looked up by hand.
func TestTableKnows(t *testing.T) {
	t.Parallel()
	table, err := Redis62()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		has  []string
		not  []string
	}{
		{"ZADD", []string{"CH", "GT", "INCR", "LT", "NX", "XX"}, nil},
		{"SET", []string{"EXAT", "GET", "KEEPTTL"}, nil},
		{"XADD", []string{"LIMIT", "MINID", "NOMKSTREAM"}, nil},
		{"EXPIRE", nil, []string{"NX", "GT"}},
		{"XGROUP CREATE", []string{"MKSTREAM"}, []string{"ENTRIESREAD"}},
		{"BITCOUNT", nil, []string{"BYTE", "BIT"}},
	} {
		c := table.Find(strings.Fields(tc.name))
		if c == nil {
			t.Errorf("no %s in the table", tc.name)
			continue
		}
		for _, token := range tc.has {
			if !slices.Contains(c.Tokens, token) {
				t.Errorf("tokens of %s = %v, without %s", tc.name, c.Tokens, token)
			}
		}
		for _, token := range tc.not {
			if slices.Contains(c.Tokens, token) {
				t.Errorf("tokens of %s = %v, with %s, which came later", tc.name, c.Tokens, token)
			}
		}
	}
	for _, later := range []string{
		"LMPOP", "FUNCTION LOAD", "EVAL_RO", "SINTERCARD", "EXPIRETIME", "HEXPIRE", "HGETDEL", "WAITAOF", "VADD", "XACKDEL", "XDELEX", "DELEX", "DIGEST", "MSETEX", "XCFGSET",
		"XNACK", "INCREX", "ARSET", "LMOVEM", "SUNIONCARD", "HIMPORT SET", "DELIFEQ", "CLUSTERSCAN", "COMMANDLOG GET", "CLUSTER MIGRATESLOTS",
	} {
		if c := table.Find(strings.Fields(later)); c != nil {
			t.Errorf("%s is in the table of 6.2", later)
		}
		if c := everything().Find(strings.Fields(later)); c == nil {
			t.Errorf("%s is not in the table of everything", later)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	table, err := Redis62()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ words, want string }{
		{"GET k", "GET"},
		{"get", "GET"},
		{"xGroup creaTe k", "XGROUP CREATE"},
		{"COMMAND", "COMMAND"},
		{"COMMAND COUNT", "COMMAND COUNT"},
		{"COMMAND DOCS", ""}, // of 7.0
		{"XGROUP", ""},
		{"XGROUP NEW k", ""},
		{"FUNCTION LOAD", ""},
		{"GETT k", ""},
		{"", ""},
		{strings.Repeat("G", longestWord+1), ""},
	} {
		var got string
		if c := table.Find(strings.Fields(tc.words)); c != nil {
			got = c.Name
		}
		if got != tc.want {
			t.Errorf("Find(%q) = %q, want %q", tc.words, got, tc.want)
		}
	}
	for name, want := range map[string]bool{"XGROUP": true, "xgroup": true, "COMMAND": true, "GET": false, "FUNCTION": false, "": false} {
		if got := table.HasSubcommands(name); got != want {
			t.Errorf("HasSubcommands(%q) = %v, want %v", name, got, want)
		}
	}
}

// TestWordsFit sees that no word of a name is longer than Find looks at.
func TestWordsFit(t *testing.T) {
	t.Parallel()
	for first, e := range everything().entries {
		for second := range e.subcommands {
			if len(second) > longestWord {
				t.Errorf("%s is longer than longestWord", second)
			}
		}
		if len(first) > longestWord {
			t.Errorf("%s is longer than longestWord", first)
		}
	}
}

// write writes an embedded file anew.
func write(t *testing.T, file string, all map[string]Command) {
	t.Helper()
	if err := os.WriteFile(file, format(t, all), 0o644); err != nil {
		t.Fatal(err)
	}
}

// format writes a table with one command a line.
func format(t *testing.T, all map[string]Command) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(all)) {
		line, err := json.Marshal(all[name])
		if err != nil {
			t.Fatal(err)
		}
		separator := ",\n"
		if i == 0 {
			separator = "{\n"
		}
		fmt.Fprintf(&out, "%s%q:%s", separator, name, line)
	}
	out.WriteString("\n}\n")
	return out.Bytes()
}
