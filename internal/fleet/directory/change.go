package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// layout is the version of the names and values of a directory.
const layout = "v2"

// kept is how many differences of maps are kept, under changeName: the newest ones.
const kept = 16

func changeName(number int64) string { return "change/" + strconv.FormatInt(number%kept, 10) }

// stamp is the value "epoch": the layout, the epoch of the map, its sum, and the number of the
// change that made it. Each change of the map changes it, and is one of its revisions.
type stamp struct {
	epoch    int64 // 0 if there is no map
	sum      string
	change   int64
	revision string // "" if there is no map
}

func (s stamp) text() string { return fmt.Sprintf("%s %d %s %d", layout, s.epoch, s.sum, s.change) }

// stamp reads the stamp of the map.
func (d *Directory) stamp(ctx context.Context, read Read) (stamp, error) {
	values, err := d.Store.Get(ctx, read, "epoch")
	if err != nil {
		return stamp{}, err
	}
	return parseStamp(values[0])
}

func parseStamp(v Value) (s stamp, err error) {
	if v.Revision == "" {
		return s, nil
	}
	words := strings.Fields(v.Text)
	if len(words) != 4 || words[0] != layout {
		return s, ErrVersion.Errorf("the directory was written by another version of Millrace: its epoch is %q", v.Text)
	}
	s.sum, s.revision = words[2], v.Revision
	var wrong error
	s.epoch, err = strconv.ParseInt(words[1], 10, 64)
	s.change, wrong = strconv.ParseInt(words[3], 10, 64)
	if err = errors.Join(err, wrong); err != nil || s.change < 0 {
		return s, ErrMap.Wrap(fmt.Errorf("its epoch is %q: %w", v.Text, err))
	}
	return s, nil
}

// Load returns the map, perhaps an old one. It may succeed when Confirm does not.
func (d *Directory) Load(ctx context.Context) (*Map, error) {
	s, err := d.stamp(ctx, Any)
	if err != nil {
		return nil, err
	}
	m, err := d.mapOf(ctx, Any, s)
	if err != nil {
		return nil, err
	}
	return m.Map, nil
}

// Confirm returns nil if the map with that epoch is the present one, and the present one
// otherwise. Epoch 0 is never the present one. After a Change has returned, no Confirm that
// begins later says that the former epoch is the present one.
func (d *Directory) Confirm(ctx context.Context, epoch int64) (*Map, error) {
	s, err := d.stamp(ctx, Present)
	if err != nil || s.epoch == epoch && epoch != 0 {
		return nil, err
	}
	m, err := d.mapOf(ctx, Present, s)
	if err != nil {
		return nil, err
	}
	d.known.Store(m)
	return m.Map, nil
}

// mapOf returns the map with that stamp, or a newer one. A process with an older map gets only
// the changes since then, any other process the whole map.
func (d *Directory) mapOf(ctx context.Context, read Read, s stamp) (*held, error) {
	if s.revision == "" {
		return nil, ErrNoFleet
	}
	if known := d.known.Load(); known != nil {
		if known.sum == s.sum {
			return known, nil
		}
		if next, err := d.follow(ctx, read, *known, s); err == nil {
			return next, nil
		}
	}
	values, err := d.Store.Get(ctx, read, "epoch", "map")
	if err != nil {
		return nil, err
	}
	if s, err = parseStamp(values[0]); err != nil {
		return nil, err
	}
	m, err := Unpack(values[1].Text)
	if err == nil && (m.Epoch != s.epoch || Sum(values[1].Text) != s.sum) {
		err = ErrMap.Wrap(fmt.Errorf("it is stored as of epoch %d with the sum %s, and has %d and %s", s.epoch, s.sum, m.Epoch, Sum(values[1].Text)))
	}
	return &held{m, s.sum, s.change}, err
}

// errNoChanges means that the map must be read as a whole.
var errNoChanges = errors.New("the changes since the known map are not kept")

// follow returns the map with that stamp, or a newer one, from an older one. Each change names the sums of both
// of its maps, so those of another history lead nowhere.
func (d *Directory) follow(ctx context.Context, read Read, m held, s stamp) (*held, error) {
	if s.change <= m.change || s.change > m.change+kept {
		return nil, errNoChanges
	}
	var names []string
	for number := m.change + 1; number <= s.change; number++ {
		names = append(names, changeName(number))
	}
	values, err := d.Store.Get(ctx, read, names...)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		plain, err := unpack(v.Text)
		if err != nil {
			return nil, err
		}
		var change difference
		if err = json.Unmarshal(plain, &change); err != nil {
			return nil, err
		}
		if m, err = change.of(m); err != nil {
			return nil, err
		}
	}
	return &m, m.check()
}

// Change stores a map with a higher epoch if the present one still has that epoch, 0 for none,
// and returns ErrConflict otherwise. An invalid map, or one whose epoch is not higher, is
// ErrMap. It retries for about ten seconds. A repeat succeeds until the map is replaced. A
// change whose outcome stays unknown may have been made.
func (d *Directory) Change(ctx context.Context, epoch int64, next *Map) error {
	if err := next.MayReplace(epoch); err != nil {
		return err
	}
	packed, err := pack(next)
	if err != nil {
		return err
	}
	sum := Sum(packed)
	return try(ctx, func(ctx context.Context) (bool, error) {
		s, err := d.stamp(ctx, Present)
		switch {
		case err != nil:
			return false, err
		case s.epoch == next.Epoch && s.sum == sum:
			return true, nil
		case s.epoch != epoch:
			return false, ErrConflict.Errorf("the map has epoch %d by now, not %d", s.epoch, epoch)
		}
		number := s.change + 1
		texts := []Text{{"epoch", stamp{epoch: next.Epoch, sum: sum, change: number}.text()}, {"map", packed}}
		change, err := d.difference(ctx, s, held{next, sum, number}, len(packed))
		if err != nil {
			return false, err
		}
		return d.Store.Put(ctx, s.revision, append(texts, Text{changeName(number), change})...)
	})
}

// difference returns the packed difference from the map with that stamp to the next one, "" if
// it saves little, or if the present map cannot be read: then it is being replaced.
func (d *Directory) difference(ctx context.Context, s stamp, next held, size int) (string, error) {
	old, err := d.mapOf(ctx, Present, s)
	if errors.Is(err, ErrNoFleet) || errors.Is(err, ErrMap) || errors.Is(err, ErrVersion) || err == nil && old.sum != s.sum {
		return "", nil
	}
	if err != nil || old.Fleet != next.Fleet {
		return "", err
	}
	change, err := pack(differ(*old, next))
	if len(change) > size/2 {
		change = ""
	}
	return change, err
}
