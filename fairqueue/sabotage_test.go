package fairqueue

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
)

// withScript returns the scripts with one passage replaced.
func withScript(t *testing.T, old, replacement string) *scripts {
	t.Helper()
	found := false
	cut := func(source string) string {
		found = found || strings.Contains(source, old)
		return strings.ReplaceAll(source, old, replacement)
	}
	numbered := func(name, source string, fragments ...string) *script.Script {
		all := []string{cut(openFragment), cut(moveFragment)}
		for _, f := range fragments {
			all = append(all, cut(f))
		}
		return script.New(name, cut(source), append(all, reqid.Fragment)...).Numbered()
	}
	s := *standardScripts
	s.write = numbered("fairqueue.write", writeSource)
	s.read = numbered("fairqueue.read", readSource, dueFragment)
	s.ack = numbered("fairqueue.ack", ackSource)
	s.nack = numbered("fairqueue.nack", nackSource)
	s.cancel = numbered("fairqueue.cancel", cancelSource)
	s.redrive = numbered("fairqueue.redrive", redriveSource)
	s.extend = script.New("fairqueue.extend", cut(extendSource), cut(openFragment))
	if !found {
		t.Fatalf("no script has %q: the sabotage would prove nothing", old)
	}
	return &s
}

// withTend returns the script tend with one passage replaced.
func withTend(t *testing.T, old, replacement string) *script.Script {
	t.Helper()
	if !strings.Contains(tendSource, old) {
		t.Fatalf("tend has no %q", old)
	}
	return script.New("fairqueue.tend", strings.ReplaceAll(tendSource, old, replacement), openFragment, moveFragment, dueFragment)
}
