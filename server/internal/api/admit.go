package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// Why a request is refused before anybody looks at what it asks for.
var (
	errPath = &millrace.Error{
		Code: "bad_path",
		Hint: `Percent-encode names: a slash is %2F. A name cannot be empty, "." or "..", which clients and proxies resolve.`,
	}
	errNoSuchPath = &millrace.Error{
		Code:    "not_found",
		Message: "there is nothing at this path",
		Hint:    "See what there is with GET /openapi.json.",
	}
	errMethod = &millrace.Error{
		Code: "method_not_allowed",
		Hint: "The header Allow says what may be done here.",
	}
	errSlowBody = &millrace.Error{
		Code:    "slow_body",
		Message: "the body did not come in time",
		Hint:    "Send it in smaller pieces, or over a faster line.",
	}
	errBodyTooLarge = &millrace.Error{
		Code: "too_large",
		Hint: "Send less at once.",
	}
	errMediaType = &millrace.Error{
		Code: "media_type",
		Hint: "Send JSON, and say Content-Type: application/json.",
	}
	errRequest = &millrace.Error{
		Code: "bad_request",
		Hint: "See GET /openapi.json for what the request may have.",
	}
)

// admit lets in what may be asked, and returns the body.
func (a *API) admit(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := checkPath(r.URL); err != nil {
		return nil, err
	}
	operation, err := a.checkMethod(w, r)
	if err != nil {
		return nil, err
	}
	if err := checkQuery(r.URL.RawQuery); err != nil {
		return nil, err
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	if r.Method != http.MethodPost {
		return nil, errRequest.Errorf("a %s has no body here", r.Method)
	}
	body, err := a.readBody(w, r)
	if err != nil {
		return nil, err
	}
	return body, a.checkBody(body, a.bodies[operation])
}

// checkPath refuses what a mux, a client or a proxy would clean: nobody is to get
// another resource than the one that was named.
func checkPath(u *url.URL) error {
	path, ok := strings.CutPrefix(u.EscapedPath(), "/")
	if !ok {
		return errPath.Errorf("the path does not begin with a slash")
	}
	for part := range strings.SplitSeq(path, "/") {
		switch name, err := url.PathUnescape(part); {
		case err != nil:
			return errPath.Errorf("the path has an escape that is none")
		case name == "":
			return errPath.Errorf("a part of the path is empty")
		case name == ".", name == "..":
			return errPath.Errorf("a part of the path is %q", name)
		}
	}
	return nil
}

// methods are all that the API knows. HEAD is none of them: what it would have to
// do first, a GET of messages, takes them.
var methods = []string{http.MethodDelete, http.MethodGet, http.MethodPost}

// checkMethod returns the operation that is asked for, and refuses what nobody
// answers.
func (a *API) checkMethod(w http.ResponseWriter, r *http.Request) (operation string, err error) {
	var allowed []string
	for _, method := range methods {
		if _, pattern := a.mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "" {
			if method == r.Method {
				return pattern, nil
			}
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return "", errNoSuchPath
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return "", errMethod.Errorf("%s is nothing that can be done here", r.Method)
}

// repeatable is the one parameter of a query that may be given more than once.
const repeatable = "field"

// checkQuery refuses what would be passed over in silence.
func checkQuery(raw string) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return errRequest.Errorf("the query cannot be read: %s", err)
	}
	for name, list := range values {
		if len(list) > 1 && name != repeatable {
			return errRequest.Errorf("the query has %q more than once", name)
		}
	}
	return nil
}

// readBody reads the body while there is time for it.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := parameters["charset"]
	if err != nil || kind != jsonType || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, errMediaType.Errorf("the body is not said to be JSON, but %q", r.Header.Get("Content-Type"))
	}
	tooLarge := errBodyTooLarge.Errorf("the body has more than %d bytes", a.cfg.MaxBody)
	if r.ContentLength > a.cfg.MaxBody {
		w.Header().Set("Connection", "close") // and what comes is not read
		return nil, tooLarge
	}
	// Where there is a connection. When the body has come, net/http takes the deadline back.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.cfg.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.cfg.MaxBody))
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, errSlowBody
	case err != nil:
		return nil, errRequest.Errorf("the body ends too early")
	}
	return body, nil
}

// withBody returns the request with a body that was read.
func withBody(r *http.Request, body []byte) *http.Request {
	r = r.WithContext(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}
