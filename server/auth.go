package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/millrace/millrace"
)

// ErrAuth means that the text that says who may ask cannot be used.
var ErrAuth = &millrace.Error{
	Code: "bad_auth",
	Hint: "Give one line for each: bearer TOKEN, or basic USER:PASSWORD, each secret of 12 bytes at least; one is made by: openssl rand -hex 16",
}

// minSecret is how many bytes a secret has at least: nothing slows down those who
// guess.
const minSecret = 12

// Auth is who may ask. It keeps hashes of secrets and not the secrets.
type Auth struct {
	entries []entry
}

// entry is one who may ask.
type entry struct {
	secret    [sha256.Size]byte // hash of the whole credential
	principal string            // for the log
}

// ParseAuth reads who may ask, a line for each:
//
//	bearer TOKEN
//	basic USER:PASSWORD
//
// Empty lines and those that begin with # are passed over. Errors are derived from
// [ErrAuth], name lines by their number and never quote them.
func ParseAuth(text string) (*Auth, error) {
	var a Auth
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		scheme, credential, _ := strings.Cut(line, " ")
		credential = strings.TrimSpace(credential)
		switch strings.ToLower(scheme) {
		case "bearer":
			if len(credential) < minSecret || strings.ContainsAny(credential, " \t") {
				return nil, ErrAuth.Errorf("line %d has no token of %d bytes or more without spaces", number, minSecret)
			}
			hash := hashOf("bearer", credential)
			a.entries = append(a.entries, entry{hash, "bearer " + hex.EncodeToString(hash[:4])})
		case "basic":
			user, password, ok := strings.Cut(credential, ":")
			if !ok || user == "" || len(password) < minSecret {
				return nil, ErrAuth.Errorf("line %d is no user with a password of %d bytes or more", number, minSecret)
			}
			a.entries = append(a.entries, entry{hashOf("basic", credential), user})
		default:
			return nil, ErrAuth.Errorf("line %d begins neither with bearer nor with basic", number)
		}
	}
	if len(a.entries) == 0 {
		return nil, ErrAuth.Errorf("nobody is named who may ask")
	}
	return &a, nil
}

// hashOf makes what is compared as long for each credential, and of another kind
// for each scheme.
func hashOf(scheme, credential string) [sha256.Size]byte {
	return sha256.Sum256([]byte(scheme + " " + credential))
}

// principal returns who makes a request, and whether anybody does who may. A
// bearer of a token is known by the beginning of its hash.
func (a *Auth) principal(r *http.Request) (string, bool) {
	var got [sha256.Size]byte
	if user, password, ok := r.BasicAuth(); ok {
		got = hashOf("basic", user+":"+password)
	} else if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		got = hashOf("bearer", strings.TrimSpace(token))
	} else {
		return "", false
	}
	principal, found := "", false
	for _, e := range a.entries { // all of them, so that the time tells nothing
		if subtle.ConstantTimeCompare(e.secret[:], got[:]) == 1 {
			principal, found = e.principal, true
		}
	}
	return principal, found
}
