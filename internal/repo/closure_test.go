package repo

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The most Go lines of this module that the metrics of one queue compile, which read its figures through an interface; and those of a
// program that has the queue, too. docs/decisions/047 says what they are.
const (
	metricsLines = 4_150
	programLines = 14_410
)

// TestMetricsCompileOneStructure: a program that exports the metrics of one structure compiles
// no fleet, and no structure but those that its own one imports.
func TestMetricsCompileOneStructure(t *testing.T) {
	t.Parallel()
	graph := importGraph(t)
	for pkg, own := range map[string]set{
		"":                rooms(),
		"/queuemetrics":   rooms(),
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

// TestMetricsOfAQueueAreFewLines: the metrics of a queue compile no queue, and few lines.
func TestMetricsOfAQueueAreFewLines(t *testing.T) {
	t.Parallel()
	graph := importGraph(t)
	count := func(most int, packages ...string) {
		t.Helper()
		total, lines := 0, map[string]int{}
		deps := ours(graph, packages...)
		for _, dep := range deps {
			lines[dep] = linesOf(t, dep)
			total += lines[dep]
		}
		slices.SortFunc(deps, func(a, b string) int { return lines[b] - lines[a] })
		t.Logf("%6d %s", total, strings.Join(packages, " "))
		for _, dep := range deps {
			t.Logf("%6d %s", lines[dep], dep)
		}
		if total > most {
			t.Errorf("a program with %v compiles %d lines of ours, at most %d are planned: see -v for the packages, and remove an import", packages, total, most)
		}
	}
	metrics := []string{module + "/observe/metrics", module + "/observe/metrics/queuemetrics"}
	count(metricsLines, metrics...)
	count(programLines, append(metrics, module+"/fairqueue")...)
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
