package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/lease"
)

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
)

// problem is an error as a document of RFC 9457. Its type is always about:blank, so the
// title is the status in words. Programs use the code.
type problem struct {
	Type   string `json:"type" doc:"Always about:blank; use the code." example:"about:blank"`
	Title  string `json:"title" doc:"The status in words." example:"Conflict"`
	Status int    `json:"status" example:"409"`
	Detail string `json:"detail" doc:"What went wrong, for people." example:"the receipt is stale"`
	Code   string `json:"code" doc:"What went wrong, for programs." example:"stale"`
	Hint   string `json:"hint,omitempty" doc:"What to do next, for people." example:"Stop the work; if it is not done, it is delivered again with another receipt."`

	Errors []fieldError `json:"errors,omitempty" doc:"Of bad_request: the errors in the request, 100 at most."`

	Remaining *int64         `json:"remaining_ms,omitempty" doc:"Of held: until the holder's deadline."`
	Metadata  *jsontype.Text `json:"metadata,omitempty" doc:"Of held: the holder's."`
	Fence     *int64         `json:"fence,omitempty" doc:"Of held: the holder's."`

	Value    *int64   `json:"value,omitempty" doc:"Of partial: the sum of the servers that answered."`
	Servers  *int     `json:"servers,omitempty" doc:"Of partial: how many servers there are."`
	Answered *int     `json:"answered,omitempty" doc:"Of partial: how many of them are in the sum."`
	Missing  []string `json:"missing,omitempty" doc:"Of partial: the names of the others."`

	cause error // for the log
}

// fieldError is one error in a request.
type fieldError struct {
	Location string `json:"location" doc:"Where, such as body.messages[3].tenant or query.max." example:"body.tenant"`
	Message  string `json:"message" example:"expected required property tenant to be present"`
}

// maxText is the longest text of a problem in bytes: it may quote a huge request.
const maxText = 1 << 10

// brief shortens a long text.
func brief(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + " ..."
}

// The methods below are for errors and for huma.

func (p *problem) Error() string             { return p.Detail }
func (p *problem) Unwrap() error             { return p.cause }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return problemType }

func (p *problem) GetHeaders() http.Header {
	header := make(http.Header)
	if p.Status == http.StatusServiceUnavailable || p.Code == errInProgress.Code {
		header.Set("Retry-After", "1")
	}
	return header
}

// WriteProblem answers with an error as problem+json. It is for handlers in front of the
// API, too.
func WriteProblem(w http.ResponseWriter, err error) {
	p := problemOf(err)
	header := w.Header()
	header.Set("Content-Type", p.ContentType(""))
	header.Set("Cache-Control", "no-store")
	maps.Copy(header, p.GetHeaders())
	w.WriteHeader(p.Status)
	_ = jsontype.Encode(w, p) // the client may have gone
}

// refusals has the meaning and the codes of each status. A code that begins with bad_ is
// 400, and any other that is not listed is a failure of the service, 500.
var refusals = map[int]struct{ meaning, codes string }{
	http.StatusBadRequest:            {"The request is invalid; nothing was done", "bad_request bad_path bad_utf8 bad_key bad_name bad_argument bad_score"},
	http.StatusUnauthorized:          {"The service needs credentials", "unauthorized"},
	http.StatusForbidden:             {"The client's role or prefix does not allow it, or a page of another site sent the request", "forbidden cross_origin"},
	http.StatusNotFound:              {"It does not exist", "not_found"},
	http.StatusMethodNotAllowed:      {"The path has no such method", "method_not_allowed"},
	http.StatusRequestTimeout:        {"The body did not arrive in time", "slow_body"},
	http.StatusConflict:              {"The current state does not allow it, or the same request is in progress", "stale held lost expired evictable retired not_a_number wrong_type overflow too_many too_many_sources position_gap batch_over in_progress"},
	http.StatusRequestEntityTooLarge: {"The body is too large", "too_large"},
	http.StatusUnsupportedMediaType:  {"The Content-Type is not JSON", "media_type"},
	http.StatusMisdirectedRequest:    {"The service does not answer to this host name", "misdirected"},
	http.StatusUnprocessableEntity:   {"The Idempotency-Key was used for another query or body", "key_reused"},
	http.StatusTooManyRequests:       {"As many messages of the tenant wait as may", "tenant_full"},
	http.StatusInternalServerError:   {"A structure is broken, or the service failed", "broken failed"},
	http.StatusNotImplemented:        {"The structure has a version that this service does not know", "unknown_version"},
	http.StatusBadGateway:            {"Redis refused", "no_permission redis"},
	http.StatusServiceUnavailable:    {"Redis is not available, or only in part, or did not answer in time, or the service has too many bodies; Retry-After says when to repeat the request", "unavailable timeout read_only uncertain partial stranger closed busy"},
	http.StatusInsufficientStorage:   {"Redis is full, and nothing was written", "full"},
}

