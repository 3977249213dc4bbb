package fleet

import (
	"context"

	"github.com/millrace/millrace"
)

// What follows is for package rebalance, which moves tags. A record is the text in
// which a partition has written down where a tag is, see docs/WIRE.md.

// Leaving returns the record of a tag that is at home and about to be moved:
// whoever uses it asks for its record each time, so that after PlacementLife and
// ReplyLimit nobody remembers where it is.
func Leaving(home int, token string) string { return record{home, leaving, token}.String() }

// Moving returns the record of a tag that is being moved: reads go on, and whoever
// writes waits.
func Moving(home int, token string) string { return record{home, moving, token}.String() }

// Home returns the record of a tag that is at home, and stays.
func Home(home int) string { return record{home: home}.String() }

// Record returns the record that a partition has of a tag, and an empty text if it
// has none. The answer is sure: ErrUnavailable if the partition's master may have
// been replaced when it answered.
func (f *Fleet) Record(ctx context.Context, partition int, tag string) (string, error) {
	v, _, err := f.confirmed(ctx)
	if err != nil {
		return "", err
	}
	if partition < 0 || partition >= len(v.partitions) {
		return "", millrace.ErrBadArgument.Errorf("there is no partition %d", partition)
	}
	r, found, sure, err := v.partitions[partition].lookUp(ctx, tag)
	switch {
	case err != nil || !found && sure:
		return "", err
	case !sure:
		return "", unsure(partition)
	}
	return r.String(), nil
}

// Exchange replaces the record that a partition has of a tag, if it is before; an
// empty text is no record. It reports whether it is after by now. It may be
// repeated.
func (f *Fleet) Exchange(ctx context.Context, partition int, tag, before, after string) (bool, error) {
	v, _, err := f.confirmed(ctx)
	if err != nil {
		return false, err
	}
	if partition < 0 || partition >= len(v.partitions) {
		return false, millrace.ErrBadArgument.Errorf("there is no partition %d", partition)
	}
	return v.partitions[partition].exchange(ctx, tag, before, after)
}
