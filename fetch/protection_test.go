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

// protections are the safeguards that keep the tests from failing, and how to take each out. The
// first four are tried in every run, the others in long ones.
var protections = []struct {
	name, file, old, replacement string
	test                         string // that must catch it, hang or crash
}{
	{"one flight a key", "flight.go", "if f := c.flights[r.key]; f != nil {", "if f := c.flights[r.key]; f != nil && false {",
		"TestOutcomes/all_in_one_process"},
	{"one lease a key", "lease.go", "c.leases.Acquire(asking, c.leaseName(key), ", "c.leases.Acquire(asking, c.leaseName(key+time.Now().String()), ",
		"TestHerd"},
	{"another look under the lease", "flight.go", "case !e.fresh() || f.old.fresh()", "case e.found() || f.old.fresh()", "TestHerd"},
	{"no context of a caller's", "flight.go", "context.WithoutCancel(ctx)", "ctx", "TestCancelledCallerFailsNobody"},
	{"a flight without callers begins no load", "flight.go", "f.quit()\n\t\tc.remove(f)", "_ = f.quit", "TestAllCallersGo"},
	{"no more than the slots", "flight.go", "defer func() { <-c.slots }()", "<-c.slots", "TestOutage"},
	{"no slot within a slot", "flight.go", "context.WithValue(f.ctx, slot{c}, true)", "context.WithValue(f.ctx, slot{}, true)", "TestNestedInAnOutage"},
	{"nothing older is stored", "lease.go", "pinned.SetConfig{Claim: claim}", "pinned.SetConfig{}", "TestOverrun"},
	{"nothing forgotten is stored", "lease.go", "pinned.SetConfig{Claim: claim}", "pinned.SetConfig{}", "TestForgetBeforeItsLoaderIsKilled"},
	{"nothing forgotten is stored when a third loads", "lease.go", "pinned.SetConfig{Claim: claim}", "pinned.SetConfig{}", "TestForgetWhileAThirdLoads"},
	{"nothing forgotten is returned", "lease.go", "pinned.SetConfig{Claim: claim}", "pinned.SetConfig{}", "TestForgetModel"},
	{"a late call asks again", "fetch.go", "late && a.refused && !r.again", "late && false", "TestForgetAndThoseWhoCome"},
	{"no look from before is remembered", "memory.go", "if m.forgets == since {", "{", "TestForgetDuringALook"},
	{"forgetting takes the lease", "fetch.go", "c.revoke(ctx, key)", "", "TestForget"},
	{"none ends the old value", "lease.go", "if lifetime == 0 {", "if lifetime == 0 { return true\n", "TestNoneReplacesTheOld"},
	{"an old value has its time", "flight.go", "lookErr == nil && e.found() && e.kind != failedKind {", "lookErr == nil {\ne = f.old", "TestStaleWindowEndsWhileLoading"},
	{"a failed load rests", "flight.go", "c.store(f.ctx, f.key, claim, entry{kind: failedKind", "_ = rest < 0 && c.store(f.ctx, f.key, claim, entry{kind: failedKind",
		"TestFailureIsShared"},
	{"an old value rests", "flight.go", "e.retry = max(left-rest, time.Millisecond)", "e.retry = 0 * time.Millisecond", "TestOldValueRests"},
	{"a waiter takes the failure", "flight.go", "case e.kind == failedKind:", "case e.kind == failedKind && f.old.found():", "TestFailureWhileOthersWait"},
	{"an outage is remembered through", "memory.go", "m.last, m.seen, m.failure = e, time.Now(), nil", "m.failure = nil",
		"TestLastValueInAnOutage"},
	{"a failure is remembered in an outage", "flight.go", "c.memory.fail(f.key, err, c.cfg.Errors)", "", "TestOutageUnderLoad"},
	{"a key is computed once in Away", "fetch.go", "r.age < c.cfg.Away ||", "r.age < 0 ||", "TestOutageUnderLoad"},
	{"what is remembered gets old", "memory.go", "r.last.left -= r.age; ", "", "TestLastValueHasItsTime"},
	{"memory is bounded", "memory.go", "m.bytes > m.most &&", "m.bytes < 0 &&", "TestMemoryIsBounded"},
	{"forgetting forgets what is remembered", "fetch.go", "c.memory.forget(key)", "", "TestLastValueInAnOutage"},
	{"one early flight", "flight.go", "if c.flights[r.key] == nil {", "if c.flights != nil {", "TestEarly"},
	{"no early load in the first half", "flight.go", "left > e.ttl/2 ||", "", "TestDrawn"},
	{"no early load after a failure", "flight.go", "|| e.paused() {", "{", "TestDrawn"},
	{"an answer that came too late is no outage", "flight.go", "if errors.Is(err, lease.ErrExpired) {", "if false {", "TestSlowAnswers"},
	{"an early load knows its value", "flight.go", "|| f.old.fresh() && e.left <= f.old.left", "", "TestEarly"},
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
	for _, p := range protections {
		source, err := os.ReadFile(p.file)
		if err != nil || strings.Count(string(source), p.old) != 1 {
			t.Errorf("%s has %q not once: the sabotage would prove nothing", p.file, p.old)
		}
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
