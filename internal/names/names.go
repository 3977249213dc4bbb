// Package names checks names. A structure's keys contain its name in braces, so that all are in
// one slot of a Redis Cluster: a brace in the name would put them into others. A control character
// would break logs and terminals. And some names are keys that a structure owns: a second one of
// that name would write into it.
package names

import (
	"strings"

	"github.com/millrace/millrace"
)

const (
	// reserved begins Millrace's own keys.
	reserved = "mr:"

	// inIck is in the keys of an Ick, whose format is the gem's, but not in its name.
	inIck = "/ick/{"
)

// Check returns an error derived from base for a name that is empty, is longer than most bytes,
// has a control character or a brace, or is that of a structure's key. The text what describes the
// name: "name of a queue".
func Check(base *millrace.Error, what, name string, most int) error {
	if err := CheckText(base, what, name, most); err != nil {
		return err
	}
	if strings.ContainsAny(name, "{}") {
		return base.Errorf("the %s has a brace: %q", what, name)
	}
	return nil
}

// CheckText is Check for names that may have braces.
func CheckText(base *millrace.Error, what, name string, most int) error {
	switch {
	case name == "":
		return base.Errorf("the %s is empty", what)
	case len(name) > most:
		return base.Errorf("the %s is %d bytes long, more than %d", what, len(name), most)
	case strings.ContainsFunc(name, IsControl):
		return base.Errorf("the %s has a control character: %q", what, name)
	case strings.HasPrefix(name, reserved):
		return base.Errorf("the %s begins with %s, as all of Millrace's own keys do: %q", what, reserved, name)
	case strings.Contains(name, inIck):
		return base.Errorf("the %s contains %s, as the keys of an Ick do: %q", what, inIck, name)
	}
	return nil
}

// IsControl reports whether a rune is a control character of ASCII.
func IsControl(r rune) bool { return r < ' ' || r == 0x7f }
