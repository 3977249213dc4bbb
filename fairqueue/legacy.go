package fairqueue

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// legacyInterval is how often a reader checks a legacy stream that is empty.
const legacyInterval = 5 * time.Second

// Legacy is a plain stream that a queue replaces. Readers of the queue that find nothing move
// its entries into the queue, in order. So every entry is handled, writers can switch one by
// one, and old readers can go on in the same group.
type Legacy struct {
	// Stream is the key of the stream, in any slot of a Redis Cluster.
	Stream string

	// Group is the consumer group of the old readers. If it does not exist, it is
	// created at the start of the stream.
	Group string

	// Draft makes a draft of an entry. An entry for which it returns an error gets the
	// default. Its dedupe id and source do not count: the entry's id does. Defaults to
	// the tenant "legacy", with the fields as a JSON object in the
	// body, and {"base64": ...} for bytes.
	Draft func(fields map[string]string) (Draft, error)
}

// draft makes the draft of an entry. The dedupe id prevents a second message if the mover
// dies before it removes the entry.
func (l Legacy) draft(id string, fields map[string]string) (Draft, error) {
	d, err := Draft{}, error(nil)
	if l.Draft != nil {
		if d, err = l.Draft(fields); err == nil {
			err = d.check()
		}
	}
	if l.Draft == nil || err != nil {
		body, err := json.Marshal(texts(fields))
		if err != nil {
			return d, err
		}
		d = Draft{Tenant: "legacy", Body: body}
	}
	d.DedupeID, d.Source, d.Position = "legacy:"+id, "", 0
	return d, nil
}

// adopt moves up to n entries of the legacy stream into the queue, and returns how many.
func (q *Queue) adopt(ctx context.Context, n int) (int, error) {
	l := q.cfg.Legacy
	if l.Stream == "" {
		return 0, nil
	}
	q.mu.Lock()
	empty := time.Since(q.legacyEmpty) < legacyInterval
	q.mu.Unlock()
	if empty {
		return 0, nil
	}
	entries, err := q.legacyEntries(ctx, n)
	if err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		q.mu.Lock()
		q.legacyEmpty = time.Now()
		q.mu.Unlock()
		return 0, nil
	}
	drafts, ids := make([]Draft, len(entries)), make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
		if drafts[i], err = l.draft(e.ID, e.FieldValues); err != nil {
			return 0, err
		}
	}
	if _, err := q.WriteBatch(ctx, drafts...); err != nil {
		return 0, err
	}
	c := q.client
	_, err = script.Prompt(ctx, func(ctx context.Context) (int64, error) {
		for _, reply := range c.DoMulti(ctx,
			c.B().Xack().Key(l.Stream).Group(l.Group).Id(ids...).Build(),
			c.B().Xdel().Key(l.Stream).Id(ids...).Build(),
		) {
			if err := reply.Error(); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	return len(entries), err
}

// legacyEntries takes entries of the stream: first those whose reader died, then new ones.
func (q *Queue) legacyEntries(ctx context.Context, n int) ([]rueidis.XRangeEntry, error) {
	c, l := q.run.Client, q.cfg.Legacy
	entries, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.XRangeEntry, error) {
		claimed, err := c.Do(ctx, c.B().Xautoclaim().Key(l.Stream).Group(l.Group).Consumer(legacyConsumer()).
			MinIdleTime(strconv.FormatInt(defaultVisibility.Milliseconds(), 10)).Start("0").Count(int64(n)).Build()).ToArray()
		if err != nil {
			return nil, err
		}
		entries, err := claimed[1].AsXRange()
		if err != nil || len(entries) > 0 {
			return entries, err
		}
		fresh, err := c.Do(ctx, c.B().Xreadgroup().Group(l.Group, legacyConsumer()).Count(int64(n)).Streams().Key(l.Stream).Id(">").Build()).AsXRead()
		if rueidis.IsRedisNil(err) {
			return nil, nil
		}
		return fresh[l.Stream], err
	})
	if !retry.Code(err, "NOGROUP") {
		return entries, err
	}
	if made, err := q.legacyGroup(ctx); err != nil || !made {
		return nil, err
	}
	return q.legacyEntries(ctx, n)
}

// legacyGroup creates the group at the start of the stream, if there is a stream, and reports
// whether it did.
func (q *Queue) legacyGroup(ctx context.Context) (bool, error) {
	c, l := q.run.Client, q.cfg.Legacy
	there, err := script.Prompt(ctx, func(ctx context.Context) (int64, error) {
		return c.Do(ctx, c.B().Exists().Key(l.Stream).Build()).AsInt64()
	})
	if err != nil || there == 0 {
		return false, err
	}
	_, err = script.Prompt(ctx, func(ctx context.Context) (string, error) {
		return c.Do(ctx, c.B().XgroupCreate().Key(l.Stream).Group(l.Group).Id("0").Build()).ToString()
	})
	if retry.Code(err, "BUSYGROUP") {
		err = nil
	}
	return err == nil, err
}

// texts returns fields as JSON values: a value that is not UTF-8 as an object with its
// base64.
func texts(fields map[string]string) map[string]any {
	all := make(map[string]any, len(fields))
	for name, value := range fields {
		name = strings.ToValidUTF8(name, "\uFFFD")
		if all[name] = value; !utf8.ValidString(value) {
			all[name] = map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(value))}
		}
	}
	return all
}

// legacyConsumer is this process's name in the group.
func legacyConsumer() string {
	host, _ := os.Hostname()
	return host + ":" + strconv.Itoa(os.Getpid())
}

// resting ends when a reader that sleeps is to check the legacy stream.
func (q *Queue) resting(ctx context.Context) (context.Context, context.CancelFunc) {
	if q.cfg.Legacy.Stream == "" {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, longestSleep)
}
