package commands

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

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

// commandsOf returns the names of a server's commands. One that means nothing without a
// subcommand is none.
func commandsOf(t *testing.T, client rueidis.Client) (names []string) {
	t.Helper()
	infos, err := client.Do(t.Context(), client.B().Command().Build()).ToArray()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range infos {
		eachCommand(t, arrayOf(t, m), func(name string, _ []rueidis.RedisMessage) { names = append(names, name) })
	}
	slices.Sort(names)
	return names
}

// eachCommand calls do with the name of a command, and the server's description of it, and the
// same for its subcommands.
func eachCommand(t *testing.T, info []rueidis.RedisMessage, do func(name string, info []rueidis.RedisMessage)) {
	t.Helper()
	lower, err := info[0].ToString()
	if err != nil {
		t.Fatal(err)
	}
	arity, err := info[1].AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	var subcommands []rueidis.RedisMessage
	if len(info) > 9 { // from 7.0 on
		subcommands = arrayOf(t, info[9])
	}
	for _, sub := range subcommands {
		eachCommand(t, arrayOf(t, sub), do)
	}
	if len(subcommands) == 0 || arity == -1 {
		do(commandName(lower), info)
	}
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

// tables are a server's descriptions of its commands.
type tables struct {
	old    map[string]Command // of 6.2, without later options
	newer  map[string]Command // their keys
	newest string             // the version of Redis or Valkey with which the last ones came
}

func readTables(t *testing.T, client rueidis.Client) tables {
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
	read := tables{old: map[string]Command{}, newer: map[string]Command{}, newest: "0"}
	add := func(name string, info []rueidis.RedisMessage) {
		doc, ok := docs[name]
		if !ok {
			return
		}
		keys, since := keySpecs(t, arrayOf(t, info[8])), doc.text("since")
		if since == "" { // a module's
			read.newer[name] = Command{Keys: keys}
			return
		}
		if compareVersions(t, since, read.newest) > 0 {
			read.newest = since
		}
		if later(t, since) {
			read.newer[name] = Command{Keys: keys}
			return
		}
		read.old[name] = Command{
			Tokens: tokens(t, name, doc["arguments"]),
			Keys:   keys,
			Flags:  flags(t, arrayOf(t, info[2])),
		}
	}
	for _, m := range infos {
		eachCommand(t, arrayOf(t, m), add)
	}
	return read
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

// isNotKey reports whether a flag says that the specification finds a channel and not a
// key.
func isNotKey(flag rueidis.RedisMessage) bool {
	s, _ := flag.ToString()
	return s == "not_key"
}
