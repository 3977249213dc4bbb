package server

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/server/internal/access"
	"github.com/millrace/millrace/server/internal/api"
)

var (
	errUnauthorized = &millrace.Error{
		Code:    "unauthorized",
		Message: "this service needs credentials",
		Hint:    "Send Authorization: Bearer TOKEN, or a user and a password from the service's configuration.",
	}
	errCrossOrigin = &millrace.Error{
		Code:    "cross_origin",
		Message: "a page of another site sent this request",
		Hint:    "Send it from a program, or from this service's own pages.",
	}
	errHost = &millrace.Error{
		Code:    "misdirected",
		Message: "this service does not answer to that host name",
		Hint:    "Use 127.0.0.1 or localhost; to serve other names, require credentials (MILLRACE_AUTH).",
	}
)

// guard checks a request before the API or a page sees it:
//
//	Host           a foreign name that resolves to this address is refused
//	credentials    if the service has any
//	origin         other sites' pages change nothing and do not use the API
func (s *Server) guard(next http.Handler) http.Handler {
	var cross http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if len(s.cfg.Hosts) > 0 && !slices.Contains(s.cfg.Hosts, hostOf(r.Host)) {
			api.WriteProblem(w, errHost)
			return
		}
		if s.cfg.Auth != nil {
			who, ok := s.cfg.Auth.client(r)
			if !ok {
				header.Add("WWW-Authenticate", `Basic realm="Millrace", charset="UTF-8"`)
				header.Add("WWW-Authenticate", `Bearer realm="Millrace"`)
				api.WriteProblem(w, errUnauthorized)
				return
			}
			r = r.WithContext(access.With(r.Context(), who))
		}
		if cross.Check(r) != nil || needsOrigin(r) && crossSite(r) {
			api.WriteProblem(w, errCrossOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// needsOrigin reports whether the origin of a request matters: if it changes something,
// and always for the API, since other sites have no reason to make it work. Pages may be
// linked to.
func needsOrigin(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || strings.HasPrefix(r.URL.Path, "/v1/")
}

// crossSite reports whether the browser says that a page of another site sent the
// request. Over TLS and to a loopback address browsers send Sec-Fetch-Site. Elsewhere
// they send at most the page's name, in one of two headers.
func crossSite(r *http.Request) bool {
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

// hostOf returns the name in a Host header, without the port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
