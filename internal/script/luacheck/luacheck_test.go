package luacheck

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/script"
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

// check returns what is wrong with a library of these files.
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
		{"globals of other places", "return {os.time(), loadstring('x'), cmsgpack, struct, bit, io, print, _G}", []string{
			"1: os is neither a local nor a global that scripts may use",
			"1: loadstring is neither a local nor a global that scripts may use",
			"1: cmsgpack is neither a local nor a global that scripts may use",
			"1: struct is neither a local nor a global that scripts may use",
			"1: bit is neither a local nor a global that scripts may use",
			"1: io is neither a local nor a global that scripts may use",
			"1: print is neither a local nor a global that scripts may use",
			"1: _G is neither a local nor a global that scripts may use",
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
		{"unused locals", "local x, _ = 1, 2\nlocal function f() end\nif ARGV[1] then\n  local y = 1\n  y = 2\nend", []string{
			"1: local x is never read; a value that is not wanted goes to _",
			"2: local f is never read; a value that is not wanted goes to _",
			"4: local y is never read; a value that is not wanted goes to _",
		}},
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
local id = ARGV[1] .. '-*'
redis.call('XADD', KEYS[1], id, 'field', 'value')
redis.call('SET', KEYS[1], 'value', 'NX', 'GET')
redis.call('INFO', 'server', 'memory')`, []string{
			"3: XADD takes ids like 5-* only since Redis 7.0",
			"4: SET takes NX and GET together only since Redis 7.0",
			"5: INFO takes at most one section in Redis 6.2",
		}},
		{"the same uses in 6.2", `
redis.call('XADD', KEYS[1], '*', 'field', 'value')
redis.call('SET', KEYS[1], 'value', 'XX', 'GET')
redis.call('INFO', 'server')`, nil},

		// Keys.
		{"other KEYS", "redis.call('GET', KEYS[2])\nredis.call('GET', KEYS[ARGV[1]])\nreturn #KEYS", []string{
			"1: of KEYS only KEYS[1] may be read: the script derives all other keys from it",
			"1: this key of GET cannot be followed to KEYS[1] and literals",
			"2: of KEYS only KEYS[1] may be read: the script derives all other keys from it",
			"2: this key of GET cannot be followed to KEYS[1] and literals",
			"3: of KEYS only KEYS[1] may be read: the script derives all other keys from it",
		}},
		{"keys that are there", `
local K = KEYS[1]
local a, b = K .. ':a', K
b = b .. ':b'
redis.call('RENAME', K, a)
redis.call('DEL', K, a, K .. ':' .. 'b')
if ARGV[1] then b = a else b = K .. ':b' end
redis.call('SMOVE', ARGV[1] and a or K, a, ARGV[1])`, nil},
		{"a key that grows in itself", "local b = KEYS[1]\nb = b .. ':b'\nredis.call('GET', b)", []string{
			`3: key "*:b" of GET cannot be followed to KEYS[1] and literals`,
		}},
		{"a key that the Go side has not", "local c = KEYS[1] .. ':c'\nredis.call('SET', KEYS[1], c)\nredis.call('GET', c)", []string{
			`3: key "BASE:c" of GET is not one that the headers name`,
		}},
		{"one of several keys", "local k = KEYS[1]\nif ARGV[1] then\n  k = KEYS[1] .. ':c'\nend\nredis.call('DEL', KEYS[1], k)", []string{
			`5: key "BASE:c" of DEL is not one that the headers name`,
		}},
		{"keys from elsewhere", "redis.call('GET', 'fixed')\nredis.call('GET', ARGV[1])\nredis.call('DEL', KEYS[1], unpack(ARGV))\nlocal t = {KEYS[1]}\nredis.call('GET', t[1])\nredis.call('GET', ARGV[1] .. KEYS[1])", []string{
			`1: key "fixed" of GET is not built from KEYS[1]`,
			"2: this key of GET cannot be followed to KEYS[1] and literals",
			"3: this key of DEL cannot be followed to KEYS[1] and literals",
			"5: this key of GET cannot be followed to KEYS[1] and literals",
			`6: key "*BASE" of GET cannot be followed to KEYS[1] and literals`,
		}},
		{"keys with a star", "for i = 1, 3 do\n  redis.call('XLEN', KEYS[1] .. ':s:' .. i)\n  redis.call('XLEN', KEYS[1] .. ':t:' .. i)\nend", []string{
			`3: key "BASE:t:*" of XLEN is not one that the headers name`,
		}},
		{"keys through functions", `
local K = KEYS[1]
local function key(part)
  return K .. ':' .. part
end
local function size(key)
  return redis.call('ZCARD', key)
end
local both = size(key('a')) + size(key('b')) + size(key('c'))
return redis.call('GET', K) + both`, []string{
			`7: key "BASE:c" of ZCARD is not one that the headers name`,
		}},
		{"keys through a function that gets away", `
local function size(key)
  return redis.call('ZCARD', key)
end
size(KEYS[1])
return size`, []string{"3: this key of ZCARD cannot be followed to KEYS[1] and literals"}},
		{"keys that calls leave open", `
local k = KEYS[1]
local function some()
  if ARGV[1] then return end
  return k
end
local function size(_, key)
  return redis.call('ZCARD', key)
end
size(1, some())
size(unpack(ARGV))
return redis.call('GET', k())`, []string{
			"8: this key of ZCARD cannot be followed to KEYS[1] and literals",
			"12: this key of GET cannot be followed to KEYS[1] and literals",
		}},
		{"keys out of varargs", `
local function del(...)
  return redis.call('DEL', KEYS[1], ...)
end
return del(KEYS[1])`, []string{"3: this key of DEL cannot be followed to KEYS[1] and literals"}},
		{"numbers in keys", "return redis.call('GET', KEYS[1] .. ':s:' .. 7) + redis.call('GET', KEYS[1] .. ':s:' .. 1e3)", []string{
			`1: key "BASE:s:7" of GET is not one that the headers name`,
		}},
		{"too many keys to list", `
local function bit() return ARGV[1] and '0' or '1' end
return redis.call('GET', KEYS[1] .. bit() .. bit() .. bit() .. bit() .. bit() .. bit() .. bit() .. bit())`, []string{
			`3: key "BASE*" of GET is not one that the headers name`,
		}},
		{"keys through functions with several results", `
local function both()
  return KEYS[1], KEYS[1] .. ':a'
end
local k, l = both()
redis.call('DEL', k, l)`, []string{
			"6: this key of DEL cannot be followed to KEYS[1] and literals",
		}},
		{"keys of a recursion", `
local function walk(key, n)
  redis.call('GET', key)
  if n > 0 then walk(key .. ':x', n - 1) end
end
walk(KEYS[1], 3)`, []string{
			`3: key "*:x" of GET cannot be followed to KEYS[1] and literals`,
		}},

		// Where keys are.
		{"keys behind a word", "redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'COUNT', 1, 'STREAMS', KEYS[1], KEYS[1] .. ':a', '>', '>')", nil},
		{"wrong keys behind a word", "redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', KEYS[1], ARGV[1], '>', '>')", []string{
			"1: this key of XREADGROUP cannot be followed to KEYS[1] and literals",
		}},
		{"the word is not there", "redis.call('XREAD', ARGV[1], KEYS[1], '0')", []string{
			"1: XREAD: STREAMS must be a string literal among the arguments, and all arguments be written out",
		}},
		{"keys in front of an open end", "redis.call('XREAD', 'STREAMS', KEYS[1], unpack(ARGV))", []string{
			"1: XREAD: its keys are counted from the end, so all arguments must be written out; a call as the last one stands in brackets",
		}},
		{"a list of keys and ids", "local list = {}\nlist[1], list[2] = KEYS[1] .. ':a', '>'\nredis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', unpack(list))", nil},
		{"a list of wrong keys and ids", "local list = {}\nlist[1], list[2] = ARGV[1], '>'\nredis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', unpack(list))", []string{
			"3: this key of XREADGROUP cannot be followed to KEYS[1] and literals",
		}},
		{"a list out of nothing", "redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', unpack(ARGV))", []string{
			"1: this key of XREADGROUP cannot be followed to KEYS[1] and literals",
		}},
		{"a call in brackets", "redis.call('XREAD', 'STREAMS', KEYS[1], (tostring(0)))", nil},
		{"an optional word", "redis.call('GEORADIUS', KEYS[1], 0, 0, 1, 'm')\nredis.call('GEORADIUS', KEYS[1], 0, 0, 1, 'm', 'STORE', 'fixed')", []string{
			`2: key "fixed" of GEORADIUS is not built from KEYS[1]`,
		}},
		{"counted keys", "redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[1] .. ':a', KEYS[1] .. ':b', 'WEIGHTS', 1, 2)", nil},
		{"wrong counted keys", "redis.call('ZUNIONSTORE', 'd', 2, KEYS[1], 'x', 'WEIGHTS', 1, 2)\nredis.call('ZUNIONSTORE', KEYS[1], ARGV[1], 'x')\nredis.call('ZUNIONSTORE', KEYS[1], 2, unpack(ARGV))", []string{
			`1: key "d" of ZUNIONSTORE is not built from KEYS[1]`,
			`1: key "x" of ZUNIONSTORE is not built from KEYS[1]`,
			"2: ZUNIONSTORE: the number of keys must be a literal",
			"3: this key of ZUNIONSTORE cannot be followed to KEYS[1] and literals",
		}},
		{"a key behind the open end", "redis.call('RENAME', unpack(ARGV))", []string{
			"1: this key of RENAME cannot be followed to KEYS[1] and literals",
		}},
		{"keys that no rule finds", "redis.call('SORT', KEYS[1], 'STORE', 'x')", []string{
			"1: SORT: where its keys are cannot be told from its arguments",
		}},
		{"too few arguments", "redis.call('GET')", []string{"1: GET: it has too few arguments"}},
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
			[]string{`size.lua:8: key "BASE:c" of ZCARD is not one that the headers name, in front of demo.do`},
		},
		{
			"one without what it needs", needs("size") + "return size(K)", openFragment, strings.Replace(sizeFragment, "Needs  open", "Needs  nothing", 1),
			[]string{
				"size.lua:8: a is neither a local nor a global that scripts may use, in front of demo.do",
				"size.lua:8: this key of ZCARD cannot be followed to KEYS[1] and literals, in front of demo.do",
			},
		},
		{
			"a script that does not name it", goodHeader + "return size(K)", openFragment, sizeFragment,
			[]string{"do.lua:11: size is neither a local nor a global that scripts may use"},
		},
		{
			"one with a wrong key", needs("open") + "return a", strings.Replace(openFragment, "a = K", "a = redis.call('GET', ARGV[1]) or K", 1), sizeFragment,
			[]string{"open.lua:7: this key of GET cannot be followed to KEYS[1] and literals, in front of demo.do"},
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
	want := []string{`12: key "BASE:c" of GET is not one that the headers name`}
	if diff := cmp.Diff(want, lines(check(map[string]string{"do.lua": source}))); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
}

// TestEachProblemOnce: what is wrong with a fragment, whatever it is in front of, is told
// once.
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
