package luacheck

import (
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// globals are the global names that a script may read: those that Redis 6.2 and
// miniredis both have and a script has a use for. redis and KEYS may be read in
// their own ways only.
var globals = []string{
	"ARGV", "assert", "cjson", "error", "getmetatable", "ipairs", "math", "next", "pairs", "pcall",
	"rawequal", "rawget", "rawset", "select", "setmetatable", "string", "table", "tonumber",
	"tostring", "type", "unpack", "xpcall",
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
	"table": {"concat", "insert", "maxn", "remove", "sort"},
}

// local is one local variable or parameter, and all that can be known of what
// it holds.
type local struct {
	name string
	line int // of the text
	read bool

	values   []ast.Expr // what it is ever set to
	elements []ast.Expr // what is ever put into it, if it is a list
	unknown  bool       // it is also set to what cannot be followed

	owner *function // of a parameter
	index int       // of a parameter

	calls  []*ast.FuncCallExpr // calls of the local itself
	passed bool                // it is read other than by a call
}

// function is one function of the script.
type function struct {
	holder  *local // the local it is kept in, or nil
	returns []*ast.ReturnStmt
}

// scope is a block and what is declared in it.
type scope struct {
	outer  *scope
	locals []*local
	fn     *function // the function the block belongs to; nil at the top
}

func (s *scope) find(name string) *local {
	for ; s != nil; s = s.outer {
		for _, v := range slices.Backward(s.locals) {
			if v.name == name {
				return v
			}
		}
	}
	return nil
}

// checkNames walks the text, resolves every name, and reports the names that
// are not there and the locals that are not used. Those of a fragment may be for
// other scripts.
func (l *linter) checkNames(block []ast.Stmt) {
	w := &walker{linter: l, scope: &scope{}}
	i := slices.IndexFunc(block, func(s ast.Stmt) bool { return s.Line() >= l.own().first })
	if i < 0 {
		i = len(block)
	}
	w.stmts(block[:i])
	top := len(w.scope.locals)
	w.stmts(block[i:])
	w.checkUsed(w.scope.locals[top:])
}

// walker goes through the tree once, in the order of the text.
type walker struct {
	*linter
	scope *scope
}

func (w *walker) declare(name string, line int) *local {
	v := &local{name: name, line: line}
	w.scope.locals = append(w.scope.locals, v)
	return v
}

// unknown declares a local whose values cannot be followed.
func (w *walker) unknown(name string, line int) {
	v := w.declare(name, line)
	v.unknown, v.read = true, true
}

func (w *walker) open(fn *function) {
	w.scope = &scope{outer: w.scope, fn: fn}
}

func (w *walker) close() {
	w.checkUsed(w.scope.locals)
	w.scope = w.scope.outer
}

func (w *walker) checkUsed(locals []*local) {
	for _, v := range locals {
		if !v.read && !strings.HasPrefix(v.name, "_") {
			w.report(v.line, "local %s is never read; a value that is not wanted goes to _", v.name)
		}
	}
}

func (w *walker) block(stmts []ast.Stmt) {
	w.open(w.scope.fn)
	w.stmts(stmts)
	w.close()
}

func (w *walker) stmts(stmts []ast.Stmt) {
	for _, s := range stmts {
		w.stmt(s)
	}
}

func (w *walker) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		w.local(s)
	case *ast.AssignStmt:
		w.assign(s)
	case *ast.FuncCallStmt:
		w.expr(s.Expr)
	case *ast.DoBlockStmt:
		w.block(s.Stmts)
	case *ast.WhileStmt:
		w.expr(s.Condition)
		w.block(s.Stmts)
	case *ast.RepeatStmt:
		w.open(w.scope.fn)
		w.stmts(s.Stmts)
		w.expr(s.Condition)
		w.close()
	case *ast.IfStmt:
		w.expr(s.Condition)
		w.block(s.Then)
		w.block(s.Else)
	case *ast.NumberForStmt:
		w.exprs([]ast.Expr{s.Init, s.Limit, s.Step})
		w.open(w.scope.fn)
		w.unknown(s.Name, s.Line())
		w.stmts(s.Stmts)
		w.close()
	case *ast.GenericForStmt:
		w.exprs(s.Exprs)
		w.open(w.scope.fn)
		for _, name := range s.Names {
			w.unknown(name, s.Line())
		}
		w.stmts(s.Stmts)
		w.close()
	case *ast.FuncDefStmt:
		w.define(s)
	case *ast.ReturnStmt:
		w.exprs(s.Exprs)
		if fn := w.scope.fn; fn != nil {
			fn.returns = append(fn.returns, s)
		}
	case *ast.LabelStmt, *ast.GotoStmt:
		w.report(s.Line(), "goto is not in Lua 5.1, which Redis runs")
	}
}

