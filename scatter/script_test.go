package scatter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script/luacheck"
)

// TestScriptsKeepTheRules holds all scripts of the package to the rules of package
// luacheck, and their keys to those of keys.go, where the beginning of the side keys
// and the names of the values are what a caller gives.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts = %v, %v", files, err)
	}
	known := func(base string) []string {
		all := []string{base + "*"}
		for _, key := range keys("*") {
			all = append(all, base+key)
		}
		return all
	}
	further := map[string][]string{"scatter.flush": {reqid.Fragment}}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(source), "-- fragment ") {
			continue // it is checked in front of those that need it
		}
		name := "scatter." + strings.TrimSuffix(file, ".lua")
		prelude := append([]string{openFragment}, further[name]...)
		for _, p := range luacheck.Check(name, string(source), luacheck.Options{Prelude: prelude, Keys: known}) {
			t.Error(p)
		}
	}
}
