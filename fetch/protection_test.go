package fetch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// protections are what keeps the tests from failing, and how to take it out. The
// first four are tried in every run, the others in long ones.
var protections = []struct {
	name, file, old, replacement string
	test                         string // that must catch it, hang or crash
}{
	{"one flight a key", "flight.go", "if f := c.flights[r.key]; f != nil {", "if f := c.flights[r.key]; f != nil && false {",
		"TestOutcomes/all_in_one_process"},
	{"one lease a key", "holder.go", "c.leases.Acquire(asking, c.leaseName(key), ", "c.leases.Acquire(asking, c.leaseName(key+time.Now().String()), ",
		"TestHerd"},
	{"another look under the lease", "flight.go", "if err != nil || !e.fresh() {", "if err != nil || e.found() || !e.found() {", "TestHerd"},
	{"no context of a caller's", "flight.go", "context.WithoutCancel(ctx)", "ctx", "TestCancelledCallerFailsNobody"},
	{"what nobody waits for is not begun", "flight.go", "f.quit()\n\t\tc.land(f)", "_ = f.quit", "TestAllCallersGo"},
	{"no more than the slots", "flight.go", "defer func() { <-c.slots }()", "<-c.slots", "TestOutage"},
	{"no slot within a slot", "flight.go", "context.WithValue(f.ctx, slot{c}, true)", "context.WithValue(f.ctx, slot{}, true)", "TestNestedInAnOutage"},
	{"nothing stored without the lease", "holder.go", "if storing.Err() != nil {", "if storing = ctx; storing.Err() != nil {", "TestOverrun"},
	{"taken back without the lease", "holder.go", "if !stored || !errors.Is(err, lease.ErrLost) {", "if err != nil || held != nil {", "TestTakenBack"},
	{"forgetting takes the lease", "fetch.go", "c.depose(ctx, key)", "error(nil)", "TestForget"},
	{"none ends the old value", "holder.go", "if e.lifetime() == 0 {", "if e.lifetime() == 0 { return true\n", "TestNoneReplacesTheOld"},
	{"an old value has its time", "flight.go", "lookErr == nil && e.found() {", "lookErr == nil {\ne = f.old", "TestStaleWindowEndsWhileLoading"},
	{"panics are caught", "flight.go", "loop.Protect(", "func(f func() error) error { _ = loop.Protect; return f() }(", "TestPanic"},
}

// always is how many protections are tried in every run, and not only with MILLRACE_SOAK:
// the package is built for each.
const always = 1

// TestEveryProtectionIsNeeded takes each protection out and expects its test to
// notice.
func TestEveryProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	tried := protections
	if os.Getenv("MILLRACE_SOAK") == "" {
		tried = tried[:always]
	}
	for _, p := range tried {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			out, err := without(t, p.file, p.old, p.replacement, "-run", "^"+strings.ReplaceAll(p.test, "/", "$/^")+"$")
			if err == nil || !strings.Contains(out, "FAIL: "+p.test) && !strings.Contains(out, "panic: ") {
				t.Errorf("%s without the protection: %v\n%s", p.test, err, out)
			}
		})
	}
}

// without runs tests of the package with one passage of a file replaced.
func without(t *testing.T, file, old, replacement string, args ...string) (output string, err error) {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(source), old) != 1 {
		t.Fatalf("%s has %q not once: the sabotage would prove nothing", file, old)
	}
	cut := filepath.Join(t.TempDir(), file)
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	table, err := json.Marshal(map[string]map[string]string{"Replace": {path: cut}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{cut: []byte(strings.Replace(string(source), old, replacement, 1)), overlay: table} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{"test", "-vet=off", "-count=1", "-timeout=5s", "-overlay", overlay}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		flags = append(flags, "-race") // all that this package needs has been built for this test
	}
	test := exec.CommandContext(t.Context(), "go", append(flags, args...)...)
	out, err := test.CombinedOutput()
	return string(out), err
}