func (w *walker) local(s *ast.LocalAssignStmt) {
	// A function sees the local that it is kept in: the grammar's tree is the
	// same for "local function f" and "local f = function".
	if fn, ok := only[*ast.FunctionExpr](s.Exprs); ok && len(s.Names) == 1 {
		v := w.declare(s.Names[0], s.Line())
		v.values = append(v.values, fn)
		w.function(fn, v)
		return
	}
	w.exprs(s.Exprs)
	for i, name := range s.Names {
		w.set(w.declare(name, s.Line()), s.Exprs, i)
	}
}

func (w *walker) assign(s *ast.AssignStmt) {
	if name, ok := only[*ast.IdentExpr](s.Lhs); ok {
		if fn, ok := only[*ast.FunctionExpr](s.Rhs); ok {
			if v := w.target(name); v != nil {
				v.values = append(v.values, fn)
				w.function(fn, v)
			}
			return
		}
	}
	w.exprs(s.Rhs)
	for i, left := range s.Lhs {
		if name, ok := left.(*ast.IdentExpr); !ok {
			w.expr(left)
			w.element(left, s.Rhs, i)
		} else if v := w.target(name); v != nil {
			w.set(v, s.Rhs, i)
		}
	}
}

// target returns the local that is assigned to, or reports that it is a global.
func (w *walker) target(name *ast.IdentExpr) *local {
	v := w.scope.find(name.Value)
	if v == nil {
		w.report(name.Line(), "%s is assigned, but is not a local", name.Value)
	}
	return v
}

// set notes that v takes the value of exprs[i], which may be a further result
// of a call at the end of exprs.
func (w *walker) set(v *local, exprs []ast.Expr, i int) {
	switch {
	case i < len(exprs):
		v.values = append(v.values, exprs[i])
	case endsOpen(exprs):
		v.unknown = true
	}
}

// element notes what is put into a list.
func (w *walker) element(left ast.Expr, exprs []ast.Expr, i int) {
	attr, ok := left.(*ast.AttrGetExpr)
	if !ok {
		return
	}
	if name, ok := attr.Object.(*ast.IdentExpr); ok && i < len(exprs) {
		if v := w.names[name]; v != nil {
			v.elements = append(v.elements, exprs[i])
		}
	}
}

func (w *walker) define(s *ast.FuncDefStmt) {
	name, ok := s.Name.Func.(*ast.IdentExpr)
	if !ok {
		w.expr(s.Name.Func)
		w.expr(s.Name.Receiver)
		if s.Name.Method != "" {
			s.Func.ParList.Names = append([]string{"self"}, s.Func.ParList.Names...)
		}
		w.function(s.Func, nil)
		return
	}
	if v := w.target(name); v != nil {
		v.values = append(v.values, s.Func)
		w.function(s.Func, v)
	}
}

func (w *walker) function(e *ast.FunctionExpr, holder *local) {
	fn := &function{holder: holder}
	w.functions[e] = fn
	w.open(fn)
	for i, name := range e.ParList.Names {
		v := w.declare(name, e.Line())
		v.owner, v.index, v.read = fn, i, true
	}
	w.stmts(e.Stmts)
	w.close()
}

