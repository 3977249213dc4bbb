package fairqueue

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
)

const (
	// failingField is the field of hot with the tenants that fail: see failing.lua.
	failingField = "f"

	// failingQuiet is the time without a failure after which a tenant begins again, as in failing.lua.
	failingQuiet = 10 * time.Minute

	// noReason is the reason of failures without one, as in returns.lua.
	noReason = "no reason given"

	// failingShown is for how long Stats shows that a tenant failed.
	failingShown = time.Hour
)

var failingForm = regexp.MustCompile(`(?s)^\x01(=[^\x01]*\x01\d+ \d+ \d+ \d+ [^\x01]*\x01){1,32}$`)

// failingAt reads the tenants that failed lately, by the server's clock. An instant of a clock that was ahead counts as now.
func failingAt(now time.Time, field string) (all []queuestats.Failures) {
	parts := strings.Split(field, "\x01")
	for i := 1; i+1 < len(parts); i += 2 {
		words := strings.SplitN(parts[i+1], " ", 5)
		if len(words) < 5 {
			continue // another program wrote it
		}
		f := queuestats.Failures{Reason: cmp.Or(strings.ToValidUTF8(words[4], ""), noReason)} // a rune may be cut
		f.Tenant, _ = readFlow(parts[i])
		f.Count, _ = strconv.Atoi(words[0])
		f.Died, _ = strconv.Atoi(words[1])
		f.Oldest, f.Newest = earlier(milliTime(words[2]), now), earlier(milliTime(words[3]), now)
		if now.Sub(f.Newest) < failingShown {
			all = append(all, f)
		}
	}
	quiet := func(f queuestats.Failures) int { return min(int(now.Sub(f.Newest)/failingQuiet), 1) }
	slices.SortFunc(all, func(a, b queuestats.Failures) int {
		return cmp.Or(cmp.Compare(quiet(a), quiet(b)), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tenant, b.Tenant))
	})
	return all
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// withoutNumbers returns a text with # for each number in it, so that errors that name an id or a time are alike.
func withoutNumbers(text string) string {
	var b strings.Builder
	for text != "" {
		var token string
		if token, text = cutToken(text); isDigit(token[0]) {
			token = "#"
		}
		b.WriteString(token)
	}
	return b.String()
}

// inCommon returns two texts that are alike but for numbers as one, with # in place of the numbers in which they differ.
func inCommon(a, b string) string {
	if a == b {
		return a
	}
	var all strings.Builder
	for a != "" && b != "" {
		var x, y string
		x, a = cutToken(a)
		if y, b = cutToken(b); x != y {
			x = "#"
		}
		all.WriteString(x)
	}
	return all.String()
}

// covers reports whether a text is the pattern but for numbers where the pattern has #.
func covers(pattern, text string) bool {
	return strings.Contains(pattern, "#") && withoutNumbers(pattern) == withoutNumbers(text) && inCommon(pattern, text) == pattern
}

// cutToken cuts a text behind its first number, or its first byte if that is no digit. The text is not empty.
func cutToken(text string) (token, rest string) {
	end := 1
	for isDigit(text[0]) && end < len(text) && isDigit(text[end]) {
		end++
	}
	return text[:end], text[end:]
}
