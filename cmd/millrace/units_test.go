package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestUnitsUseFlagsOfServe looks whether serve knows the flags of the units and of the
// Dockerfile.
func TestUnitsUseFlagsOfServe(t *testing.T) {
	t.Parallel()
	flag := regexp.MustCompile(`--[a-z-]+`)
	known := flag.FindAllString(shell{t: t}.run("serve", "--help").stdout, -1)
	var used []string
	for _, name := range []string{"deploy/millrace.service", "deploy/millrace.service.d/public.conf", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
			if strings.HasPrefix(line, "ExecStart=/") || strings.HasPrefix(line, "CMD ") {
				used = append(used, flag.FindAllString(line, -1)...)
			}
		}
	}
	unknown := slices.DeleteFunc(slices.Clone(used), func(f string) bool { return slices.Contains(known, f) })
	if len(used) < 5 || len(unknown) > 0 {
		t.Errorf("flags %q are used, of which serve does not know %q", used, unknown)
	}
}
