package fairqueue

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/reqid"
)

const (
	// VisibilityDefault is for how long a message that was delivered is
	// invisible.
	VisibilityDefault = 30 * time.Second

	// MinVisibility is the shortest that may be asked for.
	MinVisibility = 10 * time.Millisecond

	// MaxVisibility is the longest.
	MaxVisibility = 12 * time.Hour
)

// ReadConfig is how messages are read. The zero value reads one message if there
// is one.
type ReadConfig struct {
	// Max is how many messages are taken at most, up to 1,000. Defaults to 1.
	Max int

	// Block is for how long to wait for the first message. Negative waits until
	// the context ends. Defaults to 0, not at all.
	Block time.Duration

	// Visibility is after how long a message that was neither acknowledged nor
	// extended comes again, from [MinVisibility] to [MaxVisibility], in whole
	// milliseconds. Defaults to [VisibilityDefault].
	Visibility time.Duration

	// Consumer names the reader in the group's pending lists, for people who look
	// there or browse what is in flight; at most 512 bytes without control
	// characters. Readers with different names do not share calls, and a name is
	// kept in each stream that it took from until [TendJob] forgets it: name
	// readers, and not calls. Defaults to [Config.Consumer].
	Consumer string

	// Prefer is a stream to take a message from first, if one waits there: the
	// index of the last message's, for a worker that has something of its tenant
	// at hand. Only Prefer 1 + the index counts, so that 0 is none. Using it
	// without a limit starves the others. Defaults to 0, none.
	Prefer int
}

func (c ReadConfig) withDefaults() (ReadConfig, error) {
	if c.Max == 0 {
		c.Max = 1
	}
	if c.Visibility == 0 {
		c.Visibility = VisibilityDefault
	}
	switch {
	case c.Max < 0 || c.Max > chunk:
		return c, millrace.ErrBadArgument.Saying("a read takes 1 to %d messages, not %d", chunk, c.Max)
	case c.Prefer < 0 || c.Prefer > MaxStreams:
		return c, millrace.ErrBadArgument.Saying("there is no stream %d to prefer", c.Prefer-1)
	}
	if c.Consumer != "" {
		if err := names.CheckText(millrace.ErrBadArgument, "name of a consumer", c.Consumer, maxLabel); err != nil {
			return c, err
		}
	}
	return c, checkVisibility(c.Visibility)
}

func checkVisibility(d time.Duration) error {
	if d < MinVisibility || d > MaxVisibility {
		return millrace.ErrBadArgument.Saying("a visibility is from %s to %s, not %s", MinVisibility, MaxVisibility, d)
	}
	return nil
}

// Read takes messages, one from each stream in turn, and returns at least one or
// an error. They are invisible to others until they were not acknowledged for
// [ReadConfig.Visibility].
//
// A call whose context ends returns at once. What was taken for it meanwhile is
// handed back, which counts as no attempt.
//
// Errors: [ErrEmpty], also for a queue that does not exist; [ErrPaused] instead
// while reading is off; [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Read(ctx context.Context, cfg ReadConfig) ([]Message, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Consumer = cmp.Or(cfg.Consumer, q.cfg.Consumer)
	messages, err := q.desk.ask(ctx, cfg)
	if err != nil && q.cfg.Enlister != nil && ctx.Err() == nil {
		q.cfg.Enlister.Enlist(ctx)
	}
	return messages, err
}

// taken is the answer of one read.
type taken struct {
	entries []entry
	at      time.Time     // by the server's clock
	pause   time.Duration // until something is due; negative when nobody knows
	paused  bool
}

// What a read says of the queue.
const (
	readPaused  = "1" // reading is off
	readDue     = "2" // something is due, and nothing was taken
	readDamaged = "3" // nothing was found though something should be there
)

// take takes messages under the name and for the visibility of cfg. What a read
// finds to be due is done first.
func (q *Queue) take(ctx context.Context, cfg ReadConfig, most int, prefer []int) (taken, error) {
	t, state, err := q.takeOnce(ctx, cfg, most, prefer, "0")
	if err != nil || state != readDue && state != readDamaged {
		return t, err
	}
	mend := "0"
	if state == readDamaged {
		mend = "1"
	}
	if _, err := q.count(ctx, "catchup", strconv.Itoa(q.cfg.MaxAttempts), mend); err != nil {
		return t, err
	}
	t, _, err = q.takeOnce(ctx, cfg, most, prefer, "1")
	return t, err
}

// takeOnce makes one script call. What is read is no part of the request that the
// caller may repeat.
func (q *Queue) takeOnce(ctx context.Context, cfg ReadConfig, most int, prefer []int, tended string) (t taken, state string, err error) {
	args := []string{cfg.Consumer, millis(cfg.Visibility), strconv.Itoa(most), tended}
	for _, stream := range prefer {
		args = append(args, strconv.Itoa(stream))
	}
	reply, err := q.call(reqid.With(ctx, ""), "read", args...)
	if err != nil {
		return t, "", err
	}
	q.entry.Touch()
	state = reply.Text()
	t.paused, t.pause, t.at = state == readPaused, reply.Millis(), reply.MilliTime()
	for reply.More() {
		t.entries = append(t.entries, readRound(reply)...)
	}
	return t, state, reply.Err()
}
