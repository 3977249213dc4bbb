package demo

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/script"
)

// What a partition has of its own, as docs/WIRE.md has it: the demo looks beneath
// the fleet to see what it keeps where.
const (
	tagsKey      = "mr:fleet:tags"
	ownPrefix    = "mr:fleet:"
	recordPrefix = ownPrefix + "{"
	recordEnd    = "}"

	// recordsAtOnce is how many records are asked for in one command.
	recordsAtOnce = 1000
)

// places says where tags are, and how that was found.
type places map[string]fleet.Location

func (p places) tags() []string { return slices.Collect(maps.Keys(p)) }

// questions returns how many partitions had to be asked for a tag, on average and at
// most.
func (p places) questions() (mean float64, most int) {
	all := 0
	for _, l := range p {
		all += len(l.Asked)
		most = max(most, len(l.Asked))
	}
	return float64(all) / float64(max(1, len(p))), most
}

// locate asks the fleet for each tag.
func locate(ctx context.Context, f *fleet.Fleet, tags []string) (places, error) {
	found := make(places, len(tags))
	var mu sync.Mutex
	err := inParallel(ctx, tags, func(ctx context.Context, tag string) error {
		l, err := f.Locate(ctx, tag)
		mu.Lock()
		defer mu.Unlock()
		found[tag] = l
		return err
	})
	return found, err
}

// inventory is what the masters have: for each tag the partitions that have keys of
// it, and those whose record says that it is there.
type inventory struct {
	keys  map[string][]int
	homes map[string][]int
}

// takeInventory goes through all keys of all masters.
func takeInventory(ctx context.Context, f *fleet.Fleet) (inventory, error) {
	all := inventory{keys: make(map[string][]int), homes: make(map[string][]int)}
	for id, master := range f.Partitions() {
		var recorded []string
		for key, err := range script.Scan(ctx, master, "*") {
			if err != nil {
				return all, err
			}
			if tag, ok := strings.CutPrefix(key, recordPrefix); ok {
				recorded = append(recorded, strings.TrimSuffix(tag, recordEnd))
			} else if !strings.HasPrefix(key, ownPrefix) {
				add(all.keys, fleet.Tag(key), id)
			}
		}
		for tags := range slices.Chunk(recorded, recordsAtOnce) {
			records := make([]string, len(tags))
			for i, tag := range tags {
				records[i] = recordPrefix + tag + recordEnd
			}
			homes, err := master.Do(ctx, master.B().Mget().Key(records...).Build()).AsStrSlice()
			if err != nil {
				return all, err
			}
			for i, home := range homes {
				if home == strconv.Itoa(id) {
					add(all.homes, tags[i], id)
				}
			}
		}
	}
	return all, nil
}

// add notes that a partition has something of a tag, once.
func add(where map[string][]int, tag string, id int) {
	if !slices.Contains(where[tag], id) {
		where[tag] = append(where[tag], id)
	}
}

// severalHomes returns the tags that are on more than one partition, in order.
func (i inventory) severalHomes() (tags []string) {
	for tag, homes := range i.homes {
		if len(homes) > 1 {
			tags = append(tags, tag)
		}
	}
	for tag, ids := range i.keys {
		if len(i.homes[tag]) <= 1 && !slices.Equal(ids, i.homes[tag]) {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return tags
}
