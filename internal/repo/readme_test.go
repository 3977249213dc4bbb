package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestREADMEExample holds the README's program to the one that is compiled with
// everything else.
func TestREADMEExample(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("examples/quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(source), "package main\n")
	_, block, ok := strings.Cut(string(readme), "```go\npackage main\n")
	if !ok {
		t.Fatal("the README has no program")
	}
	block, _, _ = strings.Cut(block, "```")
	if block != program {
		t.Errorf("the README's program is not that of examples/quickstart:\n%s", block)
	}
}

// Snippets of the docs may use these packages, and find these variables.
var snippetImports = []string{
	"context", "errors", "fmt", "log", "log/slog", "net/http", "os", "os/signal", "strings", "syscall", "testing", "time", rueidis,
	module, module + "/dial", module + "/doctor", module + "/expiry", module + "/fairqueue", module + "/fairqueue/parts", module + "/fetch", module + "/fleet", module + "/ick",
	module + "/lease", module + "/metrics", module + "/millracetest", module + "/ring", module + "/scatter", module + "/server", module + "/shuffleshard",
	module + "/steal", module + "/tracing", module + "/tracker", module + "/upkeep",
}

const snippetParams = "ctx context.Context, client rueidis.Client, err error, tenant string, q *fairqueue.Queue, " +
	"handle func(context.Context, fairqueue.Message) error, channel *ick.Channel, serverA, serverB, serverC rueidis.Client, t *testing.T"

// TestSnippets compiles the Go snippets of README and docs together. A statement may
// declare a name again, so that a snippet can show alternatives.
func TestSnippets(t *testing.T) {
	t.Parallel()
	pages, _ := filepath.Glob("docs/*.md")
	used := map[string]bool{}
	var code strings.Builder
	for _, page := range append(pages, "README.md") {
		if page == recipes {
			continue // its code is in programs: see TestRecipes
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split("\n"+string(text), "\n```go\n")[1:] {
			block, _, _ = strings.Cut(block, "\n```")
			if strings.HasPrefix(block, "package ") || fromCode.MatchString(block) {
				continue // of a program: see TestREADMEExample, TestFromShowsWhatRuns
			}
			function, err := snippetFunction(block)
			if err != nil {
				t.Errorf("snippet %d of %s: %v", i+1, page, err)
			}
			fmt.Fprintf(&code, "\n// %s, snippet %d\n%s", page, i+1, function)
		}
	}
	for _, m := range regexp.MustCompile(`\b([a-z]+)\.`).FindAllStringSubmatch(code.String()+snippetParams, -1) {
		used[m[1]] = true
	}
	imports := "package snippets\n"
	for _, p := range snippetImports {
		if used[path.Base(p)] {
			imports += fmt.Sprintf("import %q\n", p)
		}
	}
	file := filepath.Join(t.TempDir(), "snippets.go")
	if err := os.WriteFile(file, []byte(imports+code.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull)
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		build.Args = append(build.Args, "-race") // then the packages have been built
	}
	build.Args = append(build.Args, file)
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("snippets do not compile: %v\n%s\n%s", err, out, imports+code.String())
	}
}

// snippetFunction returns a function around statements. Each has a block of its own
// around all that follow, and uses its declarations.
func snippetFunction(block string) (string, error) {
	const head = "package p; func _() {\n"
	file, err := parser.ParseFile(token.NewFileSet(), "", head+block+"\n}", parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	body := file.Decls[0].(*ast.FuncDecl).Body.List
	text := "func _(" + snippetParams + ") {\n"
	for _, statement := range body {
		source := (head + block)[statement.Pos()-1 : statement.End()-1]
		names := map[string]bool{}
		if assign, ok := statement.(*ast.AssignStmt); ok {
			for _, left := range assign.Lhs {
				if name, ok := left.(*ast.Ident); ok {
					names[name.Name] = true
				}
			}
		}
		delete(names, "_")
		text += "{ " + source + "\n"
		for _, name := range slices.Sorted(maps.Keys(names)) {
			text += "_ = " + name + "\n"
		}
	}
	return text + strings.Repeat("}", len(body)+1) + "\n", nil
}
