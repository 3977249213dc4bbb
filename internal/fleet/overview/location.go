package overview

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/jsontype"
)

// Location is where a tag is.
type Location struct {
	Tag      jsontype.Text `json:"tag"`
	Position string        `json:"position"` // on the ring, in hexadecimal digits
	fleet.Location
	Addr string `json:"addr"` // of the partition's master

	closed bool // the partition takes no new tags
}

// NewLocation describes a place on a fleet of these partitions.
func NewLocation(l fleet.Location, partitions []directory.Partition) Location {
	doc := Location{Tag: jsontype.Text(l.Tag), Position: fmt.Sprintf("%016x", l.Position), Location: l}
	if l.Partition < len(partitions) {
		p := partitions[l.Partition]
		doc.Addr, doc.closed = p.Master.Addr, p.Phase == directory.Closed
	}
	return doc
}

// Table writes it for people.
func (doc Location) Table(w io.Writer) {
	there := fmt.Sprintf("partition %d (%s)", doc.Partition, doc.Addr)
	switch asked := chain(doc.Asked); doc.How {
	case fleet.Owner:
		fmt.Fprintf(w, "%s is on %s, its owner\n", doc.Tag, there)
	case fleet.Older:
		fmt.Fprintf(w, "%s is on %s\n", doc.Tag, there)
		fmt.Fprintf(w, "asked %s; %d has it: it was placed before partition %d was added\n", asked, doc.Partition, doc.Asked[0])
	case fleet.Forwarded:
		fmt.Fprintf(w, "%s is on %s\n", doc.Tag, there)
		fmt.Fprintf(w, "asked %s; %d has it: %d was full when it was placed, and sent it on\n", asked, doc.Partition, doc.Record)
	case fleet.Nowhere:
		unlessFull := ", or clockwise from there if that is full"
		if doc.closed {
			unlessFull = ", which is closed and sends it on clockwise"
		}
		fmt.Fprintf(w, "%s has no place yet: it would go to %s%s\n", doc.Tag, there, unlessFull)
		fmt.Fprintf(w, "asked %s; none has it\n", asked)
	}
	fmt.Fprintf(w, "position on the ring: %s, %s of the way round\n", doc.Position, percent(float64(doc.Location.Position)/(1<<64)))
}

// chain writes in which order partitions were asked: "5, then 1".
func chain(partitions []int) string {
	words := make([]string, len(partitions))
	for i, id := range partitions {
		words[i] = strconv.Itoa(id)
	}
	return strings.Join(words, ", then ")
}
