package rebalance

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace/millrace/fleet"
)

// base begins the keys in which a member keeps what is the fleet's, see
// docs/WIRE.md.
const base = "mr:fleet"

// recordKey is the key of the record of a tag.
func recordKey(tag string) string { return base + ":{" + tag + "}" }

// recordedTag returns the tag whose record a key is.
func recordedTag(key string) (tag string, ok bool) {
	if tag, ok = strings.CutPrefix(key, base+":{"); !ok {
		return "", false
	}
	return strings.CutSuffix(tag, "}")
}

// record is what a partition has written down about a tag: "3", or with a mark and
// its token behind it "3 +to.7.RUN".
type record struct {
	home  int
	mark  byte // '-', '+' or '!'; 0 for none
	token string
}

func parseRecord(text string) (r record, err error) {
	home, rest, marked := strings.Cut(text, " ")
	if r.home, err = strconv.Atoi(home); err != nil || marked && rest == "" {
		return record{}, fmt.Errorf("%q is no record of a tag", text)
	}
	if marked {
		r.mark, r.token = rest[0], rest[1:]
	}
	return r, nil
}

// to returns where a tag is going, or has gone, by the token of its mark.
func (r record) to() (int, bool) { return numbered(r.token, "to.") }

// from returns where a tag has come from.
func (r record) from() (int, bool) { return numbered(r.token, "from.") }

func numbered(token, what string) (int, bool) {
	rest, ok := strings.CutPrefix(token, what)
	if !ok {
		return 0, false
	}
	number, _, ok := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return n, ok && err == nil && n >= 0
}

// trip is the move of one tag from one partition to another, by one run. These are
// the records that it writes, in the order of doc.go.
type trip struct {
	from, to int
	run      string
}

func (t trip) token() string { return fmt.Sprintf("to.%d.%s", t.to, t.run) }

// leaving is written at from: its place is not remembered any more.
func (t trip) leaving() string { return fleet.Leaving(t.from, t.token()) }

// claimText is written at to, and again with a higher number with each parcel that has
// arrived there.
func (t trip) claimText(parcels int) string {
	return fleet.Leaving(t.from, fmt.Sprintf("%s.%d", t.token(), parcels))
}

// claimedBy reports whether a text is a claim of this trip.
func (t trip) claimedBy(text string) bool {
	return strings.HasPrefix(text, fleet.Leaving(t.from, t.token()+"."))
}

// moving is written at from: nobody writes for the tag.
func (t trip) moving() string { return fleet.Moving(t.from, t.token()) }

// arrived is written at to: this is where the tag is from now on.
func (t trip) arrived() string { return fleet.Leaving(t.to, fmt.Sprintf("from.%d.%s", t.from, t.run)) }

// gone is written at from: the tag is at to, and what it had here is still to be
// deleted.
func (t trip) gone() string { return fleet.Leaving(t.to, t.token()) }
