package server

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/server/api"
)

// Why a request is refused before anybody looks at what it asks for.
var (
	errUnauthorized = &millrace.Error{
		Code:    "unauthorized",
		Message: "this service asks who you are",
		Hint:    "Send Authorization: Bearer TOKEN, or a user and a password, as the service was told.",
	}
	errCrossOrigin = &millrace.Error{
		Code:    "cross_origin",
		Message: "a page of another site asks for this",
		Hint:    "Ask from a program, or from this service's own pages.",
	}
	errHost = &millrace.Error{
		Code:    "misdirected",
		Message: "this service is not known by that name",
		Hint:    "Ask for it as 127.0.0.1 or localhost; to serve it under other names, have it ask for credentials (MILLRACE_AUTH).",
	}
)

// guard lets through what may pass. From the outside in:
//
//	Host           so that a page of a stranger, whose name now leads here, does not count as ours
//	credentials    if there are any
//	origin         nothing that changes something comes from another site's page, and nothing of the API
func (s *Server) guard(next http.Handler) http.Handler {
	var cross http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if len(s.cfg.Hosts) > 0 && !slices.Contains(s.cfg.Hosts, hostOf(r.Host)) {
			api.WriteProblem(w, r, errHost)
			return
		}
		if s.cfg.Auth != nil {
			who, ok := s.cfg.Auth.principal(r)
			if !ok {
				header.Add("WWW-Authenticate", `Basic realm="Millrace", charset="UTF-8"`)
				header.Add("WWW-Authenticate", `Bearer realm="Millrace"`)
				api.WriteProblem(w, r, errUnauthorized)
				return
			}
			r = r.WithContext(api.WithPrincipal(r.Context(), who))
		}
		if cross.Check(r) != nil || strings.HasPrefix(r.URL.Path, "/v1/") && fromElsewhere(r) {
			api.WriteProblem(w, r, errCrossOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromElsewhere reports whether a browser says that a page of another site makes
// the request. A GET of the API may take messages, so there it matters for every
// method.
func fromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// hostOf returns the name of a Host header, without the port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
