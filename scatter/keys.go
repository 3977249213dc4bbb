package scatter

import (
	"github.com/millrace/millrace/internal/names"
)

// MaxName is the longest name of a group or a key, in bytes.
const MaxName = 512

// base begins the side keys of a group. What a server keeps beside the values
// themselves, which have the caller's own names, is there.
func base(group string) string { return "mr:scatter:{" + group + "}" }

// metaKey is a hash: version; closed, 1 on a server that takes no more; flushes and
// writes, counters; while the server is being left, fold, the number of that, and
// targets, the names of the servers that take what is here, each with a line feed;
// ended, the number of the last fold here that ended; parted, how often the server has
// forgotten what it took in the fold of another.
func metaKey(base string) string { return base + ":meta" }

// reqKey is the hash in which answers are remembered by token, see internal/reqid.
func reqKey(base string) string { return base + ":req" }

// epochsKey is a hash: of each key that was ever reset the epoch that it is in.
func epochsKey(base string) string { return base + ":epochs" }

// endedKey is what a key had when it was reset to that epoch. The prefix is that of all
// of them.
func endedKey(base, epoch, key string) string { return endedPrefix(base) + epoch + ":" + key }
func endedPrefix(base string) string          { return base + ":ended:" }

// outKey is a hash on a server that leaves: of each key whose parcel is on its way the
// number, how it is merged, and the name of the server that is to get it, with spaces.
func outKey(base string) string { return base + ":out" }

// parcelKey is a part of a key's value on its way, of the key's type.
func parcelKey(base, key string) string { return base + ":parcel:" + key }

// takenKey is a hash on a server that leaves: of each key the number of the last parcel
// that was taken from it.
func takenKey(base string) string { return base + ":taken" }

// appliedKey is a hash: of each key of a server that leaves the number of the last
// parcel that was put down here; of no key the number of the fold.
func appliedKey(base, from string) string { return base + ":applied:" + from }

// keys returns all side keys of a group, with a star for what only a script knows.
func keys(base string) []string {
	return []string{
		metaKey(base), reqKey(base), reqKey(base) + "_before", epochsKey(base), endedKey(base, "*", "*"),
		outKey(base), parcelKey(base, "*"), takenKey(base), appliedKey(base, "*"),
	}
}

// CheckKey returns the [ErrName] with which every call refuses that name of a value, and
// nil for one that can be had. It is for programs that look at what they were given
// before they connect.
func CheckKey(key string) error { return names.CheckText(ErrName, "name of a value", key, MaxName) }
