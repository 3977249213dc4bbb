package repo

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// queueLines is the most Go lines of this module that a program compiles which exports the
// metrics of one queue: those of fairqueue with all that it imports are 12,700 of them. docs/decisions/047 says why.
const queueLines = 15_150

// TestMetricsCompileOneStructure: a program that exports the metrics of one structure compiles
// no fleet, and no structure but those that its own one imports.
func TestMetricsCompileOneStructure(t *testing.T) {
	t.Parallel()
	graph := importGraph(t)
	for pkg, own := range map[string]set{
		"":                rooms(),
		"/queuemetrics":   rooms("fairqueue"),
		"/ickmetrics":     rooms("ick"),
		"/expirymetrics":  rooms("expiry"),
		"/pinnedmetrics":  rooms("pinned"),
		"/trackermetrics": rooms("tracker"),
		"/fetchmetrics":   rooms("fetch", "pinned", "lease"),
		"/stealmetrics":   rooms("steal"),
		"/upkeepmetrics":  anyOf(structures, rooms("steal")), // upkeep installs the jobs of all
	} {
		for _, dep := range ours(graph, module+"/observe/metrics", module+"/observe/metrics"+pkg) {
			if (structures(dep) || rooms("steal", "fleet", "internal/fleet", "server", "cmd", "internal/survey")(dep)) && !own(dep) {
				t.Errorf("a program with observe/metrics%s compiles %s: move what needs it to a package of its own", pkg, dep)
			}
		}
	}
}

func TestMetricsOfAQueueAreFewLines(t *testing.T) {
	t.Parallel()
	total, lines := 0, map[string]int{}
	deps := ours(importGraph(t), module+"/observe/metrics", module+"/observe/metrics/queuemetrics")
	for _, dep := range deps {
		lines[dep] = linesOf(t, dep)
		total += lines[dep]
	}
	slices.SortFunc(deps, func(a, b string) int { return lines[b] - lines[a] })
	for _, dep := range deps {
		t.Logf("%6d %s", lines[dep], dep)
	}
	if total > queueLines {
		t.Errorf("a program that exports the metrics of a queue compiles %d lines of ours, at most %d are planned: see -v for the packages, and remove an import", total, queueLines)
	}
}

// ours returns the packages of this module that a program with these packages compiles.
func ours(graph map[string][]string, packages ...string) (all []string) {
	for len(packages) > 0 {
		pkg := packages[0]
		packages = packages[1:]
		if under(module)(pkg) && !slices.Contains(all, pkg) {
			all = append(all, pkg)
			packages = append(packages, graph[pkg]...)
		}
	}
	return all
}

// linesOf returns the lines of Go that a package of this module has without its tests.
func linesOf(t *testing.T, importPath string) (n int) {
	t.Helper()
	files, err := filepath.Glob("." + strings.TrimPrefix(importPath, module) + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}
