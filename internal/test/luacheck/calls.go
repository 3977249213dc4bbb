package luacheck

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/millrace/millrace/internal/redis/commands"
)

// inspect calls visit for every node of a syntax tree, the outer one first.
func inspect(v reflect.Value, visit func(node any)) {
	switch v.Kind() { //nolint:exhaustive // other kinds have no nodes in them
	case reflect.Slice:
		for i := range v.Len() {
			inspect(v.Index(i), visit)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Interface())
			inspect(v.Elem(), visit)
		}
	case reflect.Interface:
		inspect(v.Elem(), visit)
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				inspect(value, visit)
			}
		}
	}
}

// checkTree checks how the text uses its names.
func (l *linter) checkTree(block []ast.Stmt) {
	seen := map[any]bool{} // nodes that a node around them has checked
	inspect(reflect.ValueOf(block), func(node any) {
		if seen[node] {
			return
		}
		switch n := node.(type) {
		case *ast.GotoStmt:
			l.report(n.Line(), "goto is not in Lua 5.1, which Redis runs")
		case *ast.LabelStmt:
			l.report(n.Line(), "goto is not in Lua 5.1, which Redis runs")
		case *ast.FuncCallExpr:
			if isCall(n.Func) {
				seen[n.Func], seen[n.Func.(*ast.AttrGetExpr).Object] = true, true //nolint:forcetypeassert // isCall knows
				l.checkCall(n)
			}
		case *ast.AttrGetExpr:
			seen[n.Object] = l.checkMember(n)
		case *ast.IdentExpr:
			switch n.Value {
			case "KEYS":
				l.report(n.Line(), "of KEYS only KEYS[1] may be read: the script derives all other keys from it")
			case "redis":
				l.report(n.Line(), "redis may only be used as redis.call(...) and the like, or its calls cannot be checked")
			}
		case *ast.StringConcatOpExpr:
			l.checkDerived(n)
			for rest, ok := n.Rhs.(*ast.StringConcatOpExpr); ok; rest, ok = rest.Rhs.(*ast.StringConcatOpExpr) {
				seen[rest] = true
			}
		}
	})
}

// checkMember checks NAME.member and KEYS[i]. It reports whether the name needs no
// other check.
func (l *linter) checkMember(e *ast.AttrGetExpr) bool {
	library, key := nameOf(e.Object), ""
	if s, ok := e.Key.(*ast.StringExpr); ok {
		key = s.Value
	}
	switch {
	case library == "KEYS":
		return isOne(e.Key) || e.Line() == 1 // package script looks whether there are more
	case members[library] == nil || key == "":
		return false
	case !slices.Contains(members[library], key):
		l.report(e.Line(), "%s.%s is not in every Lua that runs scripts", library, key)
	case isCall(e):
		l.report(e.Line(), "redis.%s may only be called, or its calls cannot be checked", key)
	}
	return true
}

// checkDerived checks a text that begins with the base key or the prefix: it is one of
// the keys that the headers name.
func (l *linter) checkDerived(e *ast.StringConcatOpExpr) {
	key := l.text(e)
	if e.Line() == 1 || !strings.HasPrefix(key, baseName) || key == l.prefix+"*" {
		return // line 1 makes the prefix
	}
	if !slices.Contains(l.keys, key) {
		l.report(e.Line(), "key %q is not one that the headers name", key)
	}
}

// text returns the value of an expression, with a star for each part that only the running
// script knows.
func (l *linter) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StringExpr:
		return e.Value
	case *ast.NumberExpr:
		return e.Value
	case *ast.StringConcatOpExpr:
		return l.text(e.Lhs) + l.text(e.Rhs)
	case *ast.AttrGetExpr:
		if nameOf(e.Object) == "KEYS" && isOne(e.Key) {
			return baseName
		}
	case *ast.IdentExpr:
		switch e.Value {
		case "K":
			return baseName
		case "prefix":
			return l.prefix
		}
	}
	return "*"
}

