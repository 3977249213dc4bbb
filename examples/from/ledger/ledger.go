// Package ledger is the service that sends mails, for tests. It counts, in Redis, since workers are several processes.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/examples/from/mail"
	"github.com/millrace/millrace/internal/test/redistest"
)

// Ledger has the mails that were sent, and counts the calls of handlers that sent them.
type Ledger struct{ client rueidis.Client }

// New returns the ledger in a Redis.
func New(client rueidis.Client) Ledger { return Ledger{client} }

var errTrouble = errors.New("trouble")

// Send sends a mail once for each key. The address says what happens: "no..." has none, "fails..." and
// "busy..." succeed at the second attempt.
func (l Ledger) Send(ctx context.Context, m mail.Mail) error {
	if strings.HasPrefix(m.To, "no") {
		return mail.ErrNoAddress
	}
	if trouble, _, _ := strings.Cut(m.To, "@"); trouble == "fails" || trouble == "busy" {
		first, err := l.do(ctx, "HINCRBY", "ledger:tried", m.Key, "1")
		switch {
		case err != nil:
			return err
		case first > 1:
		case trouble == "busy":
			return &mail.BusyError{After: 10 * time.Millisecond}
		default:
			return errTrouble
		}
	}
	if _, err := l.do(ctx, "HSETNX", "ledger:sent", m.Key, m.To); err != nil {
		return err
	}
	_, err := l.do(ctx, "HINCRBY", "ledger:handled", m.Key, "1")
	return err
}

func (l Ledger) do(ctx context.Context, words ...string) (int64, error) {
	return l.client.Do(ctx, l.client.B().Arbitrary(words...).Build()).AsInt64()
}

// Counts returns how often each mail was handled, by key.
func (l Ledger) Counts(ctx context.Context) (map[string]int64, error) {
	return l.client.Do(ctx, l.client.B().Hgetall().Key("ledger:handled").Build()).AsIntMap()
}

// WantOnce waits until the mails were handled, and examines that each was handled once, and no others were.
func (l Ledger) WantOnce(t *testing.T, after string, keys []string) {
	t.Helper()
	var counts map[string]int64
	redistest.Eventually(t, fmt.Sprintf("all %d mails are handled after %s", len(keys), after), func() bool {
		var err error
		counts, err = l.Counts(t.Context())
		missing := slices.ContainsFunc(keys, func(key string) bool { return counts[key] == 0 })
		return err == nil && !missing
	})
	for key, n := range counts {
		if n != 1 || !slices.Contains(keys, key) {
			t.Errorf("after %s, %s was handled %d times, want once", after, key, n)
		}
	}
}
