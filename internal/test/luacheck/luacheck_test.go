package luacheck

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redis/script"
)

const goodHeader = `-- demo.do(K) member -> number
--
-- Does what the test is about.
--
-- KEYS[1]  K
-- ARGV[1]  member
-- Reply    a number
-- Cost     O(1)
-- Repeat   harmless
-- Touches  K, a, b, s:*
`

// check returns the problems of a library of these files.
func check(files map[string]string) []Problem {
	folder := fstest.MapFS{}
	for name, source := range files {
		folder[name] = &fstest.MapFile{Data: []byte(source)}
	}
	return Check(script.Load(folder, "K:"))
}

// lines returns the problems as "line: message".
func lines(problems []Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, fmt.Sprintf("%d: %s", p.Line, p.Message))
	}
	return all
}

func TestHeader(t *testing.T) {
	t.Parallel()
	with := func(old, new string) string {
		if !strings.Contains(goodHeader, old) {
			t.Fatalf("the good header has no %q", old)
		}
		return strings.Replace(goodHeader, old, new, 1)
	}
	for _, tc := range []struct {
		name   string
		source string
		want   []string
	}{
		{"good", goodHeader, nil},
		{"call form over two lines", with(" -> number", "\n--      -> number"), nil},
		{"continuation", with("O(1)", "O(1), or more,\n--          or less"), nil},
		{"two paragraphs", with("about.\n", "about.\n--\n-- And Cost is a word here.\n"), nil},
		{
			"no reply in the call form", with(" -> number", ""),
			[]string{"1: the first line is not of the form: -- package.script args -> reply"},
		},
		{
			"another script's header", with("demo.do(", "demo.undo("),
			[]string{"1: the first line says demo.undo, but the file is do.lua"},
		},
		{
			"no prose", with("-- Does what the test is about.\n", ""),
			[]string{"4: the header has no paragraph that says what the file does, in front of the labelled lines"},
		},
		{
			"only prose", "-- demo.do(K) -> 1\n--\n-- Prose.\n",
			[]string{
				"1: the header has no line for KEYS", "1: the header has no line for ARGV",
				"1: the header has no line for Reply", "1: the header has no line for Cost",
				"1: the header has no line for Repeat",
			},
		},
		{
			"a write in what only reads", strings.Replace(goodHeader, "harmless\n", "harmless: it only reads\n", 1) + "redis.call('GET', K)\nreturn redis.call('DEL', K)\n",
			[]string{"12: DEL writes, and the header says that the script only reads"},
		},
		{"no KEYS", with("-- KEYS[1]  K\n", ""), []string{"1: the header has no line for KEYS"}},
		{"no Repeat", with("-- Repeat   harmless\n", ""), []string{"1: the header has no line for Repeat"}},
		{"a label without text", with("-- Cost     O(1)", "-- Cost"), []string{"8: Cost says nothing"}},
		{
			"a fragment's label", with("-- Cost ", "-- Gives    x\n-- Cost "),
			[]string{"8: Gives is not a label for this kind of file: those are KEYS, ARGV, Reply, Cost, Repeat"},
		},
		{
			"a continuation without indent", with("O(1)", "O(1), or more,\n-- or less"),
			[]string{"9: this header line is neither a label nor the indented continuation of one"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, lines(check(map[string]string{"do.lua": tc.source}))); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBody checks the code below the good header; lines count from its end.
func TestBody(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		body string
		want []string
	}{
		// Syntax.
		{"syntax error", "local x =\nreturn ) x", []string{`2: syntax error near "return"`}},
		{"syntax error at the end", "if true then\n\n", []string{"2: syntax error near the end of the file"}},
		{"goto", "goto done\n::done::\n", []string{
			"1: goto is not in Lua 5.1, which Redis runs", "2: goto is not in Lua 5.1, which Redis runs",
		}},

		// Names.
		{"globals that are there", "return {tostring(#ARGV), unpack(ARGV), math.floor(1.5), cjson.encode({}), string.rep('a', 2), table.concat({})}", nil},
		{"a misspelt local", "local total = 1\n\nreturn totl + total", []string{
			"3: totl is neither a local nor a global that scripts may use",
		}},
		{"globals of other places", "return {os.time(), loadstring('x'), cmsgpack, struct, bit, io, print}", []string{
			"1: os is neither a local nor a global that scripts may use",
			"1: loadstring is neither a local nor a global that scripts may use",
			"1: cmsgpack is neither a local nor a global that scripts may use",
			"1: struct is neither a local nor a global that scripts may use",
			"1: bit is neither a local nor a global that scripts may use",
			"1: io is neither a local nor a global that scripts may use",
			"1: print is neither a local nor a global that scripts may use",
		}},
		{"a local out of its block", "if ARGV[1] then\n  local x = 1\n  x = x + 1\nend\nreturn x", []string{
			"5: x is neither a local nor a global that scripts may use",
		}},
		{"a local before itself", "local x = x\nreturn x", []string{
			"1: x is neither a local nor a global that scripts may use",
		}},
		{"members of libraries", "redis.set_repl(1)\nreturn cjson.null, table.unpack({}), string.pack('i', 1)", []string{
			"1: redis.set_repl is not in every Lua that runs scripts",
			"2: cjson.null is not in every Lua that runs scripts",
			"2: table.unpack is not in every Lua that runs scripts",
			"2: string.pack is not in every Lua that runs scripts",
		}},
		{"assigned globals", "x = 1\nlocal y\ny, z = 1, 2\nfunction f() end\nreturn y", []string{
			"1: x is assigned, but is not a local", "3: z is assigned, but is not a local",
			"4: f is assigned, but is not a local",
		}},
		{"an assigned global function", "f = function() end", []string{"1: f is assigned, but is not a local"}},
		{"locals of every kind", `
local a, b = 1, 2
local function sum(n, ...)
  if n == 0 then return 0 end
  return sum(n - 1, ...)
end
for i = 1, 3 do a = a + i end
for k, v in pairs(ARGV) do b = {[k] = v, key = v} end
while a > 1 do local c = a; a = c - 1 end
repeat local d = a; a = a - 1 until d < 0
do local e = -a; a = not e end
local t = {}
function t.f(x) return x end
t.g, t[1] = function() return #t end, b
function t:h() return self end
local later, last
later = function() return last() end
function last() return later() end
return ('x'):rep(a), t, sum(1), (function(...) return ... end)(last())`, nil},
		{"redis as a value", "local r = redis\nr.call('PING')\nlocal call = redis.call\ncall('PING')\npcall(redis.pcall, 'PING')\nreturn redis[ARGV[1]]", []string{
			"1: redis may only be used as redis.call(...) and the like, or its calls cannot be checked",
			"3: redis.call may only be called, or its calls cannot be checked",
			"5: redis.pcall may only be called, or its calls cannot be checked",
			"6: redis may only be used as redis.call(...) and the like, or its calls cannot be checked",
		}},

		// Commands.
		{"commands of 6.2", "redis.call('PING')\nredis.pcall('zadd', KEYS[1], 'GT', 'CH', 1, ARGV[1])\nreturn redis.call('XGROUP', 'CREATE', KEYS[1], 'g', '0', 'MKSTREAM')", nil},
		{"a command of 7.0", "\nreturn redis.call('ZINTERCARD', 1, KEYS[1])", []string{
			"2: ZINTERCARD is not a command of Redis 6.2",
		}},
		{"a subcommand of 7.0", "return redis.call('XINFO', 'HELPER', KEYS[1])", []string{
			"1: XINFO HELPER is not a command of Redis 6.2",
		}},
		{"a name that is not a literal", "redis.call(ARGV[1], KEYS[1])\nredis.call('XGROUP', ARGV[1])\nredis.call(unpack(ARGV))\nredis.call()", []string{
			"1: the command's name is not a string literal",
			"2: the subcommand of XGROUP is not a string literal",
			"3: the command's name is not a string literal",
			"4: the command's name is not a string literal",
		}},
		{"a command that scripts may not call", "return redis.pcall('BLPOP', KEYS[1], 0)", []string{
			"1: BLPOP may not be called from a script",
		}},
		{"a command that ruins a server of 6.2", "return redis.call('INCRBYFLOAT', KEYS[1], ARGV[1])", []string{
			"1: INCRBYFLOAT in a script ruins the memory of a Redis 6.2 that was built without jemalloc; HINCRBYFLOAT does not",
		}},
		{"options of 7.0", "redis.call('EXPIRE', KEYS[1], 10,\n  'GT')\nredis.call('XGROUP', 'CREATE', KEYS[1], 'g', '$', 'ENTRIESREAD', 0)", []string{
			"2: GT is not an option of EXPIRE in Redis 6.2 (a literal that is a value is not in upper case)",
			"3: ENTRIESREAD is not an option of XGROUP CREATE in Redis 6.2 (a literal that is a value is not in upper case)",
		}},
		{"uses of 7.0", `
redis.call('XADD', KEYS[1], ARGV[1] .. '-*', 'field', 'value')
redis.call('SET', KEYS[1], 'value', 'NX', 'GET')
redis.call('INFO', 'server', 'memory')`, []string{
			"2: XADD takes ids like 5-* only since Redis 7.0",
			"3: SET takes NX and GET together only since Redis 7.0",
			"4: INFO takes at most one section in Redis 6.2",
		}},
		{"the same uses in 6.2", `
redis.call('XADD', KEYS[1], '*', 'field', 'value')
redis.call('SET', KEYS[1], 'value', 'XX', 'GET')
redis.call('INFO', 'server')`, nil},

		// Keys.
		{"other KEYS", "redis.call('GET', KEYS[2])\nredis.call('GET', KEYS[ARGV[1]])\nreturn #KEYS", []string{
			"1: of KEYS only KEYS[1] may be read: the script derives all other keys from it",
			"2: of KEYS only KEYS[1] may be read: the script derives all other keys from it",
			"3: of KEYS only KEYS[1] may be read: the script derives all other keys from it",
		}},
		{"keys that are there", `
local a, b = prefix .. 'a', KEYS[1]
b = b .. ':b'
redis.call('RENAME', K, a)
redis.call('DEL', K, a, K .. ':' .. 'b')
redis.call('SMOVE', ARGV[1] and a or K, a, ARGV[1])`, nil},
		{"keys that no header names", "local c = KEYS[1] .. ':c'\nredis.call('SET', prefix .. 'd', c)\nredis.call('GET', K .. ':' .. 'e')", []string{
			`1: key "BASE:c" is not one that the headers name`,
			`2: key "BASE:d" is not one that the headers name`,
			`3: key "BASE:e" is not one that the headers name`,
		}},
		{"keys from elsewhere", "redis.call('GET', 'fixed')\nredis.call('GET', ARGV[1])\nredis.call('DEL', KEYS[1], ARGV[1])\nredis.call('GET', ARGV[1] .. KEYS[1])", []string{
			`1: key "fixed" of GET is not built from KEYS[1]`,
			`2: key "*" of GET is not built from KEYS[1]`,
			`3: key "*" of DEL is not built from KEYS[1]`,
			`4: key "*BASE" of GET is not built from KEYS[1]`,
		}},
		{"keys with a star", "for i = 1, 3 do\n  redis.call('XLEN', KEYS[1] .. ':s:' .. i)\n  redis.call('XLEN', KEYS[1] .. ':t:' .. i)\nend", []string{
			`3: key "BASE:t:*" is not one that the headers name`,
		}},
		{"numbers in keys", "return redis.call('GET', KEYS[1] .. ':s:' .. 7)", []string{
			`1: key "BASE:s:7" is not one that the headers name`,
		}},
		{"wrong keys behind a word", "redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', KEYS[1], ARGV[1], '>', '>')", []string{
			`1: key "*" of XREADGROUP is not built from KEYS[1]`,
		}},
		{"an optional word", "redis.call('GEORADIUS', KEYS[1], 0, 0, 1, 'm')\nredis.call('GEORADIUS', KEYS[1], 0, 0, 1, 'm', 'STORE', 'fixed')", []string{
			`2: key "fixed" of GEORADIUS is not built from KEYS[1]`,
		}},
		{"counted keys", "redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[1] .. ':a', KEYS[1] .. ':b', 'WEIGHTS', 1, 2)", nil},
		{"wrong counted keys", "redis.call('ZUNIONSTORE', 'd', 2, KEYS[1], 'x', 'WEIGHTS', 1, 2)", []string{
			`1: key "d" of ZUNIONSTORE is not built from KEYS[1]`,
			`1: key "x" of ZUNIONSTORE is not built from KEYS[1]`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			problems := check(map[string]string{"do.lua": goodHeader + tc.body})
			for i := range problems {
				problems[i].Line -= strings.Count(goodHeader, "\n")
			}
			if diff := cmp.Diff(tc.want, lines(problems)); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

const (
	openFragment = `-- fragment open
--
-- Prose.
--
-- Needs  nothing
-- Gives  a: a key
local a = K .. ':a'
`
	sizeFragment = `-- fragment size
--
-- Prose.
--
-- Needs  open
-- Gives  size(key)
local function size(key)
  return redis.call('ZCARD', key) + redis.call('ZCARD', a)
end
`
)

func TestFragments(t *testing.T) {
	t.Parallel()
	needs := func(fragment string) string {
		return strings.TrimSuffix(goodHeader, "\n") + "\n-- Needs    " + fragment + "\n"
	}
	for _, tc := range []struct {
		name       string
		source     string
		open, size string
		want       []string // with their files
	}{
		{"one that needs another", needs("size") + "return size(K) + redis.call('ZCARD', a)", openFragment, sizeFragment, nil},
		{"what the script has no use for", needs("size") + "return 1", openFragment, sizeFragment, nil},
		{
			"a script that passes a wrong key", needs("size") + "return size(K .. ':c')", openFragment, sizeFragment,
			[]string{`do.lua:12: key "BASE:c" is not one that the headers name`},
		},
		{
			"one without what it needs", needs("size") + "return size(K)", openFragment, strings.Replace(sizeFragment, "Needs  open", "Needs  nothing", 1),
			[]string{"size.lua:8: a is neither a local nor a global that scripts may use, in front of demo.do"},
		},
		{
			"a script that does not name it", goodHeader + "return size(K)", openFragment, sizeFragment,
			[]string{"do.lua:11: size is neither a local nor a global that scripts may use"},
		},
		{
			"one with a wrong key", needs("open") + "return a", strings.Replace(openFragment, "a = K", "a = redis.call('GET', ARGV[1]) or K", 1), sizeFragment,
			[]string{`open.lua:7: key "*" of GET is not built from KEYS[1], in front of demo.do`},
		},
		{
			"a syntax error", needs("open"), openFragment + "local\n= 1\n", sizeFragment,
			[]string{`open.lua:9: syntax error near "=", in front of demo.do`},
		},
		{
			"another one's header", needs("shut") + "return a", strings.Replace(openFragment, "fragment open", "fragment shut", 1), openFragment,
			[]string{"open.lua:1: the first line says shut, but the file is open.lua"},
		},
		{
			"one without labels", needs("open"), "-- fragment open\n--\n-- Prose.\n", sizeFragment,
			[]string{"open.lua:1: the header has no line for Needs", "open.lua:1: the header has no line for Gives"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range check(map[string]string{"do.lua": tc.source, "open.lua": tc.open, "size.lua": tc.size}) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnyKey: a script may say that it also touches keys that its callers name; those
// built from the base key are looked at all the same.
func TestAnyKey(t *testing.T) {
	t.Parallel()
	source := strings.Replace(goodHeader, "s:*", "any key", 1) + "redis.call('GET', ARGV[1])\nredis.call('GET', K .. ':c')"
	want := []string{`12: key "BASE:c" is not one that the headers name`}
	if diff := cmp.Diff(want, lines(check(map[string]string{"do.lua": source}))); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
}

// TestEachProblemOnce: a problem of a fragment is reported once, however many scripts need
// it.
func TestEachProblemOnce(t *testing.T) {
	t.Parallel()
	source := strings.TrimSuffix(goodHeader, "\n") + "\n-- Needs    open\nreturn a"
	got := lines(check(map[string]string{
		"do.lua": source, "undo.lua": strings.Replace(source, "demo.do(", "demo.undo(", 1), "open.lua": strings.Replace(openFragment, "-- Needs  nothing\n-- Gives  a: a key\n", "", 1),
	}))
	if diff := cmp.Diff([]string{"1: the header has no line for Needs", "1: the header has no line for Gives"}, got); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
}

func TestProblemString(t *testing.T) {
	t.Parallel()
	p := Problem{File: "demo/do.lua", Line: 3, Message: "wrong"}
	if got, want := p.String(), "demo/do.lua:3: wrong"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}
