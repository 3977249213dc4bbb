package fairqueue

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// shuffleMargin is how many streams are looked for behind the last one that old readers know, or that
	// exists. A shuffle queue that shrank may have left messages in the first stream behind.
	shuffleMargin = 64

	// shuffleMost is how many streams of a shuffle queue are looked for, at most.
	shuffleMost = 4096
)

// legacySource is the streams of one Legacy. The move that is under way owns it.
type legacySource struct {
	q   *Queue
	cfg Legacy

	streams []*legacyStream // of a shuffle queue those that are looked for
	there   []*legacyStream // those that exist, as last seen
	next    int             // the stream with which a look begins

	rest   time.Time // no page is taken before
	failed bool      // the last page
	claims time.Time // when the next claims are due
}

// legacyStream is one stream of a source.
type legacyStream struct {
	key    string
	after  string    // the id in the own list behind which reads go on; ">" behind the list
	passed time.Time // when it last began at the front of the list
	cursor string    // where XAUTOCLAIM goes on
}

// legacyEntry is an entry of a stream. It has no fields if it was deleted while it was pending.
type legacyEntry struct {
	stream *legacyStream
	id     string
	fields map[string]string
}

func newLegacySource(q *Queue, cfg Legacy) *legacySource {
	s := &legacySource{q: q, cfg: cfg}
	if cfg.Stream != "" {
		s.streams = []*legacyStream{{key: cfg.Stream}}
	}
	return s
}

// consumer is the name of all movers of the queue in the group.
func (s *legacySource) consumer() string { return "mr:" + s.q.name }

func (s *legacySource) resting() bool { return time.Now().Before(s.rest) }

// again has the next page begin with all that the consumer has pending.
func (s *legacySource) again() {
	for _, stream := range s.streams {
		stream.after = ""
	}
}

// take takes up to n entries, or one of each stream if that is more: those that a mover of the queue left,
// those that old readers left, and new ones.
func (s *legacySource) take(ctx context.Context, n int) ([]legacyEntry, error) {
	return script.Prompt(ctx, func(ctx context.Context) ([]legacyEntry, error) {
		if err := s.find(ctx); err != nil {
			return nil, err
		}
		entries, err := s.look(ctx, n)
		if retry.Code(err, "NOGROUP") {
			s.again() // what it has taken meanwhile is pending
			if err = s.group(ctx); err == nil {
				entries, err = s.look(ctx, n)
			}
		}
		return entries, err
	})
}

