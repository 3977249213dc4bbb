package rebalance

import (
	"context"
	"slices"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/script"
)

// tagRecord is the record of a tag in a partition; the zero record if there is none.
type tagRecord struct {
	tag, text string
	record
}

// pageSize is how many records are read at a time.
const pageSize = 1000

// pages calls a function with all records of a partition, some at a time. A record may come
// twice. It fails if the partition gets another master meanwhile.
func (m *Mover) pages(ctx context.Context, partition int, some func([]tagRecord) error) error {
	if err := checkID(m.fleetMap(), partition); err != nil {
		return err
	}
	epoch := m.epoch(partition)
	var tags []string
	read := func() error {
		page, err := m.recordsOf(ctx, partition, tags)
		if tags = tags[:0]; err != nil {
			return err
		}
		return some(page)
	}
	for key, err := range script.Scan(ctx, m.client(partition), members.RecordKey("*")) {
		if err != nil {
			return err
		}
		if tag, ok := members.RecordedTag(key); ok {
			tags = append(tags, tag)
		}
		if len(tags) == pageSize {
			if err := read(); err != nil {
				return err
			}
		}
	}
	if err := read(); err != nil {
		return err
	}
	// The master is the one that agents have examined.
	if _, _, err := m.read(ctx, partition, ""); err != nil {
		return err
	}
	if m.epoch(partition) != epoch {
		return replaced(partition)
	}
	return nil
}

// recordsOf returns the records of tags in a partition.
func (m *Mover) recordsOf(ctx context.Context, partition int, tags []string) ([]tagRecord, error) {
	if len(tags) == 0 {
		return nil, nil
	}
	keys := make([]string, len(tags))
	for i, tag := range tags {
		keys[i] = members.RecordKey(tag)
	}
	c := m.client(partition)
	values, err := c.Do(ctx, c.B().Mget().Key(keys...).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	records := make([]tagRecord, len(tags))
	for i, value := range values {
		records[i].tag = tags[i]
		if text, err := value.ToString(); err == nil {
			if r, err := parseRecord(text); err == nil {
				records[i].text, records[i].record = text, r
			}
		}
	}
	return records, nil
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

// Tags calls a function with the tags that a partition has, some at a time. A tag may come
// twice.
func (m *Mover) Tags(ctx context.Context, partition int, some func(tags []string) error) error {
	return m.pages(ctx, partition, func(page []tagRecord) error { return some(tagsIn(page, partition)) })
}

// Missing calls lost with the tags that a partition has according to records of another one,
// and not by its own: it was restored from an old copy, and they came to it since. It does
// so before it changes anything, so that a call that was cut off can be repeated.
//
// If the old record says that the tag is in that other partition, both name each other, and
// nobody finds the tag. Then the record is corrected: the tag is here, without data.
func (m *Mover) Missing(ctx context.Context, partition, by int, lost func(tags []string) error) error {
	return m.pages(ctx, by, func(page []tagRecord) error {
		here, err := m.recordsOf(ctx, partition, tagsIn(page, partition))
		if err != nil {
			return err
		}
		here = slices.DeleteFunc(here, func(r tagRecord) bool { return r.isIn(partition) })
		var tags []string
		for _, r := range here {
			tags = append(tags, r.tag)
		}
		if err := lost(tags); err != nil {
			return err
		}
		return each(ctx, here, func(r tagRecord) error {
			if !r.isIn(by) {
				return nil
			}
			return ignoreTaken(m.exchange(ctx, "correct", partition, r.tag, r.text, homeText(partition)))
		})
	})
}

// Secure makes sure that replicas have what was written for a tag.
func (m *Mover) Secure(ctx context.Context, tag string) error {
	l, err := m.place(ctx, tag)
	if err != nil {
		return err
	}
	return m.secure(ctx, "secure marks", l.Partition)
}
