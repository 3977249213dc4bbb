package commands

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed redis62.json
var redis62JSON []byte

// newerJSON has the commands after 6.2, of Redis and of Valkey. Of these only the keys are
// known.
//
//go:embed newer.json
var newerJSON []byte

// Table knows commands. It does not change, and may be shared.
type Table struct {
	entries map[string]entry // by the first word of the name, in upper case
}

type entry struct {
	command     *Command            // nil if the word means nothing without a subcommand
	subcommands map[string]*Command // by the second word; nil if there are none
}

// Command is a table's entry for a command.
type Command struct {
	Name   string    `json:"-"`                // in upper case: "GET", "XGROUP CREATE"
	Tokens []string  `json:"tokens,omitempty"` // its options and other fixed words, sorted
	Keys   []KeySpec `json:"keys,omitempty"`
	Flags  []string  `json:"flags,omitempty"` // of write, denyoom and noscript
}

// Is reports whether the command has a flag.
func (c *Command) Is(flag string) bool { return slices.Contains(c.Flags, flag) }

// redis62 is decoded once, at its first use.
var redis62 = sync.OnceValues(func() (*Table, error) {
	made, err := decode("redis62.json", redis62JSON)
	return newTable(made), err
})

// everything is the table of all commands known here. Should an embedded file
// not decode, which a test sees, the table knows nothing.
var everything = sync.OnceValue(func() *Table {
	old, err := decode("redis62.json", redis62JSON)
	if err != nil {
		return newTable(nil)
	}
	all, err := decode("newer.json", newerJSON)
	if err != nil {
		return newTable(nil)
	}
	maps.Copy(all, old)
	return newTable(all)
})

// Redis62 returns the table of the commands of Redis 6.2, and nothing newer.
func Redis62() (*Table, error) { return redis62() }

func decode(file string, text []byte) (map[string]Command, error) {
	var all map[string]Command
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w; make it anew with -update", file, err)
	}
	return all, nil
}

func newTable(all map[string]Command) *Table {
	t := &Table{entries: map[string]entry{}}
	for name, c := range all {
		c.Name = name
		first, second, isSub := strings.Cut(name, " ")
		e := t.entries[first]
		switch {
		case !isSub:
			e.command = &c
		case e.subcommands == nil:
			e.subcommands = map[string]*Command{second: &c}
		default:
			e.subcommands[second] = &c
		}
		t.entries[first] = e
	}
	return t
}

// Find returns the command that the words begin with, in any case, or nil if the
// table has none. The caller must not change it.
func (t *Table) Find(words []string) *Command {
	if len(words) == 0 {
		return nil
	}
	var buf [longestWord]byte
	e := t.entries[string(upper(&buf, words[0]))]
	if len(e.subcommands) == 0 || len(words) == 1 {
		return e.command
	}
	return e.subcommands[string(upper(&buf, words[1]))]
}

// HasSubcommands reports whether a command, given in any case, has subcommands.
func (t *Table) HasSubcommands(name string) bool {
	var buf [longestWord]byte
	return len(t.entries[string(upper(&buf, name))].subcommands) > 0
}

// longestWord is more bytes than any word of a command's name has.
const longestWord = 32

// upper writes a word into buf in upper case and returns it; of a word that is
// too long for a command's name it returns nothing. It saves the allocations of
// strings.ToUpper.
func upper(buf *[longestWord]byte, word string) []byte {
	if len(word) > len(buf) {
		return nil
	}
	for i := range len(word) {
		c := word[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		buf[i] = c
	}
	return buf[:len(word)]
}
