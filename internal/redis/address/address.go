// Package address shows the URL of a Redis to people, without its password.
package address

import (
	"net/url"
	"strings"
)

// Hidden stands for a URL that cannot be shown.
const Hidden = "(not shown: it may hold a password)"

// Redacted returns a URL as it may be logged: without its password. It shows nothing if the
// password may be elsewhere: an @ that does not end a user shows that the password has characters
// that should have been encoded, and a user without a password may be the password.
func Redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || rawURL == "" || strings.Contains(u.Host, ",") { // a list of URLs
		return Hidden
	}
	_, complete := u.User.Password()
	switch strings.Count(rawURL, "@") {
	case 0:
		return rawURL
	case 1:
		if complete {
			return u.Redacted()
		}
	}
	return Hidden
}