func (w *walker) exprs(exprs []ast.Expr) {
	for _, e := range exprs {
		w.expr(e)
	}
}

func (w *walker) expr(e ast.Expr) {
	switch e := e.(type) {
	case *ast.IdentExpr:
		if v := w.name(e); v != nil {
			v.passed = true
		}
	case *ast.AttrGetExpr:
		w.attribute(e)
	case *ast.FuncCallExpr:
		w.call(e)
	case *ast.FunctionExpr:
		w.function(e, nil)
	case *ast.TableExpr:
		for _, field := range e.Fields {
			w.expr(field.Key)
			w.expr(field.Value)
		}
	case *ast.LogicalOpExpr:
		w.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.RelationalOpExpr:
		w.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.StringConcatOpExpr:
		w.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.ArithmeticOpExpr:
		w.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.UnaryMinusOpExpr:
		w.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		w.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		w.expr(e.Expr)
	}
}

// name resolves a name that is read. It returns nil for a global.
func (w *walker) name(e *ast.IdentExpr) *local {
	if v := w.scope.find(e.Value); v != nil {
		v.read = true
		w.names[e] = v
		return v
	}
	switch {
	case e.Value == "KEYS":
		w.report(e.Line(), "of KEYS only KEYS[1] may be read: the script derives all other keys from it")
	case e.Value == "redis":
		w.report(e.Line(), "redis may only be used as redis.call(...) and the like, or its calls cannot be checked")
	case !slices.Contains(globals, e.Value):
		w.report(e.Line(), "%s is neither a local nor a global that scripts may use", e.Value)
	}
	return nil
}

// global returns the name of the global that e is, or "".
func (w *walker) global(e ast.Expr) string {
	if name, ok := e.(*ast.IdentExpr); ok && w.scope.find(name.Value) == nil {
		return name.Value
	}
	return ""
}

func (w *walker) attribute(e *ast.AttrGetExpr) {
	library := w.global(e.Object)
	key, literal := e.Key.(*ast.StringExpr)
	switch {
	case library == "KEYS" && (isOne(e.Key) || e.Line() == 1): // package script looks whether there are more
	case members[library] == nil || !literal:
		w.expr(e.Object)
		w.expr(e.Key)
	case !slices.Contains(members[library], key.Value):
		w.report(e.Line(), "%s.%s is not in every Lua that runs scripts", library, key.Value)
	case library == "redis" && (key.Value == "call" || key.Value == "pcall"):
		w.report(e.Line(), "redis.%s may only be called, or its calls cannot be checked", key.Value)
	}
}

func (w *walker) call(e *ast.FuncCallExpr) {
	w.exprs(e.Args)
	switch f := e.Func.(type) {
	case nil:
		w.expr(e.Receiver)
	case *ast.IdentExpr:
		if v := w.name(f); v != nil {
			v.calls = append(v.calls, e)
		}
	case *ast.AttrGetExpr:
		key, _ := f.Key.(*ast.StringExpr)
		if w.global(f.Object) == "redis" && key != nil && (key.Value == "call" || key.Value == "pcall") {
			w.calls = append(w.calls, e)
			return
		}
		w.attribute(f)
	default:
		w.expr(f)
	}
}

// only returns the one expression of a list if it is a T.
func only[T ast.Expr](exprs []ast.Expr) (T, bool) {
	if len(exprs) != 1 {
		var none T
		return none, false
	}
	e, ok := exprs[0].(T)
	return e, ok
}

// endsOpen reports whether a list may stand for more values than it has members.
func endsOpen(exprs []ast.Expr) bool {
	if len(exprs) == 0 {
		return false
	}
	switch e := exprs[len(exprs)-1].(type) {
	case *ast.Comma3Expr:
		return !e.AdjustRet
	case *ast.FuncCallExpr:
		return !e.AdjustRet
	default:
		return false
	}
}

// isOne reports whether e is the number 1.
func isOne(e ast.Expr) bool {
	n, ok := e.(*ast.NumberExpr)
	return ok && n.Value == "1"
}
