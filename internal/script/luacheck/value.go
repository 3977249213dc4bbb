package luacheck

import (
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

const (
	// baseName is the base key that keys are derived from for the comparison.
	baseName = "BASE"

	// baseMark and hole stand in texts for KEYS[1] and for a part that only the
	// running script knows. Neither byte occurs in a source.
	baseMark = "\x00"
	hole     = "\x01"

	// maxTexts is how many texts a concatenation may have before it counts as
	// unknown.
	maxTexts = 200
)

// value is what an expression can be: one of texts, and something that cannot
// be told if unknown is set.
type value struct {
	texts   []string
	unknown bool
}

// or returns a value that may be either.
func (v value) or(other value) value {
	v.unknown = v.unknown || other.unknown
	for _, text := range other.texts {
		if !slices.Contains(v.texts, text) {
			v.texts = append(slices.Clip(v.texts), text)
		}
	}
	return v
}

// concat returns the texts of v followed by those of other.
func (v value) concat(other value) value {
	joined := value{}
	if len(v.texts)*len(other.texts) > maxTexts {
		joined.unknown = true
		return joined
	}
	for _, a := range v.parts() {
		for _, b := range other.parts() {
			joined = joined.or(value{texts: []string{a + b}})
		}
	}
	return joined
}

// parts returns the texts, with a hole for what is unknown.
func (v value) parts() []string {
	if v.unknown {
		return append(slices.Clip(v.texts), hole)
	}
	return v.texts
}

// readable returns a text as it appears in messages and in patterns of keys.
func readable(text string) string {
	return strings.NewReplacer(baseMark, baseName, hole, "*").Replace(text)
}

// resolver follows one expression. It remembers which locals it is at, since
// "s = s .. 'x'" has no end.
type resolver struct {
	*linter
	at map[*local]bool
}

func (l *linter) resolve(e ast.Expr) value {
	r := &resolver{linter: l, at: map[*local]bool{}}
	return r.expr(e)
}

func (r *resolver) expr(e ast.Expr) value {
	switch e := e.(type) {
	case *ast.StringExpr:
		return value{texts: []string{e.Value}}
	case *ast.NumberExpr:
		// Lua writes other numbers differently from how the source does.
		if strings.Trim(e.Value, "0123456789") == "" && (e.Value == "0" || e.Value[0] != '0') {
			return value{texts: []string{e.Value}}
		}
	case *ast.NilExpr, *ast.FalseExpr:
		return value{} // never an argument: Redis refuses the call
	case *ast.AttrGetExpr:
		if name, ok := e.Object.(*ast.IdentExpr); ok && name.Value == "KEYS" && r.names[name] == nil && isOne(e.Key) {
			return value{texts: []string{baseMark}}
		}
	case *ast.IdentExpr:
		if v := r.names[e]; v != nil {
			return r.local(v)
		}
	case *ast.StringConcatOpExpr:
		return r.expr(e.Lhs).concat(r.expr(e.Rhs))
	case *ast.LogicalOpExpr:
		if e.Operator == "and" {
			return r.expr(e.Rhs) // or nil, or false
		}
		return r.expr(e.Lhs).or(r.expr(e.Rhs))
	case *ast.FuncCallExpr:
		if name, ok := e.Func.(*ast.IdentExpr); ok && r.names[name] != nil {
			return r.result(r.names[name])
		} else if ok && name.Value == "unpack" && len(e.Args) == 1 {
			return r.elements(e.Args[0])
		}
	}
	return value{unknown: true}
}

// local returns what v may hold, wherever it is set.
func (r *resolver) local(v *local) value {
	if r.at[v] {
		return value{unknown: true}
	}
	r.at[v] = true
	defer delete(r.at, v)

	all := value{unknown: v.unknown}
	for _, e := range v.values {
		all = all.or(r.expr(e))
	}
	if v.owner != nil {
		all = all.or(r.argument(v.owner, v.index))
	}
	return all
}

// elements returns what may be in a list that is made empty and then filled.
func (r *resolver) elements(e ast.Expr) value {
	name, ok := e.(*ast.IdentExpr)
	if !ok || r.names[name] == nil || len(r.names[name].elements) == 0 || len(r.names[name].values) != 1 {
		return value{unknown: true}
	}
	list := r.names[name]
	if table, ok := list.values[0].(*ast.TableExpr); !ok || len(table.Fields) > 0 {
		return value{unknown: true}
	}
	all := value{}
	for _, e := range list.elements {
		all = all.or(r.expr(e))
	}
	return all
}

// argument returns what the callers of fn pass for a parameter.
func (r *resolver) argument(fn *function, index int) value {
	holder := fn.holder
	if holder == nil || holder.passed {
		return value{unknown: true}
	}
	all := value{}
	for _, call := range holder.calls {
		switch {
		case index < len(call.Args):
			all = all.or(r.expr(call.Args[index]))
		case endsOpen(call.Args):
			all.unknown = true
		}
	}
	return all
}

// result returns what a call of the functions in v may return first.
func (r *resolver) result(v *local) value {
	if r.at[v] || v.owner != nil {
		return value{unknown: true}
	}
	r.at[v] = true
	defer delete(r.at, v)

	all := value{unknown: v.unknown}
	for _, e := range v.values {
		def, ok := e.(*ast.FunctionExpr)
		if !ok {
			return value{unknown: true}
		}
		for _, ret := range r.functions[def].returns {
			switch len(ret.Exprs) {
			case 0:
			case 1:
				all = all.or(r.expr(ret.Exprs[0]))
			default:
				all.unknown = true
			}
		}
	}
	return all
}
