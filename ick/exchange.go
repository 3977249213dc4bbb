package ick

import (
	"context"
	"crypto/rand"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

// Reservation is a batch of members for a consumer.
type Reservation struct {
	// Token names the reservation to Commit and Exchange. It is empty if there never was one.
	Token string

	// Entries are the oldest marks, oldest first. Each reserve returns them again until they
	// are committed.
	Entries []Entry

	// At is the server's time of the reservation.
	At time.Time

	pause time.Duration // until another mark is due; negative if unknown
	more  int64         // see exchange.lua
}

// isToken matches a token: the number of the reservation, and the nonce of its consumer.
var isToken = regexp.MustCompile(`^[0-9]{1,16}-[0-9A-Za-z]{8,16}$`)

// The values of more.
const (
	fillAgain = 1 // the consumer set is not filled yet
	nextPage  = 2
)

// Members returns the members of the entries, in their order.
func (r Reservation) Members() []string {
	members := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		members[i] = e.Member
	}
	return members
}

// Committed is the result of a commit. Members that are not reserved are in neither count.
type Committed struct {
	Committed int // members that are done
	Kept      int // members that are still reserved: folded again since, or the token is too old
}

// Reserve takes the n oldest marks as a batch; fewer if there are fewer. Members of earlier
// reservations that were not committed are among them, so another consumer gets the batch of a
// dead one, and a repeated Reserve returns the same batch. n = 0 returns nothing and changes
// nothing.
//
// More than 1,000 take several script calls. A missing Ick is empty, and is not created.
//
// Errors: [millrace.ErrBadArgument] for a negative n, [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Ick) Reserve(ctx context.Context, n int) (Reservation, error) {
	r, _, err := k.Exchange(ctx, "", nil, n)
	return r, err
}

// Commit removes processed members from the consumer set: those that were not folded again since
// the reservation that the token names. The others are kept and reserved again, because they
// changed after their processing may have begun.
//
// Errors: [millrace.ErrStale] if there are members and none could be removed;
// [millrace.ErrBadArgument] for an invalid token; [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Ick) Commit(ctx context.Context, token string, members ...string) (Committed, error) {
	_, c, err := k.Exchange(ctx, token, members, 0)
	if err == nil && c.Committed == 0 && len(members) > 0 {
		err = errStale
	}
	return c, err
}

// Exchange commits members under a token and then reserves n, in one round trip for up to 1,000
// of each. If no member could be committed, the counts show it, and it is no error. After a lost
// reply the library repeats the call, and the repeat returns the first result.
func (k *Ick) Exchange(ctx context.Context, token string, members []string, n int) (Reservation, Committed, error) {
	var sum Committed
	if n < 0 {
		return Reservation{}, sum, millrace.ErrBadArgument.Errorf("cannot reserve %d members", n)
	}
	if len(members) > 0 && !isToken.MatchString(token) {
		return Reservation{}, sum, millrace.ErrBadArgument.Errorf("invalid token of a reservation: %q", token)
	}
	chunks := slices.Collect(script.Chunks(members, chunk, func(m string) int { return len(m) }))
	if len(chunks) == 0 {
		chunks = [][]string{nil}
	}
	var r Reservation
	for i, part := range chunks {
		reserve := 0
		if i == len(chunks)-1 { // the last call also reserves
			reserve = n
		}
		var c Committed
		var err error
		if r, c, err = k.exchange(ctx, token, part, reserve, 0); err != nil {
			return Reservation{}, sum, err
		}
		sum.Committed += c.Committed
		sum.Kept += c.Kept
	}
	r, err := k.fill(ctx, n, r)
	if err == nil && n > 0 && len(r.Entries) == 0 && k.cfg.Enlister != nil {
		k.cfg.Enlister.Enlist(ctx)
	}
	return r, sum, err
}

// fill continues a reserve until n members are reserved and all pages of them are read. The
// newest token covers them all: the consumer begins only after the last page.
func (k *Ick) fill(ctx context.Context, n int, r Reservation) (Reservation, error) {
	entries, first := r.Entries, 0
	for r.more != 0 {
		if r.more == nextPage {
			first += len(r.Entries)
		}
		var err error
		if r, _, err = k.exchange(ctx, "", nil, n, first); err != nil {
			return Reservation{}, err
		}
		entries = appendNew(entries, r.Entries)
	}
	r.Entries = entries
	return r, nil
}

// appendNew appends the entries of a page. New marks between two pages may have moved entries to
// the next page; those are not appended again.
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

// exchange makes one script call, for members that fit into it and the page of entries that
// begins at rank first.
func (k *Ick) exchange(ctx context.Context, token string, members []string, n, first int) (r Reservation, c Committed, err error) {
	backwash := "0"
	if k.cfg.Backwash {
		backwash = "1"
	}
	nonce := ""
	if n > 0 {
		nonce = rand.Text()[:8]
	}
	args := append(make([]string, 0, 6+len(members)), token, strconv.Itoa(n), strconv.Itoa(first),
		strconv.FormatInt(k.cfg.Settle.Microseconds(), 10), backwash, nonce)
	var reply *script.Reply
	if len(members) > 0 {
		reply, err = k.run.Run(ctx, "exchange", k.name, append(args, members...)...)
	} else { // without a lane: a repeat reserves the same
		reply, err = k.run.RunRequest(ctx, nil, "exchange", k.name, args...)
	}
	if err != nil {
		return r, c, k.explain(err)
	}
	k.entry.Touch()
	r = Reservation{Token: reply.Text(), At: reply.MicroTime(), pause: reply.Micros(), more: reply.Int()}
	c = Committed{Committed: int(reply.Int()), Kept: int(reply.Int())}
	list := reply.List()
	r.Entries = make([]Entry, 0, list.Len()/2)
	for list.More() {
		r.Entries = append(r.Entries, Entry{Member: list.Text(), Score: readScore(list)})
	}
	reply.Join(list)
	return r, c, reply.Err()
}
