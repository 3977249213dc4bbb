package commands

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/redistest"
)

var update = flag.Bool("update", false, "write redis62.json and redis70.json as the server on PATH, of version 7.0 or later, tells it")

// sentinelConfig makes a Sentinel that watches nothing: it is asked for the
// commands that only a Sentinel has.
const sentinelConfig = "sentinel resolve-hostnames no"

// wordsOnly are tokens of 6.2 that COMMAND DOCS takes for free text.
var wordsOnly = map[string][]string{
	"BITOP": {"AND", "NOT", "OR", "XOR"},
}

// proseOnly are tokens newer than 6.2 that COMMAND DOCS of 7.0 does not mark as
// such, but only mentions in a command's history.
var proseOnly = map[string][]string{
	"XGROUP CREATE":     {"ENTRIESREAD"},
	"XGROUP SETID":      {"ENTRIESREAD"},
	"GEORADIUS":         {"M", "KM", "FT", "MI"},
	"GEORADIUSBYMEMBER": {"M", "KM", "FT", "MI"},
	"GEOSEARCH":         {"M", "KM", "FT", "MI"},
	"GEOSEARCHSTORE":    {"M", "KM", "FT", "MI"},
}

// TestTable compares the embedded files with what a live server says. A server
// of the series that they were made from must say the same; a later one must
// agree that it has all of it, and 6.2 its part.
func TestTable(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	version := serverVersion(t, client)
	if compareVersions(t, version, "7.0.0") < 0 {
		t.Skipf("server %s has no COMMAND DOCS", version)
	}
	live, newer := readTables(t, client)
	sentinels, _ := readTables(t, sentinelClient(t))
	for name, c := range sentinels {
		if strings.HasPrefix(name, "SENTINEL ") {
			live[name] = c
		}
	}
	if *update {
		for file, all := range map[string]map[string]Command{"redis62.json": live, "redis70.json": newer} {
			if err := os.WriteFile(file, format(t, all), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	old, err := decode("redis62.json", redis62JSON)
	if err != nil {
		t.Fatal(err)
	}
	since, err := decode("redis70.json", redis70JSON)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(version, "7.0.") {
		if diff := cmp.Diff(live, old); diff != "" {
			t.Errorf("redis62.json is not what the server says (-server +file); run this test with -update:\n%s", diff)
		}
		if diff := cmp.Diff(newer, since); diff != "" {
			t.Errorf("redis70.json is not what the server says (-server +file); run this test with -update:\n%s", diff)
		}
		return
	}
	for name, c := range old {
		if _, ok := live[name]; !ok {
			t.Errorf("server %s does not say that 6.2 has %s", version, name)
		}
		for _, token := range c.Tokens {
			if !slices.Contains(live[name].Tokens, token) {
				t.Errorf("server %s does not say that 6.2 has %s of %s", version, token, name)
			}
		}
	}
	for name := range since {
		if _, ok := newer[name]; !ok {
			t.Errorf("server %s does not have %s", version, name)
		}
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
	for _, later := range []string{"LMPOP", "FUNCTION LOAD", "EVAL_RO", "SINTERCARD", "EXPIRETIME", "HEXPIRE"} {
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

func sentinelClient(t *testing.T) rueidis.Client {
	t.Helper()
	proc, err := redisproc.Start(t.Context(), redisproc.Config{Binary: redistest.Binary(t), Sentinel: sentinelConfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proc.Stop(); err != nil {
			t.Errorf("end of the Sentinel: %v", err)
		}
	})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{proc.Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func serverVersion(t *testing.T, client rueidis.Client) string {
	t.Helper()
	info, err := client.Do(t.Context(), client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "redis_version:")
	version, _, ok := strings.Cut(after, "\r\n")
	if !ok {
		t.Fatalf("INFO has no redis_version: %q", info)
	}
	return version
}

// reply is a map of a reply, with access that fails the test on another shape.
type reply map[string]rueidis.RedisMessage

func mapOf(t *testing.T, m rueidis.RedisMessage) reply {
	t.Helper()
	r, err := m.ToMap()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func arrayOf(t *testing.T, m rueidis.RedisMessage) []rueidis.RedisMessage {
	t.Helper()
	if !m.IsArray() {
		return nil
	}
	a, err := m.ToArray()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// text returns a text field, or "" if there is none.
func (r reply) text(name string) string {
	m := r[name]
	s, _ := m.ToString()
	return s
}

func (r reply) number(t *testing.T, name string) int {
	t.Helper()
	m, ok := r[name]
	if !ok {
		t.Fatalf("key specification without %s: %v", name, r)
	}
	n, err := m.AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// readTables asks a server for its commands: those of 6.2 without what came to
// them later, and of those that are newer themselves their keys.
func readTables(t *testing.T, client rueidis.Client) (old, newer map[string]Command) {
	t.Helper()
	all, err := client.Do(t.Context(), client.B().Arbitrary("COMMAND", "DOCS").Build()).ToMessage()
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]reply{}
	var collect func(m rueidis.RedisMessage)
	collect = func(m rueidis.RedisMessage) {
		for name, doc := range mapOf(t, m) {
			d := mapOf(t, doc)
			docs[commandName(name)] = d
			if subcommands, ok := d["subcommands"]; ok {
				collect(subcommands)
			}
		}
	}
	collect(all)

	infos, err := client.Do(t.Context(), client.B().Command().Build()).ToArray()
	if err != nil {
		t.Fatal(err)
	}
	old, newer = map[string]Command{}, map[string]Command{}
	var add func(info []rueidis.RedisMessage)
	add = func(info []rueidis.RedisMessage) {
		lower, err := info[0].ToString()
		if err != nil {
			t.Fatal(err)
		}
		arity, err := info[1].AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		name, subcommands := commandName(lower), arrayOf(t, info[9])
		doc, ok := docs[name]
		if !ok {
			return
		}
		for _, sub := range subcommands {
			add(arrayOf(t, sub))
		}
		if len(subcommands) > 0 && arity != -1 {
			return // it means nothing without a subcommand
		}
		keys := keySpecs(t, arrayOf(t, info[8]))
		if later(t, doc.text("since")) {
			newer[name] = Command{Keys: keys}
			return
		}
		old[name] = Command{
			Tokens: tokens(t, name, doc["arguments"]),
			Keys:   keys,
			Flags:  flags(t, arrayOf(t, info[2])),
		}
	}
	for _, info := range infos {
		add(arrayOf(t, info))
	}
	return old, newer
}

func commandName(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "|", " "))
}

// compareVersions compares versions like "6.2.0" as slices.Compare does.
func compareVersions(t *testing.T, a, b string) int {
	t.Helper()
	numbers := func(version string) []int {
		var all []int
		for part := range strings.SplitSeq(version, ".") {
			n, err := strconv.Atoi(part)
			if err != nil {
				t.Fatalf("version %q: %v", version, err)
			}
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b))
}

// later reports whether something is newer than Redis 6.2.0.
func later(t *testing.T, since string) bool {
	t.Helper()
	return compareVersions(t, since, "6.2.0") > 0
}

func tokens(t *testing.T, name string, arguments rueidis.RedisMessage) []string {
	t.Helper()
	var found []string
	var walk func(m rueidis.RedisMessage)
	walk = func(m rueidis.RedisMessage) {
		for _, argument := range arrayOf(t, m) {
			a := mapOf(t, argument)
			if since := a.text("since"); since != "" && later(t, since) {
				continue
			}
			if token := strings.ToUpper(a.text("token")); token != "" && !slices.Contains(proseOnly[name], token) {
				found = append(found, token)
			}
			walk(a["arguments"])
		}
	}
	walk(arguments)
	found = append(found, wordsOnly[name]...)
	slices.Sort(found)
	return slices.Compact(found)
}

func flags(t *testing.T, all []rueidis.RedisMessage) []string {
	t.Helper()
	var kept []string
	for _, m := range all {
		flag, err := m.ToString()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]string{"write", "denyoom", "noscript"}, flag) {
			kept = append(kept, flag)
		}
	}
	slices.Sort(kept)
	return kept
}

func keySpecs(t *testing.T, all []rueidis.RedisMessage) []KeySpec {
	t.Helper()
	var specs []KeySpec
	for _, m := range all {
		if slices.ContainsFunc(arrayOf(t, mapOf(t, m)["flags"]), isNotKey) {
			continue
		}
		begin := mapOf(t, mapOf(t, m)["begin_search"])
		find := mapOf(t, mapOf(t, m)["find_keys"])
		where, how := mapOf(t, begin["spec"]), mapOf(t, find["spec"])

		var spec KeySpec
		switch kind := begin.text("type"); kind {
		case "index":
			spec.First = where.number(t, "index")
		case "keyword":
			spec.After, spec.First = where.text("keyword"), where.number(t, "startfrom")
		case "unknown":
			spec.Elsewhere = true
		default:
			t.Fatalf("begin_search of type %q", kind)
		}
		switch kind := find.text("type"); kind {
		case "range":
			spec.Last, spec.Step = how.number(t, "lastkey"), how.number(t, "keystep")
			if limit := how.number(t, "limit"); limit > 1 {
				spec.Share = limit
			}
		case "keynum":
			spec.Counted, spec.Step = true, how.number(t, "keystep")
			if how.number(t, "keynumidx") != 0 || how.number(t, "firstkey") != 1 {
				t.Fatalf("keys that do not follow their number: %v", how)
			}
		case "unknown":
			spec.Elsewhere = true
		default:
			t.Fatalf("find_keys of type %q", kind)
		}
		if spec.Elsewhere || spec.First < 0 {
			spec = KeySpec{Elsewhere: true}
		}
		if !slices.Contains(specs, spec) {
			specs = append(specs, spec)
		}
	}
	return specs
}

// isNotKey reports whether a flag says that what the specification finds is no
// key. It is a channel.
func isNotKey(flag rueidis.RedisMessage) bool {
	s, _ := flag.ToString()
	return s == "not_key"
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
