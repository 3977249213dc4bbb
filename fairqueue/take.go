package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/redis/reqid"
)

// generalFor is how long all calls take the general form after one had to. It is short: often a single
// flow was the cause, and a short call in vain costs half of a general one.
const generalFor = 100 * time.Millisecond

// general remembers that calls take the general form. The zero value does not.
type general struct{ until atomic.Int64 }

func (g *general) is() bool { return time.Now().UnixNano() < g.until.Load() }
func (g *general) note()    { g.until.Store(time.Now().Add(generalFor).UnixNano()) }

// taken is the answer of the scripts work and work_plain.
type taken struct {
	now      time.Time
	paused   bool
	due      bool
	pause    time.Duration // until a message becomes due; negative if unknown
	verdicts string
	items    []string
	more     bool // the general form may have more
	entered  bool // the record counts the process as one that sleeps
	quiet    bool // no message waits for an acknowledgement: for a handler, or for a limit of its tenant
}

// order is the arguments of the scripts work and work_plain.
type order struct {
	roll, only     string // see taking
	most           int
	visibility     time.Duration
	leaves, enters bool // how the call changes the record's count of sleepers
	acks           []settlement
}

// errUnregistered says that nothing was changed, because a reader is not registered.
var errUnregistered = errors.New("a reader is not registered")

// take acknowledges deliveries and takes messages, in the short form if it can. It returns nil if
// there is no queue.
func (d *dispatcher) take(ctx context.Context, o order) (*taken, error) {
	if o.leaves || reqid.Seeded(ctx) || o.visibility < shortest || d.general.is() {
		return d.takeAny(ctx, o)
	}
	t, err := d.takePlain(ctx, o)
	switch {
	case err != nil:
		return nil, err
	case t == nil:
		return d.takeAny(ctx, o)
	case !t.more || len(t.items) == o.most:
		return t, nil
	}
	o.most, o.enters, o.acks = o.most-len(t.items), o.enters && len(t.items) == 0, nil
	rest, err := d.takeAny(ctx, o)
	if err != nil || rest == nil {
		return t, nil //nolint:nilerr // it has taken effect
	}
	rest.verdicts, rest.items = t.verdicts, append(t.items, rest.items...)
	return rest, nil
}

// takeAny makes the general call, or two for many messages where limits count, so that none takes the server long.
func (d *dispatcher) takeAny(ctx context.Context, o order) (*taken, error) {
	most := o.most
	if d.limits.Load() {
		o.most = min(most, callBudget/limitCost)
	}
	t, err := d.takeGeneral(ctx, o)
	if err != nil || t == nil || o.most == most || len(t.items) < o.most {
		return t, err
	}
	o.most, o.leaves, o.enters, o.acks = most-o.most, false, false, nil
	rest, err := d.takeGeneral(ctx, o)
	if err != nil || rest == nil {
		return t, nil //nolint:nilerr // it has taken effect
	}
	rest.due, rest.verdicts, rest.items = t.due || rest.due, t.verdicts, append(t.items, rest.items...)
	return rest, nil
}

func (d *dispatcher) takeGeneral(ctx context.Context, o order) (*taken, error) {
	args := make([]string, 0, 7+2*len(o.acks))
	args = append(args, o.roll, strconv.Itoa(o.most), millis(o.visibility), flag(o.leaves), flag(o.enters), random(), o.only)
	for _, a := range o.acks {
		args = append(args, a.receipt.handle(), a.arg)
	}
	reply, err := d.run.Run(ctx, "work", baseKey(d.name), args...)
	if err != nil || reply.None() {
		return nil, err
	}
	if reply.Len() == 1 {
		return nil, cmp.Or(reply.Err(), errUnregistered)
	}
	now, state := reply.MilliTime(), reply.Text()
	d.limits.Store(state == "2")
	t := &taken{now: now, paused: state == "1", due: reply.Bool(), pause: reply.Millis(), verdicts: reply.Text()}
	for reply.More() {
		t.items = append(t.items, reply.Text())
	}
	t.entered = o.enters && !t.due && len(t.items) == 0
	return t, reply.Err()
}

// random returns the letters that tell the receipts of two calls apart.
func random() string { return fmt.Sprintf("%08X", rand.Uint32()) }

// pauseDigits are the digits of a pause in milliseconds.
const pauseDigits = 10

// shortest is the shortest visibility of the short form.
const shortest = 10 * time.Second

// takePlain makes a short call. It returns nil if it takes the general one.
func (d *dispatcher) takePlain(ctx context.Context, o order) (*taken, error) {
	n := len(o.acks)
	args := make([]string, 3+4*n)
	most := strconv.Itoa(o.most)
	if o.enters {
		most = "+" + most
	}
	copy(args, []string{o.roll, most, millis(o.visibility)})
	for i, a := range o.acks {
		owner := a.receipt.owner()
		args[3+i], args[3+n+i], args[3+2*n+i], args[3+3*n+i] = a.receipt.handle(), owner, owner[1:], a.arg
	}
	reply, err := d.run.Run(ctx, "work_plain", baseKey(d.name), args...)
	if err != nil {
		return nil, err
	}
	head := reply.Text()
	switch head {
	case "register":
		return nil, errUnregistered
	case "general":
		d.general.note()
		return nil, reply.Err()
	case "new":
		return nil, reply.Err()
	}
	if len(head) < 17+n {
		return nil, fmt.Errorf("the script work_plain answered %.60q", head)
	}
	t := &taken{
		due: head[16] == '1', more: head[16] == '2', entered: head[16] == '4' || head[16] == '9', quiet: head[16] == '0' || head[16] == '4',
		pause: -1, verdicts: head[17 : 17+n],
	}
	if t.more {
		d.general.note()
	}
	if t.now, err = instant(head[:16]); err != nil {
		return nil, err
	}
	for reply.More() {
		t.items = append(t.items, reply.Text())
	}
	rest := head[17+n:]
	if o.most == 1 && len(rest) > pauseDigits {
		t.items, rest = []string{rest}, ""
	}
	if len(t.items) < o.most && len(rest) >= pauseDigits {
		pause, err := strconv.ParseInt(rest[:pauseDigits], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the script work_plain answered %.60q", head)
		}
		t.pause = time.Duration(pause) * time.Millisecond
		if len(rest) > pauseDigits {
			t.items = []string{rest[pauseDigits:]}
		}
	}
	return t, reply.Err()
}

// instant reads the server's clock in microseconds.
func instant(text string) (time.Time, error) {
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("a script of fairqueue says that it is %.60q", text)
	}
	return time.UnixMicro(micros), nil
}
