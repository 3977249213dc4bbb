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

// field is the field of a structure's entry.
func field(kind Kind, name string) string { return string(kind) + " " + name }

// ickParts are the ends of keys of which an Ick has at least one. An empty or retired Ick
// of the gem has a version key alone, which is none of these.
var ickParts = []string{"pset", "cset", "meta"}

// keys returns the keys of which one exists as long as the structure does, in one slot, or
// none for an unknown kind.
func (k Kind) keys(name string) (all []string) {
	switch k {
	case Ick:
		for _, part := range ickParts {
			all = append(all, name+"/ick/{"+name+"}/"+part)
		}
	case Channel, Queue, Tracker, Hashes, Keys:
		all = []string{k.prefix() + name + "}"}
	}
	return all
}

// prefix begins the key of a structure.
func (k Kind) prefix() string { return "mr:" + string(k) + ":{" }

// find returns the structure that has a key, if the key is one of those that keys returns.
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
