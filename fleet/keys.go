package fleet

import "strings"

// Each member of a fleet has these keys, and replicas.Key, which no structure uses.
const baseKey = "mr:fleet"

// identityKey says which partition of which fleet the server is a member of:
// "FLEET/NUMBER".
const identityKey = baseKey + ":id"

// floorKey holds the epoch below which a map is too old to place a tag by.
func floorKey(base string) string { return base + ":floor" }

// tagsKey counts the tags whose data is here.
func tagsKey(base string) string { return base + ":tags" }

// recordKey is the record of a tag: the number of the partition that has it, and
// behind a space a token while it is about to be forgotten.
func recordKey(base, tag string) string { return base + ":{" + tag + "}" }

// recordedTag returns the tag whose record a key is.
func recordedTag(key string) (tag string, ok bool) {
	tag, ok = strings.CutPrefix(key, baseKey+":{")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(tag, "}")
}
