package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// fleetUnit returns a unit that docs/FLEET.md writes.
func fleetUnit(t *testing.T, name string) string {
	t.Helper()
	unit := regexp.MustCompile(`(?s)/` + name + ` <<'EOF'\n(.*?)   EOF\n`).FindStringSubmatch(read(t, "../docs/FLEET.md"))
	if unit == nil {
		t.Fatalf("the page does not write %s", name)
	}
	return strings.ReplaceAll("\n"+unit[1], "\n   ", "\n") // it is in a list
}

// TestMemberUnit starts a server as the unit does: it is fenced, also after a restart.
func TestMemberUnit(t *testing.T) {
	t.Parallel()
	start := regexp.MustCompile(`ExecStart=/usr/bin/redis-server --port %i --dir \S+((?: \\\n|.)*)`).FindStringSubmatch(fleetUnit(t, "member@.service"))
	if start == nil {
		t.Fatal("the unit starts no server")
	}
	args := strings.Fields(strings.NewReplacer("\\\n", "", "${MAXMEMORY}", "64000000", "${PASSWORD}", `""`).Replace(start[1]))
	for i, arg := range args {
		args[i] = strings.Trim(arg, `"`)
	}
	fenced(t, redistest.Start(t, redistest.Options{Args: args}))
}

// TestFleetUnitsAreValid has systemd check them.
func TestFleetUnitsAreValid(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip(err)
	}
	// The programs and their user may not be on this machine.
	here := strings.NewReplacer("/usr/bin/redis-server", "/bin/true", "/usr/local/bin/millrace", "/bin/true", "User=redis", "User=root")
	folder := t.TempDir()
	for file, unit := range map[string]string{"member@.service": "member@7001.service", "millrace-agent.service": "millrace-agent.service"} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(here.Replace(fleetUnit(t, file))), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-analyze", "verify", filepath.Join(folder, unit)).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("verify %s: %v\n%s", unit, err, out)
		}
	}
}
