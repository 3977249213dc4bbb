package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/server/internal/access"
)

var errAuth = &millrace.Error{
	Code: "bad_auth",
	Hint: "Give one line for each client: [ROLE] [PREFIX*] bearer TOKEN, or basic USER:PASSWORD, with the role viewer, worker or operator, each secret at least 12 bytes long; to make one: openssl rand -hex 16",
}

// minSecret is the smallest length of a secret: nothing limits the rate of guesses.
const minSecret = 12

// Auth is the list of clients that have access. It keeps hashes of secrets, not secrets.
type Auth struct {
	clients []client
}

type client struct {
	access.Client

	secret [sha256.Size]byte // hash of the whole credential
}

// ParseAuth reads a list of clients, one on each line:
//
//	bearer TOKEN
//	basic USER:PASSWORD
//	viewer bearer TOKEN
//	worker acme-* bearer TOKEN
//
// A role is in front: viewer for looking, worker for programs, operator for all, the default. A prefix with a star behind
// it limits the client to the structures whose names begin with it, and to the API. It skips empty lines and lines that begin with #. Errors have the code bad_auth and
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
		scheme, credential, c := rights(line)
		switch strings.ToLower(scheme) {
		case "bearer":
			if len(credential) < minSecret || strings.ContainsAny(credential, " \t") {
				return nil, errAuth.Errorf("line %d has no token of %d bytes or more without spaces", number, minSecret)
			}
			hash := hashOf("bearer", credential)
			c.Name = "bearer " + hex.EncodeToString(hash[:4])
			a.clients = append(a.clients, client{c, hash})
		case "basic":
			user, password, ok := strings.Cut(credential, ":")
			if !ok || user == "" || len(password) < minSecret {
				return nil, errAuth.Errorf("line %d has no user with a password of %d bytes or more", number, minSecret)
			}
			c.Name = user
			a.clients = append(a.clients, client{c, hashOf("basic", credential)})
		default:
			return nil, errAuth.Errorf("line %d has neither bearer nor basic behind the role and the prefix, if it has these", number)
		}
	}
	if len(a.clients) == 0 {
		return nil, errAuth.Errorf("the list has no client")
	}
	return &a, nil
}

// rights reads the role and the prefix in front of a credential.
func rights(line string) (scheme, credential string, c access.Client) {
	for {
		word, rest, _ := strings.Cut(line, " ")
		line = strings.TrimSpace(rest)
		prefix, isPrefix := strings.CutSuffix(word, "*")
		switch {
		case c.Role == "" && slices.Contains(access.Roles(), access.Role(word)):
			c.Role = access.Role(word)
		case c.Prefix == "" && isPrefix && prefix != "":
			c.Prefix = prefix
		default:
			return word, line, c
		}
	}
}

// hashOf hashes a credential, so that all have the same length, and the schemes differ.
func hashOf(scheme, credential string) [sha256.Size]byte {
	return sha256.Sum256([]byte(scheme + " " + credential))
}

// client returns the client of a request, and whether it has access.
func (a *Auth) client(r *http.Request) (who access.Client, found bool) {
	var got [sha256.Size]byte
	if user, password, ok := r.BasicAuth(); ok {
		got = hashOf("basic", user+":"+password)
	} else if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		got = hashOf("bearer", strings.TrimSpace(token))
	} else {
		return who, false
	}
	for _, c := range a.clients { // always all of them, in constant time
		if subtle.ConstantTimeCompare(c.secret[:], got[:]) == 1 {
			who, found = c.Client, true
		}
	}
	return who, found
}
