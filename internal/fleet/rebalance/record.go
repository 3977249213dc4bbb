package rebalance

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/fleet/members"
)

// record is a partition's record of a tag. The token of a mark says where the tag
// goes or came from, and by which run: "3 +to.7.RUN".
type record struct{ members.Record }

func parseRecord(text string) (record, error) {
	r, err := members.ParseRecord(text)
	return record{r}, err
}

// to returns where a tag is going, or has gone, and by which run.
func (r record) to() (partition int, run string, ok bool) { return parseToken(r.Token, "to.") }

// from returns where a tag has come from.
func (r record) from() (partition int, run string, ok bool) { return parseToken(r.Token, "from.") }

func parseToken(token, direction string) (partition int, run string, ok bool) {
	rest, ok := strings.CutPrefix(token, direction)
	number, rest, _ := strings.Cut(rest, ".")
	run, _, _ = strings.Cut(rest, ".")
	partition, err := strconv.Atoi(number)
	return partition, run, ok && err == nil && partition >= 0
}

// homeText is the record of a tag that is in a partition and does not move.
func homeText(partition int) string { return members.Record{Home: partition}.String() }

func markedText(home int, mark members.Mark, token string) string {
	return members.Record{Home: home, Mark: mark, Token: token}.String()
}

// trip is the move of one tag from one partition to another, by one run. Its methods are
// the records that it writes, in the order of doc.go.
type trip struct {
	from, to int
	run      string
}

func (t trip) token() string { return fmt.Sprintf("to.%d.%s", t.to, t.run) }

// leaving is written at from: clients look the tag up each time.
func (t trip) leaving() string { return markedText(t.from, members.Leaving, t.token()) }

// claimText is written at to: with 0 at first, then with the number of chunks there.
func (t trip) claimText(chunks any) string {
	return markedText(t.from, members.Leaving, fmt.Sprintf("%s.%v", t.token(), chunks))
}

// claimedBy reports whether a text is a claim of this trip.
func (t trip) claimedBy(text string) bool { return strings.HasPrefix(text, t.claimText("")) }

// thawed is leaving after a failure: a step of the trip that is still in flight does not
// know it.
func (t trip) thawed() string { return markedText(t.from, members.Leaving, t.token()+".thawed") }

// moving is written at from: reads go on, and writers wait.
func (t trip) moving() string { return markedText(t.from, members.Moving, t.token()) }

// arrived is written at to: the tag is here from now on.
func (t trip) arrived() string {
	return markedText(t.to, members.Leaving, fmt.Sprintf("from.%d.%s", t.from, t.run))
}

// gone is written at from: the tag is at to, and its old data must still be deleted here.
func (t trip) gone() string { return markedText(t.to, members.Leaving, t.token()) }
