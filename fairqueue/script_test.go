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
		{"queue.write", writeSource, moving},
		{"queue.read", readSource, append(moving[:2:2], dueFragment, reqid.Fragment)},
		{"queue.ack", ackSource, moving},
		{"queue.nack", nackSource, moving},
		{"queue.extend", extendSource, []string{openFragment}},
		{"queue.cancel", cancelSource, moving},
		{"queue.resize", resizeSource, []string{openFragment}},
		{"queue.pause", pauseSource, []string{openFragment}},
		{"queue.stats", statsSource, []string{openFragment}},
		{"queue.redrive", redriveSource, moving},
		{"queue.purge", purgeSource, []string{openFragment}},
		{"queue.delete", deleteSource, nil},
		{"queue.tend", tendSource, []string{openFragment, moveFragment, dueFragment}},
	} {
		for _, p := range luacheck.Check(s.name, s.source, luacheck.Options{Prelude: s.fragments, Keys: keys}) {
			t.Error(p)
		}
	}
}
