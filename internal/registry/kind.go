package registry

import (
	"hash/crc32"
	"strconv"
	"strings"
)

// Kind is a kind of structure: a word.
type Kind string

// The kinds that are entered.
const (
	Ick     Kind = "ick"
	Channel Kind = "channel"
	Queue   Kind = "queue"
	Tracker Kind = "tracker"
	Hashes  Kind = "hashes" // a namespace
	Keys    Kind = "keys"   // a namespace
)

// kinds are all kinds that are entered.
func kinds() []Kind { return []Kind{Ick, Channel, Queue, Tracker, Hashes, Keys} }

// parts is in how many hashes the registry lies.
const parts = 16

// key is the key of one of them.
func key(shard int) string { return "mr:registry:{" + strconv.Itoa(shard) + "}" }

// shardOf returns which of n shards has a text: its CRC-32 (IEEE), modulo n.
func shardOf(text string, n int) int {
	return int(crc32.ChecksumIEEE([]byte(text)) % uint32(n))
}

// field is what a structure is entered as.
func field(kind Kind, name string) string { return string(kind) + " " + name }

// ickPart is a key of an Ick other than its version key, which an empty Ick of the gem
// has, and one that was retired.
func ickPart(name, part string) string { return name + "/ick/{" + name + "}/" + part }

// ickParts are those of which one is there as long as there is an Ick.
var ickParts = []string{"pset", "cset", "meta"}

// keys returns the keys of which one is there as long as the structure is. All are of
// one slot. There are none for a kind that is not known.
func (k Kind) keys(name string) []string {
	switch k {
	case Ick:
		var all []string
		for _, part := range ickParts {
			all = append(all, ickPart(name, part))
		}
		return all
	case Channel, Queue, Tracker, Hashes, Keys:
		return []string{k.prefix() + name + "}"}
	}
	return nil
}

// prefix begins the key that is the structure.
func (k Kind) prefix() string { return "mr:" + string(k) + ":{" }

// find returns what a key shows to be there. It knows one key of each structure, or a
// few; all others are ok = false.
func find(key string) (kind Kind, name string, ok bool) {
	for _, kind := range kinds() {
		if kind == Ick {
			continue
		}
		if rest, found := strings.CutPrefix(key, kind.prefix()); found {
			name, ok := strings.CutSuffix(rest, "}")
			return kind, name, ok && name != "" && !strings.ContainsAny(name, "{}")
		}
	}
	for _, part := range ickParts {
		rest, found := strings.CutSuffix(key, "}/"+part)
		if !found {
			continue
		}
		const between = "/ick/{"
		half := (len(rest) - len(between)) / 2 // the name stands on both sides of it
		if half > 0 && rest[:half]+between+rest[:half] == rest {
			return Ick, rest[:half], true
		}
	}
	return "", "", false
}
