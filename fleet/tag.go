package fleet

import (
	"strings"

	"github.com/millrace/millrace/internal/redis/commands"
)

// Tag returns the tag of a key: the text in its first pair of braces, or the whole key
// if there is none. It is the rule of Redis Cluster.
func Tag(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			return key[open+1 : open+1+length]
		}
	}
	return key
}

// tagOf returns the tag of a command's keys.
func tagOf(words []string) (tag string, err error) {
	if len(words) > 3 && words[2] == "1" && (words[0] == "EVALSHA" || words[0] == "EVALSHA_RO" || words[0] == "EVAL") {
		return Tag(words[3]), nil // the form that structures send
	}
	found, mixed := false, false
	known := commands.EachKey(words, func(key string) bool {
		switch next := Tag(key); {
		case !found:
			tag, found = next, true
		case next != tag:
			mixed = true
		}
		return !mixed
	})
	switch {
	case mixed:
		return "", ErrMixedTags.Errorf("%s has keys of several tags", words[0])
	case !known:
		return "", ErrNoTag.Errorf("the keys of %s are not known", words[0])
	case found:
		return tag, nil
	default:
		return "", ErrNoTag.Errorf("%s has no key", words[0])
	}
}
