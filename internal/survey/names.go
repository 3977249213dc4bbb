package survey

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
)

// most is how many structures of a kind a survey covers.
const most = 200

// names are the known structures.
type names struct {
	at      time.Time         // when they were read; zero before the first time
	of      map[Kind][]string // sorted, most of each
	leftOut map[Kind]int      // only kinds of which some are
	partial []Kind            // kinds with missing names
}

// listNames lists all structures, one kind after the other. If servers do not answer, it
// returns the names from the others, and an error.
func listNames(ctx context.Context, client rueidis.Client) (names, error) {
	found := names{of: map[Kind][]string{}, leftOut: map[Kind]int{}}
	channels := map[string]bool{}
	isChannel := func(name string) bool { channels[name] = true; return true }
	// The dirty lists of a channel are NAME/0, NAME/1 and so on.
	inNoChannel := func(name string) bool {
		slash := strings.LastIndexByte(name, '/')
		if slash < 0 || !channels[name[:slash]] {
			return true
		}
		index, err := strconv.Atoi(name[slash+1:])
		return err != nil || index < 0 || index >= 1024
	}
	anyName := func(string) bool { return true }
	var missing error
	for _, k := range []struct {
		kind Kind
		list iter.Seq2[string, error]
		has  func(name string) bool
	}{
		{Channel, ick.ListChannels(ctx, client), isChannel},
		{Ick, ick.List(ctx, client), inNoChannel},
		{Queue, fairqueue.List(ctx, client), anyName},
		{Hashes, expiry.List(ctx, client), anyName},
		{Keys, pinned.List(ctx, client), anyName},
		{Lease, lease.List(ctx, client), anyName},
	} {
		switch err := found.add(k.kind, k.list, k.has); {
		case errors.Is(err, millrace.ErrPartial):
			found.partial = append(found.partial, k.kind)
			missing = err
		case err != nil:
			return names{}, err
		}
	}
	found.at = time.Now()
	return found, missing
}

// complete adds the names that were known before, for kinds with missing names.
func (n *names) complete(before names) {
	for _, kind := range n.partial {
		all := slices.Concat(n.of[kind], before.of[kind])
		slices.Sort(all)
		all = slices.Compact(all)
		n.of[kind] = all[:min(len(all), most)]
		if left := max(n.leftOut[kind], before.leftOut[kind], len(all)-most); left > 0 {
			n.leftOut[kind] = left
		}
	}
}

// add keeps the first names of a kind in order, and counts the others.
func (n *names) add(kind Kind, list iter.Seq2[string, error], has func(name string) bool) error {
	var kept []string
	var failed error
	more := 0
	for name, err := range list {
		if err != nil {
			failed = err
			continue
		}
		i, known := slices.BinarySearch(kept, name)
		if known || !has(name) {
			continue
		}
		if kept = slices.Insert(kept, i, name); len(kept) > most {
			kept = kept[:most]
			more++
		}
	}
	n.of[kind] = kept
	if more > 0 {
		n.leftOut[kind] = more
	}
	return failed
}

// has reports whether a structure of that kind and name was found.
func (n names) has(kind Kind, name string) bool {
	_, known := slices.BinarySearch(n.of[kind], name)
	return known
}