// optionForm is how options are written, and values are not.
var optionForm = regexp.MustCompile(`^[A-Z][A-Z0-9-]*$`)

// checkCall checks one redis.call or redis.pcall.
func (l *linter) checkCall(e *ast.FuncCallExpr) {
	words, texts := make([]string, len(e.Args)), make([]string, len(e.Args))
	for i, arg := range e.Args {
		texts[i] = l.text(arg)
		switch arg.(type) {
		case *ast.StringExpr, *ast.NumberExpr:
			words[i] = texts[i] // the others are empty
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
	if cmd.Is("write") && l.script.Reads() && e.Line() >= l.own().first { // fragments are for others, too
		l.report(e.Line(), "%s writes, and the header says that the script only reads", name)
	}
	if !slices.Contains(l.keys, "*") { // else the callers name them
		l.checkKeys(e, name, cmd, words)
	}
	for i := wordsIn(name); i < len(e.Args); i++ {
		if optionForm.MatchString(words[i]) && !slices.Contains(cmd.Tokens, words[i]) {
			l.report(e.Args[i].Line(), "%s is not an option of %s in Redis 6.2 (a literal that is a value is not in upper case)", words[i], name)
		}
	}
	if what := newerUse(name, texts[wordsIn(name):]); what != "" {
		l.report(e.Line(), "%s", what)
	}
}

// checkKeys reports keys of a call that are literals or arguments; checkDerived checks the
// others.
func (l *linter) checkKeys(e *ast.FuncCallExpr, name string, cmd *commands.Command, words []string) {
	for _, spec := range cmd.Keys {
		first, last, ok := spec.Span(words)
		if !ok {
			continue
		}
		for i := first; i <= min(last, len(words)-1); i += max(spec.Step, 1) {
			text := l.text(e.Args[i])
			attr, _ := e.Args[i].(*ast.AttrGetExpr)
			built := strings.Contains(text, baseName) && !strings.HasPrefix(text, "*")
			if text != "*" && !built || attr != nil && nameOf(attr.Object) == "ARGV" {
				l.report(e.Args[i].Line(), "key %q of %s is not built from KEYS[1]", text, name)
			}
		}
	}
}

// isCall reports whether e is redis.call or redis.pcall.
func isCall(e ast.Expr) bool {
	attr, ok := e.(*ast.AttrGetExpr)
	if !ok || nameOf(attr.Object) != "redis" {
		return false
	}
	key, ok := attr.Key.(*ast.StringExpr)
	return ok && (key.Value == "call" || key.Value == "pcall")
}

func nameOf(e ast.Expr) string {
	if name, ok := e.(*ast.IdentExpr); ok {
		return name.Value
	}
	return ""
}

func isOne(e ast.Expr) bool {
	n, ok := e.(*ast.NumberExpr)
	return ok && n.Value == "1"
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

// newerUse returns the problem with a use that Redis 6.2 refuses although it has the command
// and all options, or "". The arguments are those behind the command's name; "" or "*" is one
// that is not known.
func newerUse(name string, args []string) string {
	switch {
	case name == "INFO" && len(args) > 1:
		return "INFO takes at most one section in Redis 6.2"
	case name == "CONFIG GET" && len(args) > 1:
		return "CONFIG GET takes one parameter in Redis 6.2"
	case name == "CONFIG SET" && len(args) > 2:
		return "CONFIG SET takes one parameter and value in Redis 6.2"
	case name == "SET" && slices.Contains(args, "NX") && slices.Contains(args, "GET"):
		return "SET takes NX and GET together only since Redis 7.0"
	case name == "XADD" && slices.ContainsFunc(args, func(arg string) bool { return len(arg) > len("-*") && strings.HasSuffix(arg, "-*") }):
		return "XADD takes ids like 5-* only since Redis 7.0"
	}
	return ""
}
