package fairqueue

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace"
)

// readRaw reads the keys of a queue; ok is false if the server is away.
func readRaw(t testing.TB, q *Queue) (r *keys, ok bool) {
	t.Helper()
	r, err := q.readKeys(t.Context())
	if errors.Is(err, millrace.ErrNotFound) {
		return &keys{}, true
	}
	return r, err == nil
}

// wrongs returns the faults in the keys, "" for none.
func (r *keys) wrongs() string {
	r.check()
	return strings.Join(r.wrong, "\n")
}
