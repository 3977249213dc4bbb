package luacheck

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed redis62.json
var redis62JSON []byte

// table holds the commands of one Redis version by their names in upper case:
// "GET", "XGROUP CREATE".
type table map[string]command

// command is what the table knows of a command.
type command struct {
	Tokens []string  `json:"tokens,omitempty"` // its options and other fixed words, sorted
	Keys   []keySpec `json:"keys,omitempty"`
	Flags  []string  `json:"flags,omitempty"` // of write, denyoom and noscript
}

// keySpec says where keys are among a command's arguments, where the command's
// name is number 0.
type keySpec struct {
	// First is the first key; with After, it is where to look for the word; with
	// Counted, it is the argument that says how many keys follow it.
	First   int    `json:"first,omitempty"`
	After   string `json:"after,omitempty"`
	Counted bool   `json:"counted,omitempty"`

	// Last is the last key, counted from First or, when negative, from the end
	// (-1 is the last argument), and Step the distance of two keys.
	Last int `json:"last,omitempty"`
	Step int `json:"step,omitempty"`

	// Share, if 2, says that keys are only the first half of what Last says.
	Share int `json:"share,omitempty"`

	// Elsewhere means that keys may stand where no rule tells.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// redis62 returns the table of Redis 6.2.
func redis62() (table, error) {
	var t table
	if err := json.Unmarshal(redis62JSON, &t); err != nil {
		return nil, fmt.Errorf("redis62.json: %w; make it anew with -update", err)
	}
	return t, nil
}

// find returns the command that the words begin with, and its name even if
// there is none.
func (t table) find(words []string) (name string, cmd command, ok bool) {
	name = strings.ToUpper(words[0])
	if len(words) > 1 && t.container(name) {
		name += " " + strings.ToUpper(words[1])
	}
	cmd, ok = t[name]
	return name, cmd, ok
}

// container reports whether a command has subcommands.
func (t table) container(name string) bool {
	prefix := strings.ToUpper(name) + " "
	for key := range t {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// wordsIn returns the number of words in a command's name.
func wordsIn(name string) int { return strings.Count(name, " ") + 1 }

func (c command) is(flag string) bool { return slices.Contains(c.Flags, flag) }

// keyPositions returns which of a call's words are keys. The words that are not
// literals are empty; open says that more may follow the last one. The problem
// says why keys cannot be told, if so.
func (c command) keyPositions(words []string, open bool) (keys []int, problem string) {
	end := len(words) - 1
	for _, spec := range c.Keys {
		first, last := spec.First, 0
		switch {
		case spec.Elsewhere:
			return keys, "where its keys are cannot be told from its arguments"
		case spec.After != "":
			i := slices.IndexFunc(words[min(first, len(words)):], func(w string) bool { return strings.EqualFold(w, spec.After) })
			if i < 0 && (open || spec.Share > 0) {
				return keys, spec.After + " must be a string literal among the arguments, and all arguments be written out"
			}
			if i < 0 {
				continue
			}
			first += i + 1
		case spec.Counted:
			count, err := strconv.Atoi(word(words, first))
			if err != nil {
				return keys, "the number of keys must be a literal"
			}
			first, last = first+1, first+count
		}
		if !spec.Counted {
			last = first + spec.Last
			if spec.Last < 0 {
				last = end + 1 + spec.Last
			}
		}
		if open && spec.Share > 0 && first == end {
			return append(keys, end), "" // a list of keys, and of what is asked of each
		}
		if open && (spec.Last < -1 || spec.Share > 0) {
			return keys, "its keys are counted from the end, so all arguments must be written out; a call as the last one stands in brackets"
		}
		if spec.Share > 0 {
			last = first + (last-first+1)/spec.Share - 1
		}
		if last > end {
			if !open {
				return keys, "it has too few arguments"
			}
			// The keys that are behind the end come out of the last argument.
			last = end
		}
		for i := first; i <= last; i += max(spec.Step, 1) {
			keys = append(keys, i)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), ""
}

func word(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return ""
}
