package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
)

// memberUnit returns the unit of a member that docs/FLEET.md has.
func memberUnit(t *testing.T) string {
	t.Helper()
	unit := regexp.MustCompile("(?s)```ini\n(.*?)```").FindStringSubmatch(read(t, "../docs/FLEET.md"))
	if unit == nil {
		t.Fatal("the page has no unit")
	}
	return strings.ReplaceAll(unit[1], "\n   ", "\n") // it is in a list
}

// TestMemberUnit starts a server as the unit does: it is fenced, also after a restart.
func TestMemberUnit(t *testing.T) {
	t.Parallel()
	start := regexp.MustCompile(`ExecStart=/usr/bin/redis-server --port %i --dir \S+((?: \\\n|.)*)`).FindStringSubmatch(memberUnit(t))
	if start == nil {
		t.Fatal("the unit starts no server")
	}
	args := strings.Fields(strings.NewReplacer("\\\n", "", "${MAXMEMORY}", "64000000", "${PASSWORD}", `""`).Replace(start[1]))
	for i, arg := range args {
		args[i] = strings.Trim(arg, `"`)
	}
	fenced(t, redistest.Start(t, redistest.Options{Args: args}))
}

// TestMemberUnitIsValid has systemd check it.
func TestMemberUnitIsValid(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip(err)
	}
	// The server and its user may not be on this machine.
	text := strings.NewReplacer("/usr/bin/redis-server", "/bin/true", "User=redis", "User=root").Replace(memberUnit(t))
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "member@.service"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", filepath.Join(folder, "member@7001.service")).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
}
