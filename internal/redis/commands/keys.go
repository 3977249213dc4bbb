package commands

import (
	"slices"
	"strings"
)

// KeySpec says where keys are among a command's words, where the first word of
// the command's name is number 0.
type KeySpec struct {
	// First is the first key; with After, it is where to look for the word; with
	// Counted, it is the argument that says how many keys follow it.
	First   int    `json:"first,omitempty"`
	After   string `json:"after,omitempty"`
	Counted bool   `json:"counted,omitempty"`

	// Last is the last key, counted from First or, when negative, from the end
	// (-1 is the last argument), and Step the distance of two keys.
	Last int `json:"last,omitempty"`
	Step int `json:"step,omitempty"`

	// Share, if 2, says that only the first half of the words up to Last are keys.
	Share int `json:"share,omitempty"`

	// Elsewhere means that keys may stand where no rule tells. The other fields
	// are then zero.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Optional reports whether a command is complete without the word After and the
// keys behind it.
func (s *KeySpec) Optional() bool { return s.After != "" && s.Share == 0 }

// Span returns the numbers of the first and the last key among words. The last
// is below the first if there are no keys, and above the last word if words are
// missing. It is not ok if the word After is not there, if the number of keys is
// no number, or if no rule tells.
func (s *KeySpec) Span(words []string) (first, last int, ok bool) {
	first = s.First
	switch {
	case s.Elsewhere:
		return 0, 0, false
	case s.Counted:
		count, ok := smallNumber(words, first)
		return first + 1, first + 1 + (count-1)*max(s.Step, 1), ok
	case s.After != "":
		i := slices.IndexFunc(words[min(first, len(words)):], func(w string) bool { return strings.EqualFold(w, s.After) })
		if i < 0 {
			return 0, 0, false
		}
		first += i + 1
	}
	last = first + s.Last
	if s.Last < 0 {
		last = len(words) + s.Last
	}
	if s.Share > 0 {
		last = first + (last-first+1)/s.Share - 1
	}
	return first, last, true
}

// smallNumber returns the decimal number that word i is. One above the number of
// words is returned as some number above it.
func smallNumber(words []string, i int) (n int, ok bool) {
	if i >= len(words) || words[i] == "" {
		return 0, false
	}
	for _, c := range []byte(words[i]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n <= len(words) {
			n = n*10 + int(c-'0')
		}
	}
	return n, true
}

// EachKey calls yield for each key of a command, in the order in which the
// server's COMMAND GETKEYS returns them, until yield returns false. The words are
// the command as it is sent: "XGROUP", "CREATE", "k", "g", "$".
//
// It reports whether the keys are known. They are not if the table does not have
// the command, if it needs keys that stand where no rule tells (those that the
// patterns of SORT match), or if words are missing or wrong so that keys cannot
// be told; some may have been yielded even so. A command may be known and have no
// keys.
//
// It allocates nothing.
func EachKey(words []string, yield func(key string) bool) (known bool) {
	c := everything().Find(words)
	if c == nil {
		return false
	}
	for i := range c.Keys {
		if c.Keys[i].Elsewhere {
			return eachKeyByHand(c.Name, words, yield)
		}
	}
	for i := range c.Keys {
		spec := &c.Keys[i]
		first, last, ok := spec.Span(words)
		if !ok && spec.Optional() {
			continue
		}
		if !ok || last >= len(words) {
			return false
		}
		for k := first; k <= last; k += max(spec.Step, 1) {
			if !yield(words[k]) {
				return true
			}
		}
	}
	return true
}

// eachKeyByHand is EachKey for the commands whose keys the server's own table
// does not tell either: it reads their arguments one by one.
func eachKeyByHand(name string, words []string, yield func(key string) bool) (known bool) {
	switch name {
	case "SORT":
		return eachKeyOfSort(words, true, yield)
	case "SORT_RO":
		return eachKeyOfSort(words, false, yield)
	case "MIGRATE":
		return eachKeyOfMigrate(words, yield)
	}
	return false
}

// eachKeyOfSort yields the key to sort and, if the command stores, the one behind
// the last STORE. The keys that patterns match depend on the sorted elements.
func eachKeyOfSort(words []string, stores bool, yield func(key string) bool) (known bool) {
	if len(words) < 2 {
		return false
	}
	store, patterns := 0, false
	for i := 2; i < len(words); i++ {
		switch option := words[i]; {
		case strings.EqualFold(option, "LIMIT"):
			i += 2
		case strings.EqualFold(option, "BY"), strings.EqualFold(option, "GET"):
			i++
			patterns = patterns || i < len(words) && strings.Contains(words[i], "*")
		case stores && strings.EqualFold(option, "STORE"):
			i++
			store = i
		}
	}
	if !yield(words[1]) {
		return true
	}
	if store == len(words) {
		return false
	}
	if store > 0 && !yield(words[store]) {
		return true
	}
	return !patterns
}

// eachKeyOfMigrate yields the one key, or those behind KEYS if the one is empty.
func eachKeyOfMigrate(words []string, yield func(key string) bool) (known bool) {
	if len(words) < 6 {
		return false
	}
	if words[3] != "" {
		yield(words[3])
		return true
	}
	for i := 6; i < len(words); i++ {
		switch option := words[i]; {
		case strings.EqualFold(option, "AUTH"):
			i++
		case strings.EqualFold(option, "AUTH2"):
			i += 2
		case strings.EqualFold(option, "KEYS"):
			for _, key := range words[i+1:] {
				if !yield(key) {
					break
				}
			}
			return true
		}
	}
	yield(words[3]) // the empty text is a key like any other
	return true
}
