package fairqueue

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/scripttest"
)

// NamesOf returns the names of the limits that are not nil, in their order.
func NamesOf(o OwnLimits) (names []string) {
	for i, word := range o.words(unsetWord) {
		if word != unsetWord {
			names = append(names, limitNames[i])
		}
	}
	return names
}

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

// Shifted has scripts take the server's clock to be ahead by the seconds in the key ShiftKey.
func Shifted(queues ...*Queue) {
	const ahead = "(redis.call('GET', prefix .. 'clock') or 0)"
	shifted := library.Edit(func(_, source string) string {
		source = strings.ReplaceAll(source, "tonumber(redis.call('TIME')[1])", "tonumber(redis.call('TIME')[1]) + "+ahead)
		return strings.ReplaceAll(source, "local clock = redis.call('TIME')",
			"local clock = redis.call('TIME') clock[1] = string.format('%d', clock[1] + "+ahead+")")
	})
	for _, q := range queues {
		q.run.Scripts = shifted
	}
}

// ShiftKey is the key by which a test moves the clock of a queue.
func ShiftKey(name string) string { return baseKey(name) + ":clock" }

// EndWorkers forgets the named workers of Read, which are reported for a while after their last one.
func EndWorkers(queues ...*Queue) {
	for _, q := range queues {
		q.shared.workers.mu.Lock()
		q.shared.workers.of = nil
		q.shared.workers.mu.Unlock()
	}
}
