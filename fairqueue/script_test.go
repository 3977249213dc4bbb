package fairqueue

import (
	"testing"

	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script/luacheck"
)

// TestScriptsKeepTheRules holds the scripts to the rules of package luacheck and
// their keys to those of keys.go.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	moving := []string{openFragment, moveFragment, reqid.Fragment}
	for _, s := range []struct {
		name, source string
		fragments    []string
	}{
		{"fairqueue.write", writeSource, moving},
		{"fairqueue.read", readSource, append(moving[:2:2], dueFragment, reqid.Fragment)},
		{"fairqueue.ack", ackSource, moving},
		{"fairqueue.nack", nackSource, moving},
		{"fairqueue.extend", extendSource, []string{openFragment}},
		{"fairqueue.cancel", cancelSource, moving},
		{"fairqueue.resize", resizeSource, []string{openFragment}},
		{"fairqueue.pause", pauseSource, []string{openFragment}},
		{"fairqueue.stats", statsSource, []string{openFragment}},
		{"fairqueue.redrive", redriveSource, moving},
		{"fairqueue.purge", purgeSource, []string{openFragment}},
		{"fairqueue.delete", deleteSource, nil},
		{"fairqueue.tend", tendSource, []string{openFragment, moveFragment, dueFragment}},
	} {
		for _, p := range luacheck.Check(s.name, s.source, luacheck.Options{Prelude: s.fragments, Keys: keys}) {
			t.Error(p)
		}
	}
}
