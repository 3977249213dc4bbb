package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestChannel marks, resizes, and hands batches to commands, whose exit codes decide the outcome.
func TestChannel(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(1, "not_found", "ick", "channel", "stats", name)
	s.want("3 new, 0 lowered\n", "ick", "channel", "add", name, "1", "a", "2", "bad", "3", `{"base64":"/w=="}`)
	s.want("1 new, 0 lowered\n", "ick", "channel", "add", name, "now", "two\nlines")
	s.want(`{"size":2}`+"\n", "ick", "channel", "resize", name, "2", "--json")
	if got := s.run("ick", "channel", "stats", name).stdout; !strings.Contains(got, "2 lists, 0 consumers, 4 distinct") || !strings.Contains(got, name+"/3") {
		t.Errorf("stats say %q", got)
	}
	if got := s.run("ick", "channel", "ls").stdout; !strings.Contains(got, name+"\n") {
		t.Errorf("ls says %q, want %s", got, name)
	}

	once := filepath.Join(t.TempDir(), "once")
	stdout, stderr, stop := s.during("ick", "channel", "work", name, "--max", "1", "--worker", "app-3", "--exec", `read member
case $member in
bad) echo first >&2; echo "not a page" >&2; exit 65;;
a) test -e "`+once+`" || { touch "`+once+`"; exit 3; };;
esac
echo "$MILLRACE_CHANNEL $member"`)
	defer stop()
	defer func() {
		if t.Failed() {
			t.Log(stderr)
		}
	}()
	redistest.Eventually(t, "all are handled, and the lists that are too many are gone", func() bool {
		doc := answer[ops.ChannelStats](s, "ick", "channel", "stats", name)
		return doc.Distinct == 0 && doc.Parked == 1 && len(doc.Icks) == 2 && doc.Icks[0].Consumer == "app-3"
	})
	for _, line := range []string{name + " a\n", name + ` {"base64":"/w=="}` + "\n", name + ` {"base64":"dHdvCmxpbmVz"}` + "\n"} {
		if !strings.Contains(stdout.String(), line) {
			t.Errorf("the commands print %q, want %q", stdout, line)
		}
	}
	if code := stop(); code != 0 {
		t.Errorf("it exits with %d", code)
	}
	reasons := s.run("ick", "parked", name+"/0").stdout + s.run("ick", "parked", name+"/1").stdout
	if !strings.Contains(reasons, "not a page") {
		t.Errorf("parked %q, want the last line of standard error", reasons)
	}
	s.want(`{"lost":1}`+"\n", "ick", "channel", "rm", name, "--json")
	s.want("deleted, with 0 marks\n", "ick", "channel", "rm", name)
}

func TestChannelIsRefused(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(2, "bad_usage", "ick", "channel", "work", name)
	s.refused(2, "bad_usage", "ick", "channel", "add", name, "1", "a", "2")
	s.refused(2, "bad_argument", "ick", "channel", "resize", name, "1025")
	for _, flags := range []string{"--max 0", "--grace -1s", "--settle -1s", "--worker " + strings.Repeat("w", 65)} {
		s.refused(2, "bad_argument", append([]string{"ick", "channel", "work", name, "--exec", "true"}, strings.Fields(flags)...)...)
	}
	s.refused(2, "bad_name", "ick", "channel", "stats", "mr:x")
}
