package luacheck

import (
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/millrace/millrace/internal/commands"
)

// optionForm is how options are written, and values are not.
var optionForm = regexp.MustCompile(`^[A-Z][A-Z0-9-]*$`)

// checkCall checks one redis.call or redis.pcall.
func (l *linter) checkCall(e *ast.FuncCallExpr) {
	words := make([]string, len(e.Args)) // empty where the word is not a literal
	for i, arg := range e.Args {
		switch arg := arg.(type) {
		case *ast.StringExpr:
			words[i] = arg.Value
		case *ast.NumberExpr:
			words[i] = arg.Value
		}
	}
	if len(words) == 0 || words[0] == "" {
		l.report(e.Line(), "the command's name is not a string literal")
		return
	}
	name, cmd := find(l.table, words)
	switch {
	case cmd == nil && l.table.HasSubcommands(words[0]) && (len(words) < 2 || words[1] == ""):
		l.report(e.Line(), "the subcommand of %s is not a string literal", words[0])
		return
	case cmd == nil:
		l.report(e.Line(), "%s is not a command of Redis 6.2", name)
		return
	case cmd.Is("noscript"):
		l.report(e.Line(), "%s may not be called from a script", name)
		return
	case name == "INCRBYFLOAT":
		l.report(e.Line(), "INCRBYFLOAT in a script ruins the memory of a Redis 6.2 that was built without jemalloc; HINCRBYFLOAT does not")
		return
	}

	// The arguments behind the name, as Redis counts them.
	keys, problem := keyPositions(cmd, words, endsOpen(e.Args))
	if problem != "" {
		l.report(e.Line(), "%s: %s", name, problem)
	}
	for _, i := range keys {
		l.checkKey(name, e.Args[i])
	}
	texts := make([][]string, len(e.Args))
	for i := wordsIn(name); i < len(e.Args); i++ {
		if slices.Contains(keys, i) {
			continue
		}
		if optionForm.MatchString(words[i]) && !slices.Contains(cmd.Tokens, words[i]) {
			l.report(e.Args[i].Line(), "%s is not an option of %s in Redis 6.2 (a literal that is a value is not in upper case)", words[i], name)
		}
		texts[i] = l.resolve(e.Args[i]).texts
	}
	if what := newerUse(name, texts[wordsIn(name):]); what != "" {
		l.report(e.Line(), "%s", what)
	}
}

// find returns the command of Redis 6.2 that the words begin with, nil if there is
// none, and its name even then. The words that are not literals are empty.
func find(t *commands.Table, words []string) (name string, cmd *commands.Command) {
	name = strings.ToUpper(words[0])
	if len(words) > 1 && t.HasSubcommands(name) {
		name += " " + strings.ToUpper(words[1])
	}
	return name, t.Find(words)
}

// wordsIn returns the number of words in a command's name.
func wordsIn(name string) int { return strings.Count(name, " ") + 1 }

// keyPositions returns which of a call's words are keys. The words that are not
// literals are empty; open says that more may follow the last one. The problem
// says why keys cannot be told, if so.
func keyPositions(cmd *commands.Command, words []string, open bool) (keys []int, problem string) {
	end := len(words) - 1
	for _, spec := range cmd.Keys {
		first, last, ok := spec.Span(words)
		switch {
		case spec.Elsewhere:
			return keys, "where its keys are cannot be told from its arguments"
		case !ok && spec.Counted:
			return keys, "the number of keys must be a literal"
		case !ok && (open || !spec.Optional()):
			return keys, spec.After + " must be a string literal among the arguments, and all arguments be written out"
		case !ok:
			continue
		case open && spec.Share > 0 && first == end:
			return append(keys, end), "" // a list of keys, and of what is asked of each
		case open && (spec.Last < -1 || spec.Share > 0):
			return keys, "its keys are counted from the end, so all arguments must be written out; a call as the last one stands in brackets"
		case !open && last > end:
			return keys, "it has too few arguments"
		}
		// The keys that are behind the end come out of the last argument.
		for i := first; i <= min(last, end); i += max(spec.Step, 1) {
			keys = append(keys, i)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), ""
}

// checkKey checks one argument that is a key.
func (l *linter) checkKey(command string, e ast.Expr) {
	v := l.resolve(e)
	free := slices.Contains(l.keys, "*") // the callers name them
	if v.unknown && !free {
		l.report(e.Line(), "this key of %s cannot be followed to KEYS[1] and literals", command)
	}
	for _, text := range v.texts {
		if text == ">" && strings.HasPrefix(command, "XREAD") {
			continue // the id behind the keys, in a list of both
		}
		base, star := strings.Index(text, baseMark), strings.Index(text, hole)
		switch {
		case free && base < 0:
		case star >= 0 && (base < 0 || star < base):
			l.report(e.Line(), "key %q of %s cannot be followed to KEYS[1] and literals", readable(text), command)
		case base < 0:
			l.report(e.Line(), "key %q of %s is not built from KEYS[1]", readable(text), command)
		case !slices.Contains(l.keys, readable(text)):
			l.report(e.Line(), "key %q of %s is not one that the headers name", readable(text), command)
		}
	}
}

// newerUse returns what is wrong with uses that Redis 6.2 refuses although it
// has the command and all options. For each argument behind the command's name
// there is one list of the texts that it may have, empty if none is known.
func newerUse(name string, args [][]string) string {
	has := func(option string) bool {
		return slices.ContainsFunc(args, func(texts []string) bool { return slices.Contains(texts, option) })
	}
	switch name {
	case "INFO":
		if len(args) > 1 {
			return "INFO takes at most one section in Redis 6.2"
		}
	case "CONFIG GET":
		if len(args) > 1 {
			return "CONFIG GET takes one parameter in Redis 6.2"
		}
	case "CONFIG SET":
		if len(args) > 2 {
			return "CONFIG SET takes one parameter and value in Redis 6.2"
		}
	case "SET":
		if has("NX") && has("GET") {
			return "SET takes NX and GET together only since Redis 7.0"
		}
	case "XADD":
		for _, texts := range args {
			if slices.ContainsFunc(texts, func(t string) bool { return len(t) > len("-*") && strings.HasSuffix(t, "-*") }) {
				return "XADD takes ids like 5-* only since Redis 7.0"
			}
		}
	}
	return ""
}
