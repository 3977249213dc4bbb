package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/ops"
)

// Errors of requests that no operation sees.
var (
	errPath = &millrace.Error{
		Code: "bad_path",
		Hint: `Percent-encode names: a slash is %2F. A name cannot be empty, "." or "..", which clients and proxies resolve.`,
	}
	errNoSuchPath = &millrace.Error{
		Code:    "not_found",
		Message: "this path does not exist",
		Hint:    "GET /openapi.json lists all paths.",
	}
	errMethod = &millrace.Error{
		Code: "method_not_allowed",
		Hint: "The header Allow lists the methods of this path.",
	}
	errSlowBody = &millrace.Error{
		Code:    "slow_body",
		Message: "the body did not arrive in time",
		Hint:    "Send smaller requests, or use a faster connection.",
	}
	errBodyTooLarge = &millrace.Error{
		Code: "too_large",
		Hint: "Send smaller requests.",
	}
	errMediaType = &millrace.Error{
		Code: "media_type",
		Hint: "Send JSON with Content-Type: application/json.",
	}
	errRequest = ops.ErrRequest
)

// admit checks a request and returns its body.
func (a *API) admit(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := checkPath(r.URL); err != nil {
		return nil, err
	}
	operation, err := a.checkMethod(w, r)
	if err != nil {
		return nil, err
	}
	if err := checkQuery(r.URL.RawQuery, a.lists[operation]); err != nil {
		return nil, err
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		return nil, errRequest.Errorf("a %s request has no body here", r.Method)
	}
	body, err := a.readBody(w, r)
	if err != nil {
		return nil, err
	}
	return body, a.checkBody(body, a.bodies[operation])
}

// checkPath refuses paths that a mux, a client or a proxy would clean: they could lead to
// another resource.
func checkPath(u *url.URL) error {
	path, ok := strings.CutPrefix(u.EscapedPath(), "/")
	if !ok {
		return errPath.Errorf("the path does not begin with a slash")
	}
	for part := range strings.SplitSeq(path, "/") {
		switch name, err := url.PathUnescape(part); {
		case err != nil:
			return errPath.Errorf("the path has an invalid escape")
		case name == "":
			return errPath.Errorf("a part of the path is empty")
		case name == ".", name == "..":
			return errPath.Errorf("a part of the path is %q", name)
		}
	}
	return nil
}

// methods are all methods of the API. A GET or HEAD changes nothing.
var methods = []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut}

// checkMethod returns the pattern of the operation, or an error if there is none.
func (a *API) checkMethod(w http.ResponseWriter, r *http.Request) (operation string, err error) {
	if _, pattern := a.mux.Handler(r); pattern != "" {
		return pattern, nil
	}
	var allowed []string
	for _, method := range methods {
		if _, pattern := a.mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return "", errNoSuchPath
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return "", errMethod.Errorf("this path has no method %s", r.Method)
}

// checkQuery refuses parameters that would be ignored otherwise: those that an operation has, and that are there twice.
func checkQuery(raw string, lists map[string]bool) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return errRequest.Errorf("the query is invalid: %s", err)
	}
	for name, list := range values {
		if len(list) > 1 && !lists[name] {
			return errRequest.Errorf("the query has %q more than once", name)
		}
	}
	return nil
}

// readBody reads the body within its timeout.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := parameters["charset"]
	if err != nil || kind != jsonType || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, errMediaType.Errorf("the Content-Type is %q instead of JSON", r.Header.Get("Content-Type"))
	}
	tooLarge := func() error { return errBodyTooLarge.Errorf("the body has more than %d bytes", a.cfg.MaxBody) }
	if r.ContentLength > a.cfg.MaxBody {
		w.Header().Set("Connection", "close") // the rest is not read
		return nil, tooLarge()
	}
	// net/http removes the deadline after the body. Without a connection there is none.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.cfg.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.cfg.MaxBody))
	_, large := errors.AsType[*http.MaxBytesError](err)
	_, refused := errors.AsType[*millrace.Error](err)
	switch {
	case refused: // by the service
		return nil, err
	case large:
		return nil, tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, errSlowBody
	case err != nil:
		return nil, errRequest.Errorf("the body ends too early")
	}
	return body, nil
}
