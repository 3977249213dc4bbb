package rebalance

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/fleet/members"
)

// record is what a partition stores about a tag. The token of a mark says where the
// tag goes to, or comes from: "3 +to.7.RUN".
type record struct{ members.Record }

func parseRecord(text string) (record, error) {
	r, err := members.ParseRecord(text)
	return record{r}, err
}

// to returns where a tag is going, or has gone, by the token of its mark.
func (r record) to() (int, bool) { return numbered(r.Token, "to.") }

// from returns where a tag has come from.
func (r record) from() (int, bool) { return numbered(r.Token, "from.") }

func numbered(token, what string) (int, bool) {
	rest, ok := strings.CutPrefix(token, what)
	if !ok {
		return 0, false
	}
	number, _, ok := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return n, ok && err == nil && n >= 0
}

// homeText is the record of a tag that is at home, and stays.
func homeText(partition int) string { return members.Record{Home: partition}.String() }

// leavingText is the record of a tag that is at home and about to be moved. Clients read
// it each time, so that after PlacementTTL and ReplyTimeout none has it cached.
func leavingText(home int, token string) string {
	return members.Record{Home: home, Mark: members.Leaving, Token: token}.String()
}

// movingText is the record of a tag that is being moved: reads go on, and writers wait.
func movingText(home int, token string) string {
	return members.Record{Home: home, Mark: members.Moving, Token: token}.String()
}

// trip is the move of one tag from one partition to another, by one run. These are
// the records that it writes, in the order of doc.go.
type trip struct {
	from, to int
	run      string
}

func (t trip) token() string { return fmt.Sprintf("to.%d.%s", t.to, t.run) }

// leaving is written at from: clients do not cache the tag's place any more.
func (t trip) leaving() string { return leavingText(t.from, t.token()) }

// claimText is written at to, and again with a higher number with each chunk that has
// arrived there.
func (t trip) claimText(chunks int) string {
	return leavingText(t.from, fmt.Sprintf("%s.%d", t.token(), chunks))
}

// claimedBy reports whether a text is a claim of this trip.
func (t trip) claimedBy(text string) bool {
	return strings.HasPrefix(text, leavingText(t.from, t.token()+"."))
}

// moving is written at from: writers wait.
func (t trip) moving() string { return movingText(t.from, t.token()) }

// arrived is written at to: the tag is here from now on.
func (t trip) arrived() string { return leavingText(t.to, fmt.Sprintf("from.%d.%s", t.from, t.run)) }

// gone is written at from: the tag is at to, and its old data here is still to be
// deleted.
func (t trip) gone() string { return leavingText(t.to, t.token()) }
