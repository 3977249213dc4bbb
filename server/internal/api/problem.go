package api

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/lease"
)

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
)

// problem is an error as a document, by RFC 9457. Its type says nothing, so the
// title is the status in words; what programs look at is the code.
type problem struct {
	Type   string `json:"type" doc:"Says nothing; the code does." example:"about:blank"`
	Title  string `json:"title" doc:"The status in words." example:"Conflict"`
	Status int    `json:"status" example:"409"`
	Detail string `json:"detail" doc:"What went wrong, for people." example:"the receipt is stale"`
	Code   string `json:"code" doc:"What went wrong, for programs." example:"stale"`
	Hint   string `json:"hint,omitempty" doc:"What to do next, for people." example:"Stop the work; if it is not done, it comes again with another receipt."`

	Errors []fieldError `json:"errors,omitempty" doc:"Of bad_request: the things that are wrong, 100 at most."`

	Remaining *int64         `json:"remaining_ms,omitempty" doc:"Of held: until the holder's deadline."`
	Metadata  *document.Text `json:"metadata,omitempty" doc:"Of held: the holder's."`
	Fence     *int64         `json:"fence,omitempty" doc:"Of held: the holder's."`

	Value    *int64   `json:"value,omitempty" doc:"Of partial: the sum of the servers that answered."`
	Servers  *int     `json:"servers,omitempty" doc:"Of partial: how many servers there are."`
	Answered *int     `json:"answered,omitempty" doc:"Of partial: how many of them are in the sum."`
	Missing  []string `json:"missing,omitempty" doc:"Of partial: the names of the others."`

	cause error // for the log
}

// fieldError is one thing that is wrong with a request.
type fieldError struct {
	Location string `json:"location" doc:"Where, such as body.messages[3].tenant or query.max." example:"body.tenant"`
	Message  string `json:"message" example:"expected required property tenant to be present"`
}

// maxSaid is how many bytes a sentence has at most. What it repeats of a request may
// be megabytes long.
const maxSaid = 1 << 10

// brief returns a text, or the beginning of a long one.
func brief(text string) string {
	if len(text) <= maxSaid {
		return text
	}
	return strings.ToValidUTF8(text[:maxSaid], "") + " ..."
}

// Error returns what went wrong.
func (p *problem) Error() string { return p.Detail }

// Unwrap returns what it is about.
func (p *problem) Unwrap() error { return p.cause }

// GetStatus returns the status of the answer; huma calls it.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders returns what says when to come again; huma calls it.
func (p *problem) GetHeaders() http.Header {
	header := make(http.Header)
	if p.Status == http.StatusServiceUnavailable || p.Code == errInProgress.Code {
		header.Set("Retry-After", "1")
	}
	return header
}

// ContentType returns that of a problem; huma calls it.
func (p *problem) ContentType(string) string { return problemType }

// WriteProblem answers with an error: problem+json with its code and hint and the
// status that these have in this API. It is for handlers in front of the API, too.
func WriteProblem(w http.ResponseWriter, _ *http.Request, err error) {
	p := problemOf(err)
	header := w.Header()
	header.Set("Content-Type", p.ContentType(""))
	header.Set("Cache-Control", "no-store")
	maps.Copy(header, p.GetHeaders())
	w.WriteHeader(p.Status)
	_ = document.Encode(w, p) // to somebody who may have gone
}

