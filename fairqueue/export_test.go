package fairqueue

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/script/scripttest"
)

// SoonAlone has a queue count a tenant as alone after half a second without another one, instead of a minute.
func SoonAlone(t *testing.T, queues ...*Queue) {
	t.Helper()
	for _, q := range queues {
		q.run.Scripts = scripttest.Without(t, library, "> 60000", "> 500")
	}
}

// SoonAlonePool returns a pool that does so, too.
func SoonAlonePool(t *testing.T, handlers int) *Pool {
	t.Helper()
	p, err := NewPool(handlers)
	if err != nil {
		t.Fatal(err)
	}
	p.alone = 500 * time.Millisecond
	return p
}
