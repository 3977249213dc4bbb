package ick

import (
	"context"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// Reservation is a batch of members that a consumer works on.
type Reservation struct {
	// Token names the reservation to Commit and Exchange: its number, in digits.
	Token string

	// Entries are the oldest marks, oldest first. They come again with every
	// reserve until they are committed.
	Entries []Entry

	// At is the server's time of the reservation.
	At time.Time

	pause time.Duration // until more is due; negative when nobody knows
}

// Members returns the members of the entries, in their order.
func (r Reservation) Members() []string {
	members := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		members[i] = e.Member
	}
	return members
}

// Committed tells what a commit did. Members that are not reserved are in
// neither count.
type Committed struct {
	Committed int // members that are done
	Kept      int // members that were folded again since the reservation, and come again
}

// Reserve takes the n oldest marks as a batch to work on; fewer when there are
// fewer. Members of earlier reservations that were not committed are among
// them, so a batch of a consumer that died is handed out again, and repeating
// Reserve returns the same batch. n = 0 returns nothing and changes nothing.
//
// More than 1,000 take several script calls. An Ick that does not exist is
// empty, and stays so.
//
// Errors: [millrace.ErrBadArgument] for a negative n, [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Ick) Reserve(ctx context.Context, n int) (Reservation, error) {
	r, _, err := k.Exchange(ctx, "", nil, n)
	return r, err
}

// Commit removes members that were worked on from the consumer set: those that
// were not folded again since the reservation that the token names. The others
// are kept and come again, since they were dirtied after the work on them may
// have begun.
//
// Errors: [millrace.ErrStale] when there were members and none could go; [millrace.ErrBadArgument] for
// something that is no token; [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Ick) Commit(ctx context.Context, token string, members ...string) (Committed, error) {
	_, c, err := k.Exchange(ctx, token, members, 0)
	if err == nil && c.Committed == 0 && len(members) > 0 {
		err = errStale
	}
	return c, err
}

// Exchange commits members under a token and then reserves n, in one round trip
// for up to 1,000 of each. Nothing could be committed shows in the counts and is
// no error. After a lost reply the library repeats it, and the repeat forgets
// nothing and answers what the lost one answered.
func (k *Ick) Exchange(ctx context.Context, token string, members []string, n int) (Reservation, Committed, error) {
	var sum Committed
	if n < 0 {
		return Reservation{}, sum, millrace.ErrBadArgument.Errorf("cannot reserve %d members", n)
	}
	if len(members) > 0 && !isToken(token) {
		return Reservation{}, sum, millrace.ErrBadArgument.Errorf("not a token of a reservation: %q", token)
	}
	var last []string // commits go along with the reserve as far as one call carries them
	for part := range script.Chunks(members, chunk, func(m string) int { return len(m) }) {
		if last != nil {
			turn, err := k.exchange(ctx, token, last, 0, 0)
			if err != nil {
				return Reservation{}, sum, err
			}
			sum.add(turn.committed)
		}
		last = part
	}
	turn, err := k.exchange(ctx, token, last, n, 0)
	if err != nil {
		return Reservation{}, sum, err
	}
	sum.add(turn.committed)
	r, err := k.fill(ctx, n, turn)
	if err == nil && n > 0 && len(r.Entries) == 0 && k.cfg.Enlister != nil {
		k.cfg.Enlister.Enlist(ctx)
	}
	return r, sum, err
}

// fill goes on from the first turn of a reserve until n members are reserved and
// every page of them is there. The newest token covers them all: the consumer
// begins to work only after the last page.
func (k *Ick) fill(ctx context.Context, n int, t turn) (Reservation, error) {
	entries, first := t.reservation.Entries, 0
	for {
		switch t.more {
		case fillAgain:
		case nextPage:
			first += len(t.reservation.Entries)
		default:
			t.reservation.Entries = entries
			return t.reservation, nil
		}
		var err error
		if t, err = k.exchange(ctx, "", nil, n, first); err != nil {
			return Reservation{}, err
		}
		entries = appendNew(entries, t.reservation.Entries)
	}
}

// appendNew appends the entries of a page. Marks that arrived between two pages
// may have moved some entries to the next one; those are there already.
func appendNew(entries, page []Entry) []Entry {
	if len(entries) == 0 {
		return page
	}
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		seen[e.Member] = true
	}
	for _, e := range page {
		if !seen[e.Member] {
			entries = append(entries, e)
		}
	}
	return entries
}

func (c *Committed) add(o Committed) {
	c.Committed += o.Committed
	c.Kept += o.Kept
}

// isToken reports whether text may be a token: a number that a script may
// compare without losing digits.
func isToken(text string) bool {
	number, err := strconv.ParseInt(text, 10, 64)
	return err == nil && number >= 0 && number < 1<<53
}

// turn is the outcome of one script call.
type turn struct {
	reservation Reservation
	committed   Committed
	more        int64
}

// What more there is, see exchange.lua.
const (
	fillAgain = 1 // the consumer set is not filled yet
	nextPage  = 2
)

// exchange makes one script call for members that it can carry and the page of entries
// that begins at rank first.
func (k *Ick) exchange(ctx context.Context, token string, members []string, n, first int) (turn, error) {
	backwash := "0"
	if k.cfg.Backwash {
		backwash = "1"
	}
	args := make([]string, 0, 5+len(members))
	args = append(args, strconv.Itoa(n), strconv.Itoa(first),
		strconv.FormatInt(k.cfg.Settle.Microseconds(), 10), backwash, token)
	var r *script.Reply
	var err error
	if len(members) > 0 {
		r, err = k.run.Run(ctx, "exchange", k.name, append(args, members...)...)
	} else { // it reserves, and a repeat reserves the same
		r, err = k.run.RunRequest(ctx, nil, "exchange", k.name, args...)
	}
	if err != nil {
		return turn{}, k.explain(err)
	}
	k.entry.Touch()
	var t turn
	t.reservation.Token = r.Text()
	t.reservation.At = r.MicroTime()
	t.reservation.pause = r.Micros()
	t.more = r.Int()
	t.committed.Committed = int(r.Int())
	t.committed.Kept = int(r.Int())
	t.reservation.Entries = entries(r)
	return t, r.Err()
}
