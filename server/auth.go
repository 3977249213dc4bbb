package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/millrace/millrace"
)

var errAuth = &millrace.Error{
	Code: "bad_auth",
	Hint: "Give one line for each client: bearer TOKEN, or basic USER:PASSWORD, each secret at least 12 bytes long; to make one: openssl rand -hex 16",
}

// minSecret is the smallest length of a secret: nothing limits the rate of guesses.
const minSecret = 12

// Auth is the list of clients that have access. It keeps hashes of secrets, not secrets.
type Auth struct {
	clients []client
}

type client struct {
	secret    [sha256.Size]byte // hash of the whole credential
	principal string            // for the log
}

// ParseAuth reads a list of clients, one on each line:
//
//	bearer TOKEN
//	basic USER:PASSWORD
//
// It skips empty lines and lines that begin with #. Errors have the code bad_auth and
// give line numbers; they never quote a line.
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
				return nil, errAuth.Errorf("line %d has no token of %d bytes or more without spaces", number, minSecret)
			}
			hash := hashOf("bearer", credential)
			a.clients = append(a.clients, client{hash, "bearer " + hex.EncodeToString(hash[:4])})
		case "basic":
			user, password, ok := strings.Cut(credential, ":")
			if !ok || user == "" || len(password) < minSecret {
				return nil, errAuth.Errorf("line %d has no user with a password of %d bytes or more", number, minSecret)
			}
			a.clients = append(a.clients, client{hashOf("basic", credential), user})
		default:
			return nil, errAuth.Errorf("line %d begins neither with bearer nor with basic", number)
		}
	}
	if len(a.clients) == 0 {
		return nil, errAuth.Errorf("the list has no client")
	}
	return &a, nil
}

// hashOf hashes a credential, so that all have the same length, and the schemes differ.
func hashOf(scheme, credential string) [sha256.Size]byte {
	return sha256.Sum256([]byte(scheme + " " + credential))
}

// principal returns the client of a request, and whether it has access.
func (a *Auth) principal(r *http.Request) (name string, found bool) {
	var got [sha256.Size]byte
	if user, password, ok := r.BasicAuth(); ok {
		got = hashOf("basic", user+":"+password)
	} else if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		got = hashOf("bearer", strings.TrimSpace(token))
	} else {
		return "", false
	}
	for _, c := range a.clients { // always all of them, in constant time
		if subtle.ConstantTimeCompare(c.secret[:], got[:]) == 1 {
			name, found = c.principal, true
		}
	}
	return name, found
}
