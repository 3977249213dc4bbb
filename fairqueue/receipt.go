package fairqueue

import (
	"strconv"
	"strings"

	"github.com/millrace/millrace"
)

// receipt is what settles one delivery: 'stream:entry', and ':message' behind for
// a message that has moved since it was written.
type receipt struct {
	stream, entry string
	message       string // the message's id if it moved, else empty
}

// readReceipt returns the parts of a receipt, and whether it is one.
func readReceipt(text string) (r receipt, ok bool) {
	stream, rest, ok := strings.Cut(text, ":")
	entry, message, moved := strings.Cut(rest, ":")
	r = receipt{stream: stream, entry: entry, message: message}
	return r, ok && digits(stream, 4) && isEntry(entry) && (!moved || isID(message))
}

// isEntry reports whether a text is the id of an entry of a stream.
func isEntry(text string) bool {
	ms, seq, ok := strings.Cut(text, "-")
	return ok && digits(ms, 19) && digits(seq, 19)
}

// isID reports whether a text is the id of a message: that of its first entry, and
// the stream in which that was, or d for one with a delay.
func isID(text string) bool {
	entry, place, ok := strings.Cut(text, ".")
	return ok && isEntry(entry) && (place == "d" || digits(place, 4))
}

// digits reports whether a text is a number of at most that many digits.
func digits(text string, most int) bool {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return text != "" && len(text) <= most
}

// checkReceipts refuses what cannot be receipts.
func checkReceipts(receipts []string) error {
	for _, r := range receipts {
		if _, ok := readReceipt(r); !ok {
			return millrace.ErrBadArgument.Saying("not a receipt: %q", r)
		}
	}
	return nil
}

// checkIDs refuses what cannot be ids of messages.
func checkIDs(ids []string) error {
	for _, id := range ids {
		if !isID(id) {
			return millrace.ErrBadArgument.Saying("not the id of a message: %q", id)
		}
	}
	return nil
}

// groupSize is how many entries of one stream are acknowledged by one command.
const groupSize = 100

// grouped returns receipts as the script ack takes them, and in which order: for
// each stream its entries together, and each message that moved by itself.
func grouped(receipts []string) (args []string, order []int) {
	type group struct {
		stream, message string
		entries         []string
		numbers         []int
	}
	var groups []*group
	open := make(map[string]*group) // the group of each stream that takes more
	for i, text := range receipts {
		r, _ := readReceipt(text)
		g := open[r.stream]
		if g == nil || r.message != "" || len(g.entries) == groupSize {
			g = &group{stream: r.stream, message: r.message}
			groups = append(groups, g)
			if r.message == "" {
				open[r.stream] = g
			}
		}
		g.entries, g.numbers = append(g.entries, r.entry), append(g.numbers, i)
	}
	args, order = make([]string, 0, len(receipts)+3*len(groups)), make([]int, 0, len(receipts))
	for _, g := range groups {
		args = append(append(args, g.stream, g.message, strconv.Itoa(len(g.entries))), g.entries...)
		order = append(order, g.numbers...)
	}
	return args, order
}
