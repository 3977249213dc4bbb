package luacheck

import (
	"slices"

	lua "github.com/yuin/gopher-lua"
)

// globals are the global names that a script may use: those that Redis 6.2 and
// miniredis both have and a script has a use for.
var globals = []string{
	"ARGV", "KEYS", "_G", "assert", "cjson", "error", "getmetatable", "ipairs", "math", "next", "pairs",
	"pcall", "rawequal", "rawget", "rawset", "redis", "select", "setmetatable", "string", "table",
	"tonumber", "tostring", "type", "unpack", "xpcall",
}

// members are the parts of the library tables that both have.
var members = map[string][]string{
	"redis": {
		"LOG_DEBUG", "LOG_NOTICE", "LOG_VERBOSE", "LOG_WARNING",
		"call", "error_reply", "log", "pcall", "sha1hex", "status_reply",
	},
	"cjson": {"decode", "encode"},
	"math": {
		"abs", "ceil", "exp", "floor", "fmod", "frexp", "huge", "ldexp", "log", "log10", "max",
		"min", "modf", "pi", "pow", "random", "randomseed", "sqrt",
	},
	"string": {
		"byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "rep",
		"reverse", "sub", "upper",
	},
	"struct": {"pack", "unpack"}, // see package script
	"table":  {"concat", "insert", "maxn", "remove", "sort"},
}

// checkGlobals reports the globals that compiled code assigns, and those that it reads
// and that are not there: misspelt locals, and names of fragments that the header does
// not need.
func (l *linter) checkGlobals(code *lua.FunctionProto) {
	for i, instruction := range code.Code {
		op := int(instruction >> 26)
		if op != lua.OP_GETGLOBAL && op != lua.OP_SETGLOBAL {
			continue
		}
		name, line := code.Constants[instruction&0x3ffff].String(), code.DbgSourcePositions[i]
		if op == lua.OP_SETGLOBAL {
			l.report(line, "%s is assigned, but is not a local", name)
		} else if !slices.Contains(globals, name) && (name != "struct" || line != 1) { // package script makes it a local
			l.report(line, "%s is neither a local nor a global that scripts may use", name)
		}
	}
	for _, function := range code.FunctionPrototypes {
		l.checkGlobals(function)
	}
}
