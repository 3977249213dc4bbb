package luacheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/commands"
)

// CheckGo returns the places in a module's Go files where a command is built
// that Redis 6.2 does not have, or with an option that it does not have. Tests,
// examples, benches, testdata and nested modules are left out.
//
// It follows chains of rueidis' builder from B() on, also over local variables,
// and Arbitrary where its words are literals.
func CheckGo(root string) []Problem {
	b, err := readBuilders(root)
	if err != nil {
		return []Problem{{File: root, Line: 1, Message: err.Error()}}
	}
	return checkGo(root, b)
}

func checkGo(root string, b builders) []Problem {
	table, err := commands.Redis62()
	if err != nil {
		return []Problem{{File: root, Line: 1, Message: err.Error()}}
	}
	var problems []Problem
	walkErr := walk(root, ".go", func(path, name string) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		g := &goFile{name: name, fset: token.NewFileSet(), table: table, builders: b}
		file, err := parser.ParseFile(g.fset, path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		g.check(file)
		problems = append(problems, g.problems...)
		return nil
	})
	if walkErr != nil {
		problems = append(problems, Problem{File: root, Line: 1, Message: walkErr.Error()})
	}
	return problems
}

// optional are newer commands that package script sends only where the server has them.
var optional = []string{"EVALSHA_RO", "EVAL_RO"}

// goFile is the check of one Go file.
type goFile struct {
	name     string
	fset     *token.FileSet
	table    *commands.Table
	builders builders
	problems []Problem

	vars map[string]built       // of the present declaration
	done map[*ast.CallExpr]bool // calls inside a chain that was checked
}

// built is a command under construction.
type built struct {
	typ     string // the builder type it has reached
	words   []goWord
	checked int // so many words were checked before
}

// goWord is one word of a command. The text is empty if only the running
// program knows it.
type goWord struct {
	text  string
	fixed bool // an option, if it looks like one, and not a caller's value
	line  int
}

func (g *goFile) check(file *ast.File) {
	for _, decl := range file.Decls {
		g.vars, g.done = map[string]built{}, map[*ast.CallExpr]bool{}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				g.call(n)
			case *ast.AssignStmt:
				g.assign(n)
			}
			return true
		})
	}
}

// call checks a chain from its last call.
func (g *goFile) call(e *ast.CallExpr) {
	if g.done[e] {
		return
	}
	if b, ok := g.follow(e); ok {
		g.checkBuilt(b)
		for inner := ast.Expr(e); ; {
			call, ok := inner.(*ast.CallExpr)
			if !ok {
				break
			}
			g.done[call] = true
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			inner = sel.X
		}
	}
}

// assign notes the commands under construction that variables hold.
func (g *goFile) assign(s *ast.AssignStmt) {
	values := make([]built, len(s.Lhs))
	if len(s.Rhs) == len(s.Lhs) {
		for i, e := range s.Rhs {
			if call, ok := e.(*ast.CallExpr); ok {
				g.call(call)
			}
			if b, ok := g.follow(e); ok {
				b.checked = len(b.words)
				values[i] = b
			}
		}
	}
	for i, e := range s.Lhs {
		if name, ok := e.(*ast.Ident); ok {
			g.vars[name.Name] = values[i]
		}
	}
}

// follow returns the command that an expression has built so far.
func (g *goFile) follow(e ast.Expr) (built, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return g.follow(e.X)
	case *ast.Ident:
		b := g.vars[e.Name]
		return b, b.typ != ""
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return built{}, false
		}
		if sel.Sel.Name == "B" && len(e.Args) == 0 {
			return built{typ: "Builder"}, true
		}
		if b, ok := g.follow(sel.X); ok {
			return g.step(b, sel.Sel.Name, e)
		}
	}
	return built{}, false
}

// step returns the command after one more method. It does not touch b.
func (g *goFile) step(b built, name string, e *ast.CallExpr) (built, bool) {
	line := g.fset.Position(e.Fun.(*ast.SelectorExpr).Sel.Pos()).Line //nolint:forcetypeassert // what makes e a method call
	next := built{words: slices.Clip(b.words), checked: b.checked}
	fixed := false
	switch {
	case name == "Arbitrary" && b.typ == "Builder", name == "Args" && b.typ == "Arbitrary":
		next.typ, fixed = "Arbitrary", true
	case b.typ == "Arbitrary" && name == "Keys":
		next.typ = "Arbitrary"
	case b.typ == "Arbitrary":
		return built{}, false
	default:
		m, ok := g.builders[b.typ][name]
		if !ok && b.typ == "Builder" {
			g.report(line, "rueidis' builder has no method %s, as far as its source tells", name)
		}
		if !ok {
			return built{}, false
		}
		next.typ = m.next
		for _, word := range m.words {
			next.words = append(next.words, goWord{word, true, line})
		}
	}
	args := e.Args
	if list, ok := lastList(e); ok {
		args = append(slices.Clip(args[:len(args)-1]), list...)
	}
	for _, arg := range args {
		text, _ := literal(arg)
		next.words = append(next.words, goWord{text, fixed, line})
	}
	return next, true
}

// lastList returns the elements of a slice that is written out as the last,
// spread argument.
func lastList(e *ast.CallExpr) ([]ast.Expr, bool) {
	if !e.Ellipsis.IsValid() {
		return nil, false
	}
	list, ok := e.Args[len(e.Args)-1].(*ast.CompositeLit)
	if !ok {
		return nil, false
	}
	return list.Elts, true
}

// checkBuilt checks what a command has become since it was checked before.
func (g *goFile) checkBuilt(b built) {
	if len(b.words) == b.checked || b.words[0].text == "" {
		return
	}
	texts := make([]string, len(b.words))
	for i, w := range b.words {
		texts[i] = w.text
	}
	name, cmd := find(g.table, texts)
	if cmd == nil {
		if b.checked == 0 && !strings.HasSuffix(name, " ") && !slices.Contains(optional, name) {
			g.report(b.words[0].line, "%s is not a command of Redis 6.2", name)
		}
		return
	}
	count := min(wordsIn(name), len(b.words))
	for _, w := range b.words[max(count, b.checked):] {
		if w.fixed && optionForm.MatchString(w.text) && !slices.Contains(cmd.Tokens, w.text) {
			g.report(w.line, "%s is not an option of %s in Redis 6.2", w.text, name)
		}
	}
	if what := newerUse(name, texts[count:]); what != "" {
		g.report(b.words[len(b.words)-1].line, "%s", what)
	}
}

func (g *goFile) report(line int, format string, args ...any) {
	p := Problem{g.name, line, fmt.Sprintf(format, args...)}
	if !slices.Contains(g.problems, p) {
		g.problems = append(g.problems, p)
	}
}

// walk visits the files of a module with the given extension, in order of their
// names, with their paths and their names below root.
func walk(root, ext string, visit func(path, name string) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != root && passedOver(path) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ext {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return visit(path, filepath.ToSlash(name))
	})
}

// passedOver reports whether a folder is none of the module's own.
func passedOver(path string) bool {
	name := filepath.Base(path)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	if slices.Contains([]string{"bench", "examples", "testdata"}, name) {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}
