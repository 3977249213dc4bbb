package repo

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write api.txt and docs/PROOFS.md")

// TestAPI compares the exported names of all public packages with api.txt, so that a
// change of the API shows in review.
func TestAPI(t *testing.T) {
	t.Parallel()
	got, err := publicAPI(".")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("api.txt", []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(text)), "\n"), got); diff != "" {
		t.Errorf("api.txt differs (-file +code); run go test -run TestAPI -update ./internal/repo\n%s", diff)
	}
}

// exportedNames is the most exported functions, types and methods of public packages. It goes
// up only if users of another queue miss something, and never above 450.
const exportedNames = 449

// TestExportedNames counts what a user has to read: the functions, types and methods of the
// public packages, not their constants, variables and fields.
func TestExportedNames(t *testing.T) {
	t.Parallel()
	all, err := publicAPI(".")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	total := 0
	for _, line := range all {
		pkg, name, _ := strings.Cut(line, ": ")
		kind, name, _ := strings.Cut(name, " ")
		name, rest, _ := strings.Cut(name, " ")
		if kind == "func" || kind == "type" && !strings.Contains(name, ".") && !strings.HasPrefix(rest, "embeds ") {
			count[pkg]++
			total++
		}
	}
	if total > exportedNames {
		t.Errorf("%d exported functions, types and methods, at most %d are planned: unexport a name without a caller outside its package, "+
			"or let one name do what two did; by package: %v", total, exportedNames, count)
	}
	if total < exportedNames {
		t.Errorf("%d exported functions, types and methods: set exportedNames to that, so that no new ones take their place", total)
	}
}

// publicAPI returns one sorted line per exported declaration, field and method of the
// packages that users can import.
func publicAPI(root string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			hidden := strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"internal", "cmd", "examples", "testdata"}, d.Name())
			if path != root && (hidden || nested == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil && file.Name.Name != "main" {
			for _, line := range exported(file) {
				all = append(all, filepath.ToSlash(filepath.Dir(path))+": "+line)
			}
		}
		return err
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

func exported(file *ast.File) (lines []string) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if decl.Recv != nil {
				receiver := types.ExprString(decl.Recv.List[0].Type)
				if !ast.IsExported(strings.TrimPrefix(receiver, "*")) {
					continue
				}
				name = "(" + receiver + ") " + name
			}
			if decl.Name.IsExported() {
				lines = append(lines, "func "+name+typeParams(decl.Type.TypeParams)+signature(decl.Type))
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						if name.IsExported() {
							lines = append(lines, decl.Tok.String()+" "+name.Name)
						}
					}
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						lines = append(lines, typeLines(spec)...)
					}
				}
			}
		}
	}
	return lines
}

func typeLines(spec *ast.TypeSpec) []string {
	name, assign := spec.Name.Name, " "
	if spec.Assign.IsValid() {
		assign = " = "
	}
	var kind string
	var members *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		kind, members = "struct", typ.Fields
	case *ast.InterfaceType:
		kind, members = "interface", typ.Methods
	default:
		kind = types.ExprString(typ)
	}
	lines := []string{"type " + name + typeParams(spec.TypeParams) + assign + kind}
	if members == nil {
		return lines
	}
	for _, member := range members.List {
		text := " " + types.ExprString(member.Type)
		if method, ok := member.Type.(*ast.FuncType); ok && kind == "interface" {
			text = signature(method)
		}
		if len(member.Names) == 0 {
			lines = append(lines, "type "+name+" embeds"+text)
		}
		for _, field := range member.Names {
			if field.IsExported() {
				lines = append(lines, "type "+name+"."+field.Name+text)
			}
		}
	}
	return lines
}

func signature(typ *ast.FuncType) string {
	return strings.TrimPrefix(types.ExprString(&ast.FuncType{Params: typ.Params, Results: typ.Results}), "func")
}

func typeParams(list *ast.FieldList) string {
	if list == nil {
		return ""
	}
	var all []string
	for _, field := range list.List {
		for _, name := range field.Names {
			all = append(all, name.Name+" "+types.ExprString(field.Type))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}