// statuses are the codes that have a status of their own. Those that begin with
// bad_ are 400, and what is in neither is a failure of the service, 500.
var statuses = map[string]int{
	"unauthorized":       http.StatusUnauthorized,
	"cross_origin":       http.StatusForbidden,
	"not_found":          http.StatusNotFound,
	"method_not_allowed": http.StatusMethodNotAllowed,
	"slow_body":          http.StatusRequestTimeout,
	"evictable":          http.StatusConflict,
	"expired":            http.StatusConflict,
	"held":               http.StatusConflict,
	"in_progress":        http.StatusConflict,
	"lost":               http.StatusConflict,
	"not_a_number":       http.StatusConflict,
	"overflow":           http.StatusConflict,
	"retired":            http.StatusConflict,
	"stale":              http.StatusConflict,
	"too_many":           http.StatusConflict,
	"wrong_type":         http.StatusConflict,
	"too_large":          http.StatusRequestEntityTooLarge,
	"media_type":         http.StatusUnsupportedMediaType,
	"misdirected":        http.StatusMisdirectedRequest,
	"key_reused":         http.StatusUnprocessableEntity,
	"unknown_version":    http.StatusNotImplemented,
	"no_permission":      http.StatusBadGateway,
	"redis":              http.StatusBadGateway,
	"closed":             http.StatusServiceUnavailable,
	"partial":            http.StatusServiceUnavailable,
	"read_only":          http.StatusServiceUnavailable,
	"stranger":           http.StatusServiceUnavailable,
	"unavailable":        http.StatusServiceUnavailable,
	"uncertain":          http.StatusServiceUnavailable,
	"timeout":            http.StatusServiceUnavailable,
	"full":               http.StatusInsufficientStorage,
}

// Errors of Redis and of the way to it. What they wrap is for the log: it may name
// addresses.
var (
	errUnavailable = &millrace.Error{
		Code:    "unavailable",
		Message: "Redis cannot be asked at the moment",
		Hint:    "Repeat the request; what changes something may have been done, and with an Idempotency-Key it is done once.",
	}
	errTimeout = &millrace.Error{
		Code:    "timeout",
		Message: "Redis did not answer in time",
		Hint:    "Repeat the request; what changes something may have been done, and with an Idempotency-Key it is done once.",
	}
	errNoPermission = &millrace.Error{
		Code:    "no_permission",
		Message: "the service's Redis user may not do this",
		Hint:    "Let the Redis user run scripts and use the structure's keys (ACL SETUSER).",
	}
	errRedis  = &millrace.Error{Code: "redis"}
	errFailed = &millrace.Error{Code: "failed", Message: "the service failed", Hint: "See its log."}
)

// problemOf returns an error as a problem.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	said, ok := errors.AsType[*millrace.Error](err)
	detail := err.Error()
	if !ok {
		said = nameless(err)
		detail = said.Message
	}
	p := &problem{Type: "about:blank", Status: http.StatusInternalServerError, Detail: brief(detail), Code: said.Code, Hint: hintOf(err, said), cause: err}
	if status, ok := statuses[p.Code]; ok {
		p.Status = status
	} else if strings.HasPrefix(p.Code, "bad_") {
		p.Status = http.StatusBadRequest
	}
	p.Title = http.StatusText(p.Status)
	if held, ok := errors.AsType[*lease.HeldError](err); ok {
		remaining, metadata := held.Remaining.Milliseconds(), document.Text(held.Metadata)
		p.Remaining, p.Metadata, p.Fence = &remaining, &metadata, &held.Fence
	}
	return p
}

// nameless returns a name for an error that has none.
func nameless(err error) *millrace.Error {
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

// spoken are hints that name requests, in place of those that name methods of Go
// or commands.
var spoken = []struct {
	err  error
	hint string
}{
	{millrace.ErrNotFound, "Queues and Icks begin with their first write; see which there are with GET /v1/queues and GET /v1/icks."},
	{millrace.ErrBroken, "Look at its keys; DELETE removes those of a queue whatever they hold, and with force=true those of an Ick."},
	{document.ErrScore, `Scores are Unix seconds as numbers; "inf" and "-inf" are accepted.`},
	{lease.ErrHeld, `Wait for it with "wait", or come back later.`},
	{millrace.ErrEvictable, `Set maxmemory-policy to noeviction. Leases also work with a volatile-* policy, and accept the risk with "allow_evictable".`},
}

// hintOf returns what to do about an error.
func hintOf(err error, said *millrace.Error) string {
	hint := millrace.Hint(err)
	for _, s := range spoken {
		if hint != "" && errors.Is(err, s.err) {
			return s.hint
		}
	}
	if hint != "" {
		return hint
	}
	return said.Hint
}
