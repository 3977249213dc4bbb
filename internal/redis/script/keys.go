package script

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// template is a key as a header writes it: relative to the prefix, perhaps with an
// argument of the call at its end. One with {K} in it is another structure's whole key,
// which may lie in another slot: it is not declared.
type template struct {
	text string // "due", "v:", "s:*", "mr:channel:{K}"
	arg  int    // the argument behind the text, from 1 on; 0 for none
	all  bool   // there is a key for this argument and for each one behind it
}

func (t template) elsewhere() bool { return strings.Contains(t.text, "{K}") }

// anyKey stands for keys that have the callers' own names.
const anyKey = "any key"

// undeclared reports whether the template stands for keys that are not known before the
// script runs.
func (t template) undeclared() bool { return t.text == anyKey || strings.Contains(t.text, "*") }

var templateForm = regexp.MustCompile(`^([^\s\[\]]*?)(?:ARGV\[(\d+)(\.\.\.)?\])?$`)

func readTemplate(file, item string) template {
	if item == anyKey {
		return template{text: anyKey}
	}
	m := templateForm.FindStringSubmatch(item)
	if m == nil {
		panic(fmt.Sprintf("script: %s touches %q, which is no key", file, item))
	}
	arg, _ := strconv.Atoi(m[2])
	return template{text: m[1], arg: arg, all: m[3] != ""}
}

// key returns the key, with its argument of the call at its end.
func (t template) key(prefix string, args []string) string {
	if t.arg == 0 || t.arg > len(args) {
		return prefix + t.text
	}
	return prefix + t.text + args[t.arg-1]
}

// Keys returns the keys that a call declares, the base key first: all that it may
// touch, or the base key alone if they are not known. The arguments are the script's
// own.
func (l *Library) Keys(s *Script, base string, args []string) []string {
	if slices.ContainsFunc(s.keys, template.undeclared) {
		return []string{base}
	}
	return l.keys(s, base, args)
}

func (l *Library) keys(s *Script, base string, args []string) []string {
	prefix := l.Prefix(base)
	keys := []string{base}
	add := func(key string) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, t := range s.keys {
		switch {
		case t.text == anyKey:
			add("*")
		case t.elsewhere():
		case t.all:
			for _, arg := range args[min(t.arg-1, len(args)):] {
				add(prefix + t.text + arg)
			}
		case t.arg <= len(args):
			add(t.key(prefix, args))
		}
	}
	return keys
}

// Patterns returns every key that a call may touch, with a star for each part that only the
// running script knows.
func (l *Library) Patterns(s *Script, base string) []string {
	star := []string{"*", "*", "*", "*", "*", "*", "*", "*"}
	patterns := l.keys(s, base, star)
	for _, t := range s.keys {
		if t.elsewhere() {
			patterns = append(patterns, strings.ReplaceAll(t.text, "K", base))
		}
	}
	for _, t := range s.beside {
		patterns = append(patterns, l.Prefix(base)+t.text)
	}
	if prefix := l.Prefix(base); s.lane || slices.Contains(s.fragments, "tidy.lua") {
		patterns = append(patterns, prefix+"lanes:*", prefix+"keyed:*", prefix+"none")
	}
	return patterns
}

// Prefix returns how the other keys of the structure with that base key begin.
func (l *Library) Prefix(base string) string { return strings.ReplaceAll(l.prefix, "K", base) }

// placeholder is the initial content of a key of a new structure.
type placeholder struct {
	key          string // relative to the prefix, or K
	zset         bool   // a sorted set, with the empty member
	list         bool   // a list, with an empty element; else a hash
	score        string // of the empty member
	long         bool   // it has a second one of 65 tildes
	field, value string // of a hash
}

func readPlaceholder(file, item string) placeholder {
	words := strings.Fields(item)
	switch {
	case len(words) == 2 && words[1] == "zset":
		return placeholder{key: words[0], zset: true, score: "+inf"}
	case len(words) == 3 && words[1] == "zset" && words[2] == "long":
		return placeholder{key: words[0], zset: true, score: "+inf", long: true}
	case len(words) == 3 && words[1] == "zset":
		return placeholder{key: words[0], zset: true, score: words[2]}
	case len(words) == 2 && words[1] == "list":
		return placeholder{key: words[0], list: true}
	case len(words) == 2 && words[1] == "hash":
		return placeholder{key: words[0], value: "0"}
	case len(words) == 4 && words[1] == "hash":
		return placeholder{key: words[0], field: words[2], value: words[3]}
	}
	panic(fmt.Sprintf("script: %s makes %q: say KEY zset, KEY zset SCORE, KEY zset long, KEY list, KEY hash, or KEY hash FIELD VALUE", file, item))
}

// command returns the command that makes the key unless it is there.
func (p placeholder) command(client rueidis.Client, base, prefix string) rueidis.Completed {
	key := prefix + p.key
	if p.key == "K" {
		key = base
	}
	if p.zset {
		command := client.B().Arbitrary("ZADD").Keys(key).Args("NX", p.score, "")
		if p.long {
			command = command.Args(p.score, strings.Repeat("~", 65))
		}
		return command.Build()
	}
	if p.list { // which may have several empty elements
		return client.B().Rpush().Key(key).Element("").Build()
	}
	return client.B().Hsetnx().Key(key).Field(p.field).Value(p.value).Build()
}
