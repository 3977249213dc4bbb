package server

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/server/internal/api"
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
		if cross.Check(r) != nil || matters(r) && fromElsewhere(r) {
			api.WriteProblem(w, r, errCrossOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// matters reports whether it matters whose page makes a request: if it changes
// something, and always for the API, where a GET may take messages. Pages may be
// linked to.
func matters(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || strings.HasPrefix(r.URL.Path, "/v1/")
}

// fromElsewhere reports whether a browser says that a page of another site makes
// the request. It says so plainly over TLS and to its own machine. Elsewhere it only
// names that page, in one of two headers, and there a page may have it say nothing.
func fromElsewhere(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site != "same-origin" && site != "none"
	}
	for _, name := range []string{"Origin", "Referer"} {
		if page := r.Header.Get(name); page != "" {
			u, err := url.Parse(page)
			if err != nil || !strings.EqualFold(u.Host, r.Host) {
				return true
			}
		}
	}
	return false
}

// hostOf returns the name of a Host header, without the port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
