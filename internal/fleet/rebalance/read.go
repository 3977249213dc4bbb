package rebalance

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/script"
)

// tagRecord is the record of a tag in a partition; the zero record with an empty text if there
// is none.
type tagRecord struct {
	tag, text string
	record
}

// isIn reports whether the record says that the tag is in that partition.
func (r tagRecord) isIn(partition int) bool { return r.text != "" && r.Home == partition }

func tagsIn(page []tagRecord, partition int) (tags []string) {
	for _, r := range page {
		if r.isIn(partition) {
			tags = append(tags, r.tag)
		}
	}
	return tags
}

// pageSize is how many records are read at a time.
const pageSize = 500

// readRecords returns the records of at most pageSize tags by the word of the server that c
// leads to. Only a server that accepts writes answers, and only in the run that the map has for
// the master of the partition: any other one may lack the newest records. It also reports whether
// that server went back in time and has not been compared with the other partitions since.
func readRecords(ctx context.Context, c rueidis.Client, m *directory.Map, partition int, run string, tags []string) (page []tagRecord, back bool, err error) {
	reply, err := c.Do(ctx, c.B().Eval().Script(members.Scripts.Script("records").Source()).Numkeys(1).Key(members.Base).
		Arg(m.Fleet, strconv.Itoa(partition)).Arg(tags...).Build()).AsStrSlice()
	switch {
	case err != nil:
		return nil, false, err
	case len(reply) == 2:
		return nil, false, stranger(partition, reply[1])
	case len(reply) != 3+len(tags):
		return nil, false, fmt.Errorf("partition %d answered with %d records of %d", partition, len(reply)-3, len(tags))
	case run != "" && reply[1] != run:
		return nil, false, fleet.ErrUnavailable.Errorf("the master of partition %d was restarted, and no agent has examined it since", partition)
	}
	page = make([]tagRecord, len(tags))
	for i, text := range reply[3:] {
		page[i].tag = tags[i]
		if r, err := parseRecord(text); err == nil {
			page[i].text, page[i].record = text, r
		}
	}
	return page, reply[2] != "", nil
}

func stranger(partition int, identity string) error {
	return fleet.ErrUnknownServer.Errorf("the server that should be partition %d has the identity %q", partition, identity)
}

// ask returns the records of tags by the word of a partition's elected master, and whether that
// went back in time.
func (m *Mover) ask(ctx context.Context, partition int, tags ...string) (all []tagRecord, back bool, err error) {
	if err := checkID(m.fleetMap(), partition); err != nil {
		return nil, false, err
	}
	for first := 0; first == 0 || first < len(tags); first += pageSize {
		some := tags[first:min(first+pageSize, len(tags))]
		err = m.retry(ctx, "read", "", func() error {
			current := m.fleetMap()
			page, went, err := readRecords(ctx, m.client(partition), current, partition, current.Partitions[partition].Master.Run, some)
			if err == nil {
				all, back = append(all, page...), back || went
			}
			return err
		})
		if err != nil {
			return nil, false, err
		}
	}
	return all, back, nil
}

// read returns the record of a tag in a partition, as text, "" for none, and parsed.
func (m *Mover) read(ctx context.Context, partition int, tag string) (text string, r record, err error) {
	page, _, err := m.ask(ctx, partition, tag)
	if err != nil {
		return "", record{}, err
	}
	return page[0].text, page[0].record, nil
}

// pages calls a function with all records of a partition, some at a time. A record may come
// twice. It fails if the partition gets another master meanwhile.
func (m *Mover) pages(ctx context.Context, partition int, some func([]tagRecord) error) error {
	if err := checkID(m.fleetMap(), partition); err != nil {
		return err
	}
	epoch := m.epoch(partition)
	err := eachPage(ctx, m.client(partition), func(tags []string) error {
		page, _, err := m.ask(ctx, partition, tags...)
		if err != nil {
			return err
		}
		return some(page)
	})
	if err == nil && m.epoch(partition) != epoch {
		err = replaced(partition)
	}
	return err
}

// eachPage calls a function with the tags of which a server has records, some at a time, and with
// none if it has none: so each scan ends with a question to the elected master.
func eachPage(ctx context.Context, c rueidis.Client, some func(tags []string) error) error {
	var tags []string
	for key, err := range script.Scan(ctx, c, members.RecordKey("*")) {
		if err != nil {
			return err
		}
		if tag, ok := members.RecordedTag(key); ok {
			tags = append(tags, tag)
		}
		if len(tags) == pageSize {
			if err := some(slices.Clone(tags)); err != nil {
				return err
			}
			tags = tags[:0]
		}
	}
	return some(tags)
}

// Tags calls a function with the tags that a partition has, some at a time. A tag may come
// twice.
func (m *Mover) Tags(ctx context.Context, partition int, some func(tags []string) error) error {
	return m.pages(ctx, partition, func(page []tagRecord) error { return some(tagsIn(page, partition)) })
}

// Doubtful calls a function with the tags that a partition has, and with those that it has by the record
// of another one and not by its own, some at a time: if the partition has the data of an earlier time,
// their data is old or missing. A tag may come twice.
func (m *Mover) Doubtful(ctx context.Context, partition int, some func(tags []string) error) error {
	if err := m.Tags(ctx, partition, some); err != nil {
		return err
	}
	for _, p := range m.fleetMap().Partitions {
		if p.ID == partition {
			continue
		}
		err := m.pages(ctx, p.ID, func(page []tagRecord) error {
			named := tagsIn(page, partition)
			own, _, err := m.ask(ctx, partition, named...)
			if err != nil {
				return err
			}
			has := tagsIn(own, partition)
			return some(slices.DeleteFunc(named, func(tag string) bool { return slices.Contains(has, tag) }))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
