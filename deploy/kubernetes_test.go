package dist

import (
	"regexp"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// memberArgs returns the arguments that docs/KUBERNETES.md gives to a member.
func memberArgs(t *testing.T) (args []string) {
	t.Helper()
	list := regexp.MustCompile(`(?s)command: \[redis-server\]\n *args:\n(.*?)\n *env:`).FindStringSubmatch(read(t, "../docs/KUBERNETES.md"))
	if list == nil {
		t.Fatal("the page has no arguments of a member")
	}
	for line := range strings.Lines(list[1]) {
		_, arg, ok := strings.Cut(line, "- ")
		if !ok {
			t.Fatalf("%q is no argument", line)
		}
		args = append(args, strings.Trim(strings.TrimSpace(arg), `"`))
	}
	return args
}

// TestKubernetesMember starts a server as docs/KUBERNETES.md does: fenced, also after a
// restart. Its answers are why the page has no liveness probe.
func TestKubernetesMember(t *testing.T) {
	t.Parallel()
	args := memberArgs(t)
	for i, arg := range args {
		switch arg {
		case "/data":
			args[i] = t.TempDir()
		case "$(PASSWORD)":
			args[i] = ""
		}
	}
	fenced(t, redistest.Start(t, redistest.Options{Args: args}))
}

// fenced checks that a server has its boot fence, also after a restart.
func fenced(t *testing.T, s *redistest.Server) {
	t.Helper()
	c := s.Client(t)
	for range 2 {
		role, err := c.Do(t.Context(), c.B().Role().Build()).ToArray()
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := role[0].ToString()
		host, _ := role[1].ToString()
		if port, _ := role[2].AsInt64(); kind != "slave" || host != "127.0.0.1" || port != 1 {
			t.Errorf("the server is a %s of %s:%d, and should be one of an address where no server listens", kind, host, port)
		}
		for _, refused := range []struct {
			cmd  rueidis.Completed
			name string
			why  string
		}{
			{c.B().Set().Key("k").Value("v").Build(), "SET", "READONLY"},
			{c.B().Get().Key("k").Build(), "GET", "MASTERDOWN"},
			{c.B().Ping().Build(), "PING", "MASTERDOWN"},
		} {
			if err := c.Do(t.Context(), refused.cmd).Error(); !retry.Code(err, refused.why) {
				t.Errorf("%s = %v, want %s", refused.name, err, refused.why)
			}
		}
		s.Restart()
	}
}
