package redistest

import (
	"os/exec"
	"strings"
	"testing"
)

// WriteScript writes a script of /bin/sh to a path. Another process writes it: a file that this process
// has open for writing may be open in a child that another test starts at that moment, and the
// kernel runs no file that is ("text file busy").
func WriteScript(t testing.TB, path, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `cat > "$1" && chmod 700 "$1"`, "sh", path)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader("#!/bin/sh\n" + script + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("writing %s: %v %s", path, err, out)
	}
}
