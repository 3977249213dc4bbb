package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const findings = module + "/internal/finding"

// notThresholds are files of such packages that compare with numbers for other reasons: they refuse
// settings, write numbers, or keep times of their own.
var notThresholds = []string{
	"internal/fleet/directory/log.go", "internal/fleet/directory/settings.go",
	"internal/survey/fleet.go", "internal/survey/survey.go", "server/internal/dashboard/words.go",
}

// TestOneSeverity: nothing but package finding has a scale of how bad something is, and packages
// that find something compare with its thresholds, not with numbers of their own.
func TestOneSeverity(t *testing.T) {
	t.Parallel()
	packages := map[string][]*ast.File{}
	names := map[*ast.File]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err == nil {
			name = filepath.ToSlash(name)
			packages[path.Dir(name)] = append(packages[path.Dir(name)], file)
			names[file] = name
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, files := range packages {
		if module+"/"+dir == findings {
			continue
		}
		finds := slices.ContainsFunc(files, func(f *ast.File) bool {
			return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+findings+`"` })
		})
		limits := map[string]bool{} // constants of the package that are a time or a share
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					if word := strings.ToLower(n.Name.Name); !n.Assign.IsValid() && (word == "severity" || word == "level" || word == "tone") {
						t.Errorf("%s: the type %s is a scale of its own: use finding.Severity", names[file], n.Name)
					}
				case *ast.ValueSpec:
					for i, value := range n.Values {
						limits[n.Names[i].Name] = limits[n.Names[i].Name] || isLimit(value, nil)
					}
				}
				return true
			})
		}
		for _, file := range files {
			if !finds || slices.Contains(notThresholds, names[file]) {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				c, ok := n.(*ast.BinaryExpr)
				if ok && slices.Contains([]token.Token{token.LSS, token.LEQ, token.GTR, token.GEQ}, c.Op) && (isLimit(c.X, limits) || isLimit(c.Y, limits)) {
					t.Errorf("%s: a comparison with %s: thresholds are in internal/finding/thresholds.go", names[file], types.ExprString(c))
				}
				return true
			})
		}
	}
}

// isLimit reports whether an expression has a unit of time, a fraction, or one of these names.
func isLimit(e ast.Expr, names map[string]bool) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr, *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			is = is || ok && x.Name == "time" && slices.Contains([]string{"Millisecond", "Second", "Minute", "Hour"}, n.Sel.Name)
			return false
		case *ast.BasicLit:
			is = is || n.Kind == token.FLOAT
		case *ast.Ident:
			is = is || names[n.Name]
		}
		return true
	})
	return is
}