// statusOf returns the status of a code.
func statusOf(code string) int {
	for status, r := range refusals {
		if slices.Contains(strings.Fields(r.codes), code) {
			return status
		}
	}
	if strings.HasPrefix(code, "bad_") {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// Errors of Redis and of the connection. The answer leaves out the errors that they wrap,
// which may contain addresses; the log has them.
var (
	errUnavailable = &millrace.Error{
		Code:    "unavailable",
		Message: "Redis is not available",
		Hint:    "Repeat the request. A change may have been applied; with an Idempotency-Key it is applied once.",
	}
	errTimeout = &millrace.Error{
		Code:    "timeout",
		Message: "Redis did not answer in time",
		Hint:    "Repeat the request. A change may have been applied; with an Idempotency-Key it is applied once.",
	}
	errNoPermission = &millrace.Error{
		Code:    "no_permission",
		Message: "the service's Redis user has no permission for this",
		Hint:    "Allow the Redis user scripts and the structure's keys (ACL SETUSER).",
	}
	errRedis  = &millrace.Error{Code: "redis"}
	errFailed = &millrace.Error{Code: "failed", Message: "the service failed", Hint: "See its log."}
)

// problemOf returns an error as a problem.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	cause := err
	err = retry.Bare(err)
	known, ok := errors.AsType[*millrace.Error](err)
	detail := err.Error()
	if !ok {
		known = classify(err)
		detail = known.Message
	}
	status := statusOf(known.Code)
	p := &problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: brief(detail),
		Code: known.Code, Hint: cmp.Or(hintOf(err), known.Hint), cause: cause,
	}
	if held, ok := lease.Holder(err); ok {
		remaining, metadata := held.Remaining.Milliseconds(), jsontype.Text(held.Metadata)
		p.Remaining, p.Metadata, p.Fence = &remaining, &metadata, &held.Fence
	}
	return p
}

// classify returns the error with a code for one without.
func classify(err error) *millrace.Error {
	reply, refused := errors.AsType[*rueidis.RedisError](err)
	_, unreached := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && !unreached:
		return errTimeout
	case retry.Denied(err):
		return errNoPermission
	case refused && !retry.Transient(reply):
		return errRedis.Errorf("Redis refused: %s", reply)
	case refused, unreached, errors.Is(err, context.Canceled), errors.Is(err, rueidis.ErrClosing), retry.Transient(err):
		return errUnavailable
	}
	return errFailed
}

// hints replace hints that name Go methods or commands.
var hints = []struct {
	err  error
	hint string
}{
	{millrace.ErrNotFound, "The first write creates a queue or a dirty list; list them with GET /v1/queues and GET /v1/icks."},
	{millrace.ErrBroken, "Look at its keys. DELETE removes the keys of a queue whatever they hold, and with force=true those of a dirty list."},
	{millrace.ErrUnavailable, "Repeat the request. Nothing was changed."},
	{jsontype.ErrScore, `Scores are Unix seconds as numbers; "inf" and "-inf" are valid.`},
	{lease.ErrHeld, `Wait for it with "wait", or try again later.`},
	{millrace.ErrEvictable, `Set maxmemory-policy to noeviction; for a lease a volatile-* policy is enough, or accept the risk with "allow_evictable".`},
}

// hintOf returns the hint of an error, if it has one.
func hintOf(err error) string {
	hint := millrace.Hint(err)
	for _, h := range hints {
		if hint != "" && errors.Is(err, h.err) {
			return h.hint
		}
	}
	return hint
}
