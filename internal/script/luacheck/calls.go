package luacheck

import (
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
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
	name, cmd, ok := l.table.find(words)
	switch {
	case !ok && l.table.container(words[0]) && (len(words) < 2 || words[1] == ""):
		l.report(e.Line(), "the subcommand of %s is not a string literal", words[0])
		return
	case !ok:
		l.report(e.Line(), "%s is not a command of Redis 6.2", name)
		return
	case cmd.is("noscript"):
		l.report(e.Line(), "%s may not be called from a script", name)
		return
	}

	// The arguments behind the name, as Redis counts them.
	keys, problem := cmd.keyPositions(words, endsOpen(e.Args))
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

// checkKey checks one argument that is a key.
func (l *linter) checkKey(command string, e ast.Expr) {
	v := l.resolve(e)
	if v.external {
		return // checked with each script that the fragment is put in front of
	}
	if v.unknown {
		l.report(e.Line(), "this key of %s cannot be followed to KEYS[1] and literals", command)
	}
	for _, text := range v.texts {
		if text == ">" && strings.HasPrefix(command, "XREAD") {
			continue // the id behind the keys, in a list of both
		}
		base, star := strings.Index(text, baseMark), strings.Index(text, hole)
		switch {
		case star >= 0 && (base < 0 || star < base):
			l.report(e.Line(), "key %q of %s cannot be followed to KEYS[1] and literals", readable(text), command)
		case base < 0:
			l.report(e.Line(), "key %q of %s is not built from KEYS[1]", readable(text), command)
		case l.keys != nil && !slices.Contains(l.keys, readable(text)):
			l.report(e.Line(), "key %q of %s is not one that the Go side derives", readable(text), command)
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
