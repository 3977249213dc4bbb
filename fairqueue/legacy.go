package fairqueue

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace"
)

// Legacy is a stream that a queue replaces, or several: those of a shuffle queue. The readers of the queue
// move entries into it, those of a stream in order: as many as they read messages, or as many as they ask
// for if the queue has nothing to read. So entries take turns with the queue's messages, writers can switch
// one by one, and old readers can go on in the same group. Readers that sleep look twice a second. A look
// takes at least one entry of each stream that has some.
//
// Nothing is moved while the queue is paused, or refuses messages: then entries wait in their stream.
// Trouble with a stream is logged, and ends no read.
type Legacy struct {
	// Stream is the key of a stream, at most 400 bytes, in any slot of a Redis Cluster.
	Stream string

	// Shuffle is the name of a shuffle queue of github.com/replicate/go/queue, instead of a Stream: its
	// streams are Shuffle:s0, Shuffle:s1 and so on. Those that a shrink made invisible to
	// old readers count, too. On a Redis Cluster, the name needs a {hash tag}.
	Shuffle string

	// Group is the consumer group of the old readers. If it does not exist, it is
	// created at the start of each stream.
	Group string

	// ClaimAfter is after how long an entry that an old reader took and did not acknowledge
	// is moved, at least a millisecond: longer than a live old reader works on one. Entries that
	// the queue's own readers held when they died are moved anyway. Defaults to 0, never.
	ClaimAfter time.Duration

	// Draft makes a draft of an entry. An entry for which it returns an error gets the
	// default. Its dedupe id and source do not count: the entry's stream and id do. Defaults to
	// the tenant "legacy", or "legacy:s7" in stream 7 of a shuffle queue, with the fields as a JSON object
	// in the body, and {"base64": ...} for bytes.
	Draft func(fields map[string]string) (Draft, error)
}

// maxLegacyKey is the longest Stream or Shuffle in bytes: with an entry's id it is a dedupe id.
const maxLegacyKey = 400

func (l Legacy) check() error {
	bad := millrace.ErrBadArgument
	name := cmp.Or(l.Stream, l.Shuffle)
	switch {
	case (l.Stream == "") == (l.Shuffle == ""):
		return bad.Errorf("a Legacy is a Stream or a Shuffle: set one of them")
	case len(name) > maxLegacyKey:
		return bad.Errorf("the name of the Legacy has %d bytes, more than %d", len(name), maxLegacyKey)
	case l.Group == "":
		return bad.Errorf("Legacy has no Group: set the one that the readers of %q used", name)
	case l.ClaimAfter < 0 || l.ClaimAfter > 0 && l.ClaimAfter < time.Millisecond:
		return bad.Errorf("ClaimAfter of the Legacy is %s: set at least a millisecond, or 0 for never", l.ClaimAfter)
	}
	return nil
}

// draft makes the draft of an entry. The dedupe id prevents a second message if the mover
// dies before it removes the entry.
func (l Legacy) draft(key, id string, fields map[string]string) (Draft, error) {
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
		if l.Shuffle != "" {
			d.Tenant += strings.TrimPrefix(key, l.Shuffle)
		}
	}
	d.DedupeID, d.Source, d.Position = "legacy:"+key+":"+id, "", 0
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
