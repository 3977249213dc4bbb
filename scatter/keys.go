package scatter

import (
	"github.com/millrace/millrace/internal/names"
)

// MaxName is the longest name of a group or a key, in bytes.
const MaxName = 512

// base begins the side keys of a group. What a server keeps beside the values
// themselves, which have the caller's own names, is there.
func base(group string) string { return "mr:scatter:{" + group + "}" }

// CheckKey returns the [millrace.ErrBadName] with which every call refuses that name of a value, and
// nil for one that can be had. It is for programs that look at what they were given
// before they connect.
func CheckKey(key string) error { return names.CheckText(errName, "name of a value", key, MaxName) }
