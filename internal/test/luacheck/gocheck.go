package luacheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/commands"
)

// CheckGo returns the places in a module's Go files that build a command, or use an
// option, that Redis 6.2 does not have. It leaves out tests, examples, benches, testdata
// and nested modules.
//
// It follows chains of rueidis' builder from B() on, also over local variables, by calling
// the builder's methods, and Arbitrary where its words are literals.
func CheckGo(root string) []Problem {
	table, err := commands.Redis62()
	if err != nil {
		return []Problem{{File: root, Line: 1, Message: err.Error()}}
	}
	var problems []Problem
	walkErr := walk(root, ".go", func(path, name string) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		g := &goFile{name: name, fset: token.NewFileSet(), table: table}
		file, err := parser.ParseFile(g.fset, path, nil, parser.SkipObjectResolution)
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

// goFile is the check of one Go file.
type goFile struct {
	name     string
	fset     *token.FileSet
	table    *commands.Table
	problems []Problem

	vars map[string]*chain      // of the present declaration
	done map[*ast.CallExpr]bool // calls inside a chain that was checked
}

// chain is a command under construction.
type chain struct {
	calls   []*ast.CallExpr // of methods, behind B()
	checked int             // words that were checked before
}

// goWord is one word of a command. The text is empty if only the running program knows it.
type goWord struct {
	text  string
	fixed bool // not a caller's value: an option, if it looks like one
	line  int
}

func (g *goFile) check(file *ast.File) {
	for _, decl := range file.Decls {
		g.vars, g.done = map[string]*chain{}, map[*ast.CallExpr]bool{}
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
	if c := g.follow(e); c != nil && !g.done[e] {
		g.checkChain(c)
		for _, call := range c.calls {
			g.done[call] = true
		}
	}
}

// assign notes the chains that variables hold.
func (g *goFile) assign(s *ast.AssignStmt) {
	for i, left := range s.Lhs {
		name, ok := left.(*ast.Ident)
		if !ok {
			continue
		}
		g.vars[name.Name] = nil
		if len(s.Rhs) != len(s.Lhs) {
			continue
		}
		if call, ok := s.Rhs[i].(*ast.CallExpr); ok {
			g.call(call)
		}
		if c := g.follow(s.Rhs[i]); c != nil {
			g.vars[name.Name] = &chain{c.calls, len(g.words(c))}
		}
	}
}

// follow returns the chain that an expression has built so far, nil if it is none.
func (g *goFile) follow(e ast.Expr) *chain {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return g.follow(e.X)
	case *ast.Ident:
		return g.vars[e.Name]
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		if sel.Sel.Name == "B" && len(e.Args) == 0 {
			return &chain{}
		}
		if c := g.follow(sel.X); c != nil {
			return &chain{append(slices.Clip(c.calls), e), c.checked}
		}
	}
	return nil
}

// argument begins the words that are arguments. It is a hash tag, since the builder wants
// all keys in one slot: slot 0, at which the zero Builder begins.
const argument = "{06S}"

// words calls the builder as a chain does, and returns the command's words.
func (g *goFile) words(c *chain) (words []goWord) {
	value := reflect.ValueOf(rueidis.Builder{})
	for i, call := range c.calls {
		sel := call.Fun.(*ast.SelectorExpr).Sel //nolint:forcetypeassert // follow has looked
		line := g.fset.Position(sel.Pos()).Line
		method := value.MethodByName(sel.Name)
		if !method.IsValid() && i == 0 {
			g.report(line, "rueidis' builder has no method %s", sel.Name)
		}
		if !method.IsValid() || slices.Contains([]string{"Build", "Cache", "Blocking", "ReadOnly"}, sel.Name) {
			break
		}
		value = method.Call(arguments(method.Type(), call))[0]
		if value.Kind() != reflect.Struct || !value.FieldByName("cs").IsValid() {
			break
		}
		all := value.FieldByName("cs").Elem().FieldByName("s")
		arbitrary := value.Type().Name() == "Arbitrary" && sel.Name != "Keys"
		for i := len(words); i < all.Len(); i++ {
			text, isArgument := strings.CutPrefix(all.Index(i).String(), argument)
			words = append(words, goWord{text, arbitrary || !isArgument, line})
		}
	}
	return words
}

// arguments returns values for a method's parameters: the literals of a call, and zero
// values for those that only the running program knows.
func arguments(method reflect.Type, call *ast.CallExpr) (values []reflect.Value) {
	args := call.Args
	if list, ok := lastList(call); ok {
		args = append(slices.Clip(args[:len(args)-1]), list...)
	}
	for i := range max(len(args), method.NumIn()) {
		var t reflect.Type
		switch last := method.NumIn() - 1; {
		case !method.IsVariadic() && i <= last, i < last:
			t = method.In(i)
		case method.IsVariadic() && i < len(args):
			t = method.In(last).Elem()
		default:
			continue
		}
		v := reflect.New(t).Elem()
		if t.Kind() == reflect.String {
			text := ""
			if i < len(args) {
				text = literal(args[i])
			}
			v.SetString(argument + text)
		}
		values = append(values, v)
	}
	return values
}

// lastList returns the elements of a slice that is written out as the last, spread
// argument.
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

// literal returns the text of a string literal, and "" for other expressions.
func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}

// checkChain checks the words that were added to a command since its last check.
func (g *goFile) checkChain(c *chain) {
	words := g.words(c)
	if len(words) <= c.checked || words[0].text == "" {
		return
	}
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	name, cmd := find(g.table, texts)
	if cmd == nil {
		if c.checked == 0 && !strings.HasSuffix(name, " ") {
			g.report(words[0].line, "%s is not a command of Redis 6.2", name)
		}
		return
	}
	count := min(wordsIn(name), len(words))
	for _, w := range words[max(count, c.checked):] {
		if w.fixed && optionForm.MatchString(w.text) && !slices.Contains(cmd.Tokens, w.text) {
			g.report(w.line, "%s is not an option of %s in Redis 6.2", w.text, name)
		}
	}
	if what := newerUse(name, texts[count:]); what != "" {
		g.report(words[len(words)-1].line, "%s", what)
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

// passedOver reports whether a folder does not belong to the module's own code.
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
