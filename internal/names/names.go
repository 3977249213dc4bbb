// Package names checks names. A structure's keys contain its name in braces, so that all are in
// one slot of a Redis Cluster: a brace in the name would put them into others. A control character
// would break logs and terminals.
package names

import (
	"strings"

	"github.com/millrace/millrace"
)

// Check returns an error derived from base for a name that is empty, is longer than most bytes, or
// has a control character or a brace. What describes the name: "name of a queue".
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
	}
	return nil
}

// IsControl reports whether a rune is a control character of ASCII.
func IsControl(r rune) bool { return r < ' ' || r == 0x7f }
