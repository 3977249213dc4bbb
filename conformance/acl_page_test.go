package conformance

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// aclPage is the rules for users in docs/SECURITY.md.
type aclPage struct {
	users    map[string][]string // by name: the rules of ACL SETUSER
	patterns map[string][]string // by their purpose: key patterns, with NAME in them
}

// aclCommand is a line of the page that makes a user.
var aclCommand = regexp.MustCompile(`(?m)^redis-cli (?:-h (\S+) )?ACL SETUSER (\S+) ((?:.*\\\n)*.*)$`)

// aclPattern is a row of its table of key patterns.
var aclPattern = regexp.MustCompile("(?m)^\\| ([^|`]+) \\| ((?:`~[^`]*` ?)+)\\|")

func readACLPage(t *testing.T) aclPage {
	t.Helper()
	text, err := os.ReadFile("../docs/SECURITY.md")
	must(t, "the page", err)
	p := aclPage{users: map[string][]string{}, patterns: map[string][]string{}}
	for _, m := range aclCommand.FindAllStringSubmatch(string(text), -1) {
		name, rules := m[2], shellWords(m[3])
		if m[1] != "" {
			name += " on the " + m[1]
		}
		if rules[0] != "reset" {
			name += " " + rules[0]
		}
		p.users[name] = rules
	}
	for _, m := range aclPattern.FindAllStringSubmatch(string(text), -1) {
		p.patterns[m[1]] = strings.Fields(strings.ReplaceAll(m[2], "`", ""))
	}
	return p
}

// shellWords splits a command as a shell does that knows single quotes, and a
// backslash at the end of a line.
func shellWords(command string) (words []string) {
	for i, part := range strings.Split(strings.ReplaceAll(command, "\\\n", " "), "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// aclPassword is the password of all users on the page.
const aclPassword = "PASSWORD"

// user returns the rules of a user; "NAME on the HOST" is the user on one kind of
// server, and "NAME +COMMAND" adds rules, from that command on.
func (p aclPage) user(t *testing.T, name string) []string {
	t.Helper()
	if p.users[name] == nil {
		t.Fatalf("docs/SECURITY.md has no line about %q, but %v", name, slices.Sorted(maps.Keys(p.users)))
	}
	return slices.Clone(p.users[name])
}

// keys returns the patterns for something that a program has under a name.
func (p aclPage) keys(t *testing.T, kind, name string) (patterns []string) {
	t.Helper()
	if p.patterns[kind] == nil {
		t.Fatalf("docs/SECURITY.md has no key patterns for %s, but %v", kind, p.patterns)
	}
	for _, pattern := range p.patterns[kind] {
		patterns = append(patterns, strings.ReplaceAll(pattern, "NAME", name))
	}
	return patterns
}

// commandsOf returns the commands that rules allow.
func commandsOf(rules []string) (commands []string) {
	for _, rule := range rules {
		if command, ok := strings.CutPrefix(rule, "+"); ok {
			commands = append(commands, command)
		}
	}
	return commands
}
