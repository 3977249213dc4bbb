package clients_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestVersions: both packages have the version of the other one.
func TestVersions(t *testing.T) {
	t.Parallel()
	var versions []string
	for path, form := range map[string]string{
		"python/millrace/__init__.py": `__version__ = "(.*)"`,
		"typescript/package.json":     `"version": "(.*)"`,
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(form).FindSubmatch(text)
		if match == nil {
			t.Fatalf("%s has no version", path)
		}
		versions = append(versions, string(match[1]))
	}
	if versions[0] != versions[1] {
		t.Errorf("the versions are %q", versions)
	}
}

// TestPythonPackage builds the package as setuptools does, which Debian has as python3-setuptools; without it, it compiles
// the files and reads pyproject.toml.
func TestPythonPackage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("python")); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) error {
		p := exec.CommandContext(t.Context(), need(t, "python3"), args...)
		p.Dir = folder
		output, err := p.CombinedOutput()
		if err != nil {
			t.Logf("%s", output)
		}
		return err
	}
	if err := run("-m", "compileall", "-q", "millrace"); err != nil {
		t.Fatal(err)
	}
	if run("-c", `import setuptools; assert int(setuptools.__version__.split(".")[0]) >= 61`) != nil {
		if err := run("-c", `import sys; sys.version_info < (3, 11) or __import__("tomllib").load(open("pyproject.toml", "rb"))`); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := run("-c", `from setuptools import build_meta; build_meta.build_sdist(".")`); err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(filepath.Join(folder, "millrace-*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives: %q, %v", archives, err)
	}
	files := unpack(t, archives[0])
	for _, want := range []string{"millrace/__init__.py", "millrace/_http.py", "millrace/_queue.py", "millrace/_worker.py", "millrace/py.typed", "README.md"} {
		if !slices.ContainsFunc(files, func(name string) bool { return strings.HasSuffix(name, "/"+want) }) {
			t.Errorf("the package lacks %s: %q", want, files)
		}
	}
}

// unpack returns the names of the files in an archive.
func unpack(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

// TestNodePackage lists what npm would publish.
func TestNodePackage(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not part of what the tests need")
	}
	folder := t.TempDir()
	clients(folder)[0].command(t, "driver")
	p := exec.CommandContext(t.Context(), npm, "pack", "--dry-run", "--json", "--offline", "--ignore-scripts")
	p.Dir = filepath.Join(folder, "node_modules", "millrace")
	output, err := p.Output()
	var packages []struct {
		Files []struct{ Path string }
	}
	if err != nil || json.Unmarshal(output, &packages) != nil || len(packages) != 1 {
		t.Fatalf("npm pack: %v, %s", err, output)
	}
	for _, want := range []string{"package.json", "dist/index.js", "dist/index.d.ts", "dist/worker.js", "dist/worker.d.ts"} {
		if !slices.ContainsFunc(packages[0].Files, func(f struct{ Path string }) bool { return f.Path == want }) {
			t.Errorf("the package lacks %s: %v", want, packages[0].Files)
		}
	}
}
