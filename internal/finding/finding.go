package finding

import (
	"fmt"
	"slices"
	"strings"
)

// Severity says how bad a finding is. Larger values are worse; the zero value is OK.
type Severity int

// The severities, the best first.
const (
	OK       Severity = iota
	Note              // good to know, or unknown
	Warning           // it will cause trouble one day, or a tenant waits that should not
	Critical          // a promise does not hold, or nothing moves
)

var words = []string{OK: "ok", Note: "note", Warning: "warning", Critical: "critical"}

// String returns the word that JSON, metrics, pages and terminals have.
func (s Severity) String() string { return words[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(words[s]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(word []byte) error {
	i := slices.Index(words, string(word))
	if i < 0 {
		return fmt.Errorf("%q is no severity: use %s", word, strings.Join(words, ", "))
	}
	*s = Severity(i)
	return nil
}

// Finding is a statement about a part of a system.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`             // for programs; a contract
	Text     string   `json:"text"`             // for people
	Advice   string   `json:"advice,omitempty"` // the next step; empty if OK
}

// New returns a finding.
func New(severity Severity, code, text, advice string) Finding {
	return Finding{severity, code, text, advice}
}

// Refused is the code where a server does not let this user ask.
const Refused = "refused"

// Counts is how many findings have each severity.
type Counts [Critical + 1]int

// NearlyFull reports whether a server, or a member of a fleet, uses most of its maxmemory, which is
// 0 if it has none.
func NearlyFull(used, limit int64, member bool) bool {
	share := FullShare
	if member {
		share = MemberFullShare
	}
	return limit > 0 && float64(used) >= share*float64(limit)
}
