package luacheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// builders says what each method of rueidis' builder types adds to a command:
// by the name of the type and that of the method.
type builders map[string]map[string]method

// method is one step of a builder.
type method struct {
	words []string // the fixed words that it adds, in order; arguments come behind
	next  string   // the type that it returns
}

// readBuilders reads the source of the rueidis version that a module uses.
func readBuilders(root string) (builders, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/redis/rueidis")
	list.Dir = root
	dir, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot find the source of rueidis; run %q: %w", list, err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "internal", "cmds", "gen_*.go"))
	if err != nil {
		return nil, err
	}
	all := builders{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				all.add(fn)
			}
		}
	}
	if len(all["Builder"]) == 0 {
		return nil, fmt.Errorf("no builder methods in rueidis' internal/cmds/gen_*.go: has its layout changed?")
	}
	return all, nil
}

// add takes in one method. What it adds to the command are the arguments of its
// calls of append.
func (b builders) add(fn *ast.FuncDecl) {
	if fn.Recv == nil || fn.Type.Results == nil {
		return
	}
	receiver, ok := fn.Recv.List[0].Type.(*ast.Ident)
	result, ok2 := fn.Type.Results.List[0].Type.(*ast.Ident)
	if !ok || !ok2 {
		return
	}
	m := method{next: result.Name}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "append" {
			for _, arg := range call.Args[1:] {
				if text, ok := literal(arg); ok {
					m.words = append(m.words, text)
				}
			}
		}
		return true
	})
	if b[receiver.Name] == nil {
		b[receiver.Name] = map[string]method{}
	}
	b[receiver.Name][fn.Name.Name] = m
}

// literal returns the text of a string literal.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
