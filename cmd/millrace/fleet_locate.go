package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

type fleetLocate struct {
	Tag document.Text `arg:"" help:"A tag, or any key that has it: user:7 and {user:7}:name are the same."`
}

// Help shows examples.
func (*fleetLocate) Help() string {
	return `It asks the partitions that may have the tag, as a client does, and places nothing.

Examples:

    millrace fleet locate user:7
    millrace fleet locate '{user:7}:name' --json`
}

// locationDoc is where a tag is.
type locationDoc struct {
	Tag      document.Text `json:"tag"`
	Position string        `json:"position"` // on the ring, in hexadecimal digits
	fleet.Location
	Addr string `json:"addr"` // of the partition's master
}

// Run locates.
func (c *fleetLocate) Run(ctx context.Context, a *app) error {
	return a.withFleet(ctx, func(f *fleet.Fleet) error {
		tag := fleet.Tag(string(c.Tag))
		l, err := f.Locate(ctx, tag)
		if err != nil {
			return inOneLine(err)
		}
		doc := locationDoc{Tag: document.Text(tag), Position: fmt.Sprintf("%016x", l.Position), Location: l}
		partitions := f.Map().Partitions
		if l.Partition < len(partitions) {
			doc.Addr = partitions[l.Partition].Master.Addr
		}
		return a.print(doc, func(w io.Writer) { doc.table(w, partitions) })
	})
}

func (doc locationDoc) table(w io.Writer, partitions []directory.Partition) {
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
		fmt.Fprintf(w, "%s has no place yet: it would go to %s%s\n", doc.Tag, there, unlessFull(partitions, doc.Partition))
		fmt.Fprintf(w, "asked %s; none has it\n", asked)
	}
	fmt.Fprintf(w, "position on the ring: %s, %s of the way round\n", doc.Position, percent(float64(doc.Location.Position)/(1<<64)))
}

// unlessFull says that a partition which takes no new tags sends them on.
func unlessFull(partitions []directory.Partition, id int) string {
	if id < len(partitions) && partitions[id].Phase == directory.Closed {
		return ", which is closed and sends it on clockwise"
	}
	return ", or clockwise from there if that is full"
}

// chain writes in which order partitions were asked: "5, then 1".
func chain(partitions []int) string {
	words := make([]string, len(partitions))
	for i, id := range partitions {
		words[i] = strconv.Itoa(id)
	}
	return strings.Join(words, ", then ")
}

// inOneLine returns an error of package fleet without the lines of its causes.
func inOneLine(err error) error {
	said, ok := errors.AsType[*millrace.Error](err)
	if !ok || said.Err == nil {
		return err
	}
	return said.Wrap(errors.New(oneLine(said.Err)))
}

type fleetForget struct {
	Tags []document.Text `arg:"" name:"tag" help:"Tags, or keys that have them."`
}

// Help shows examples.
func (*fleetForget) Help() string {
	return `A tag keeps its place when its data is gone. Forgotten, it gets one where it belongs by then, when it is used again. It takes a little longer than the fleet's placement life, 10 seconds, and looks once through all keys of the partitions concerned: name all tags at once. Tags that have keys, or are written for meanwhile, stay where they are, and the command fails with the code "in_use".

Examples:

    millrace fleet forget user:7 user:8`
}

// Run forgets.
func (c *fleetForget) Run(ctx context.Context, a *app) error {
	return a.withFleet(ctx, func(f *fleet.Fleet) error {
		tags := make([]string, len(c.Tags))
		for i, tag := range c.Tags {
			tags[i] = fleet.Tag(string(tag))
		}
		slices.Sort(tags)
		tags = slices.Compact(tags)
		if err := f.Forget(ctx, tags...); err != nil {
			return inOneLine(err)
		}
		doc := struct {
			Forgotten int `json:"forgotten"`
		}{len(tags)}
		return a.print(doc, func(w io.Writer) {
			fmt.Fprintf(w, "forgotten: %s\n", readable.Count(doc.Forgotten, "tag"))
		})
	})
}
