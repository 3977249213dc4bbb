package repo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUserOfOneStructure makes a module that imports fairqueue alone, and looks at all that it
// gets from the go command: it builds nothing of etcd and of the command, lists nothing of
// them in go.mod, and needs no checksum and no copy of them. The go command asks no proxy: it
// needs only modules that this test was compiled with, so a fresh cache holds them. That is
// why the test does not tidy, which also reads modules that tests of dependencies import.
func TestUserOfOneStructure(t *testing.T) {
	t.Parallel()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go \S+`).FindString(string(mod))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  fmt.Sprintf("module example.com/user\n\n%s\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", version, module, module, root),
		"main.go": "package main\n\nimport _ \"" + module + "/fairqueue\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	built := run("list", "-deps", ".") // completes go.mod and go.sum
	run("mod", "vendor")
	for what, text := range map[string]string{
		"go.mod":             read("go.mod"),
		"go.sum":             read("go.sum"),
		"vendor/modules.txt": read("vendor/modules.txt"),
		"go list -deps":      built,
	} {
		if !strings.Contains(text, "redis/rueidis") {
			t.Errorf("%s does not even list rueidis:\n%s", what, text)
		}
		for _, foreign := range []string{etcd, grpc, "go.uber.org/zap", "alecthomas/kong", charm + "/", charmbracelet} {
			if strings.Contains(text, foreign) {
				t.Errorf("%s lists %s", what, foreign)
			}
		}
	}
}