// find finds the streams of a shuffle queue that exist. Old writers create a stream with its first entry,
// and streams expire: so each take begins with this. Two commands find whether their number changed.
func (s *legacySource) find(ctx context.Context) error {
	if s.cfg.Shuffle == "" {
		s.there = s.streams
		return nil
	}
	c := s.q.client
	known, err := c.Do(ctx, c.B().Hget().Key(s.cfg.Shuffle+":meta").Field("streams").Build().Pin()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	for last := int(min(known, shuffleMost)); ; {
		for i := len(s.streams); i < min(last+shuffleMargin, shuffleMost); i++ {
			s.streams = append(s.streams, &legacyStream{key: s.cfg.Shuffle + ":s" + strconv.Itoa(i)})
		}
		keys := keysOf(s.streams)
		// Arbitrary: with a name without a hash tag, a cluster says what is wrong.
		n, err := c.Do(ctx, c.B().Arbitrary("EXISTS").Keys(keys[0]).Args(keys[1:]...).Build()).AsInt64()
		if retry.Code(err, "CROSSSLOT") {
			return millrace.ErrBadArgument.Errorf("the streams of the shuffle queue %q lie in several slots of a cluster: its name needs a {hash tag}", s.cfg.Shuffle)
		}
		if err != nil || int(n) == len(s.there) {
			return err
		}
		if err := s.list(ctx); err != nil || len(s.there) == 0 {
			return err
		}
		last = slices.Index(s.streams, s.there[len(s.there)-1]) + 1
	}
}

// list notes which streams exist.
func (s *legacySource) list(ctx context.Context) error {
	c := s.q.client
	commands := make(rueidis.Commands, len(s.streams))
	for i, stream := range s.streams {
		commands[i] = c.B().Exists().Key(stream.key).Build().Pin()
	}
	there := make([]*legacyStream, 0, len(s.streams))
	for i, reply := range c.DoMulti(ctx, commands...) {
		n, err := reply.AsInt64()
		if err != nil {
			return err
		}
		if n > 0 {
			there = append(there, s.streams[i])
		}
	}
	s.there = there
	return nil
}

// group creates the group at the start of the streams that exist.
func (s *legacySource) group(ctx context.Context) error {
	if err := s.list(ctx); err != nil {
		return err
	}
	c := s.q.client
	commands := make(rueidis.Commands, len(s.there))
	for i, stream := range s.there {
		commands[i] = c.B().XgroupCreate().Key(stream.key).Group(s.cfg.Group).Id("0").Build()
	}
	for _, reply := range c.DoMulti(ctx, commands...) {
		if err := reply.Error(); err != nil && !retry.Code(err, "BUSYGROUP") {
			return err
		}
	}
	return nil
}

// look takes entries of the streams that exist, and whose group does.
func (s *legacySource) look(ctx context.Context, n int) ([]legacyEntry, error) {
	entries, err := s.claim(ctx)
	s.next++ // so that no stream is always the first
	for seen := 0; seen < len(s.there) && len(entries) < n && err == nil; {
		some := make([]*legacyStream, min(legacyPage, len(s.there)-seen))
		for i := range some {
			some[i] = s.there[(s.next+seen+i)%len(s.there)]
		}
		var read []legacyEntry
		read, err = s.read(ctx, some, n-len(entries))
		entries, seen = append(entries, read...), seen+len(some)
	}
	return entries, err
}

// read takes new entries of some streams, or reads those of the own list. They come in turns.
func (s *legacySource) read(ctx context.Context, some []*legacyStream, n int) (entries []legacyEntry, err error) {
	c, keys, count := s.q.client, keysOf(some), (n+len(some)-1)/len(some)
	for passed := true; len(entries) == 0 && passed; { // behind the own list are new ones
		ids, now := make([]string, len(some)), time.Now()
		for i, stream := range some {
			if stream.after == "" || stream.after == ">" && now.Sub(stream.passed) > legacyPass {
				stream.after, stream.passed = "0", now
			}
			ids[i] = stream.after
		}
		found, err := c.Do(ctx, c.B().Arbitrary("XREADGROUP", "GROUP", s.cfg.Group, s.consumer(), "COUNT", strconv.Itoa(count), "STREAMS").
			Keys(keys[0]).Args(keys[1:]...).Args(ids...).Build()).AsXRead()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
		for i := range count {
			for _, stream := range some {
				if list := found[stream.key]; i < len(list) {
					entries = append(entries, legacyEntry{stream, list[i].ID, list[i].FieldValues})
				}
			}
		}
		passed = false
		for _, stream := range some {
			if list := found[stream.key]; stream.after != ">" && len(list) > 0 {
				stream.after = list[len(list)-1].ID
			} else if stream.after != ">" {
				stream.after, passed = ">", true
			}
		}
	}
	return entries, nil
}

// claim takes entries that old readers left for longer than ClaimAfter. One call looks at a bounded
// number of entries of each stream, and the next call goes on behind them.
func (s *legacySource) claim(ctx context.Context) (entries []legacyEntry, err error) {
	now := time.Now()
	if s.cfg.ClaimAfter == 0 || now.Before(s.claims) || len(s.there) == 0 {
		return nil, nil
	}
	s.claims = now.Add(min(legacyPass, max(legacyInterval, s.cfg.ClaimAfter/30)))
	c, count := s.q.client, max(10, legacyPage/len(s.there))
	commands := make(rueidis.Commands, len(s.there))
	for i, stream := range s.there {
		commands[i] = c.B().Xautoclaim().Key(stream.key).Group(s.cfg.Group).Consumer(s.consumer()).
			MinIdleTime(strconv.FormatInt(s.cfg.ClaimAfter.Milliseconds(), 10)).Start(cmp.Or(stream.cursor, "0")).Count(int64(count)).Build()
	}
	for i, result := range c.DoMulti(ctx, commands...) {
		stream := s.there[i]
		reply, err := result.ToArray()
		if err != nil {
			return nil, err
		}
		if stream.cursor, err = reply[0].ToString(); err != nil {
			return nil, err
		}
		if stream.cursor != "0-0" {
			s.claims = now.Add(legacyInterval)
		}
		list, err := reply[1].ToArray()
		if err != nil {
			return nil, err
		}
		for _, item := range list {
			if item.IsNil() { // Redis 6.2 has it for a deleted entry, which is then in the own list
				continue
			}
			e, err := item.AsXRangeEntry()
			if err != nil {
				return nil, err
			}
			entries = append(entries, legacyEntry{stream, e.ID, e.FieldValues})
		}
	}
	return entries, nil
}

// remove removes entries that are in the queue from their streams.
func (s *legacySource) remove(ctx context.Context, entries []legacyEntry) error {
	if len(entries) == 0 {
		return nil
	}
	c, ids := s.q.client, map[string][]string{}
	for _, e := range entries {
		ids[e.stream.key] = append(ids[e.stream.key], e.id)
	}
	_, err := script.Prompt(ctx, func(ctx context.Context) (int64, error) {
		var commands rueidis.Commands
		for key, ids := range ids {
			commands = append(commands, c.B().Xack().Key(key).Group(s.cfg.Group).Id(ids...).Build(), c.B().Xdel().Key(key).Id(ids...).Build())
		}
		for _, reply := range c.DoMulti(ctx, commands...) {
			if err := reply.Error(); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	return err
}

func keysOf(streams []*legacyStream) []string {
	keys := make([]string, len(streams))
	for i, stream := range streams {
		keys[i] = stream.key
	}
	return keys
}
