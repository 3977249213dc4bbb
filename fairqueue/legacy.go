package fairqueue

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// Legacy is a plain stream that a queue replaces. The readers of the queue move its entries into
// the queue, in order: one for each message that they read, or as many as they ask for if the
// queue has nothing to read. So entries take turns with the queue's messages, writers can switch one by
// one, and old readers can go on in the same group. Readers that sleep look twice a second.
//
// Nothing is moved while the queue is paused, or refuses messages: then entries wait in the stream.
// Trouble with the stream is logged, and ends no read.
type Legacy struct {
	// Stream is the key of the stream, in any slot of a Redis Cluster.
	Stream string

	// Group is the consumer group of the old readers. If it does not exist, it is
	// created at the start of the stream.
	Group string

	// ClaimAfter is after how long an entry that an old reader took and did not acknowledge
	// is moved, at least a millisecond: longer than a live old reader works on one. Entries that
	// the queue's own readers held when they died are moved anyway. Defaults to 0, never.
	ClaimAfter time.Duration

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
	return d, d.check()
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
