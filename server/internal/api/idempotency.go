package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/server/internal/access"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"

	maxKey = 255 // bytes

	// answersNamespace is the namespace of pinned.Keys that stores answers.
	answersNamespace = "http"

	// answerTTL is how long an answer is kept, unless it is true for less. Without an
	// answer, the structures remember the request for as long: package reqid.
	answerTTL = 24 * time.Hour

	// lasting is for how long most answers are true: longer than they are kept.
	lasting = 2 * answerTTL

	// briefest is how long an answer must be true to be kept.
	briefest = time.Second

	// defaultMarkTTL is how long a mark shows that a request is in progress, unless it is
	// renewed. If the process is killed, the request may be repeated after that.
	defaultMarkTTL = 5 * time.Second
)

var (
	errKey = &millrace.Error{
		Code: "bad_key",
		Hint: "Send one Idempotency-Key of 1 to 255 printable ASCII characters, such as a UUID.",
	}
	errKeyReused = &millrace.Error{
		Code:    "key_reused",
		Message: "the Idempotency-Key was used for a request with another query or body",
		Hint:    "Use a new key for each request, and the same key only to repeat that request unchanged.",
	}
	errInProgress = &millrace.Error{
		Code:    "in_progress",
		Message: "the request with this Idempotency-Key is in progress",
		Hint:    "Repeat it in a second to get its answer.",
	}
)

// once answers a request with a key: with the stored answer, or by doing the work and
// storing the answer.
//
//	new ──▶ marked, in progress ──┬──▶ done: answer stored ──▶ expires after a day, or sooner
//	              │      ▲        │                            if it is true for less
//	              │      │        └──▶ refused or failed: mark removed
//	              └──────┘ killed: the mark expires after some seconds, and the structure
//	                       remembers the request for a day
func (a *API) once(w http.ResponseWriter, r *http.Request, given []string, body []byte) {
	if err := checkKey(given); err != nil {
		a.refuse(w, r, err)
		return
	}
	ctx := r.Context()
	bounded, cancel := context.WithDeadline(ctx, boundsOf(ctx).deadline)
	defer cancel()
	name := hash(access.Of(ctx).Name, r.Method, r.URL.EscapedPath(), given[0])
	own := answer{fingerprint: hash(r.URL.RawQuery, string(body))}
	// A different body under the same key is another request. Where no answer is stored,
	// the structures need different request ids to tell them apart.
	work := r.WithContext(reqid.With(ctx, name+own.fingerprint))
	asked := time.Now()
	marked, err := a.answers.Set(bounded, name, own.encode(), a.cfg.markTTL, pinned.SetConfig{IfNone: true})
	switch {
	case errors.Is(err, millrace.ErrFull):
		a.mux.ServeHTTP(w, work) // no answer can be stored, but requests that free memory must still work
	case err != nil:
		a.refuse(w, r, err)
	case !marked:
		a.replay(bounded, w, r, name, own)
	default:
		a.do(ctx, w, work, mark{name, a.expiry(asked)}, own)
	}
}

func checkKey(given []string) error {
	switch {
	case len(given) > 1:
		return errKey.Errorf("there is more than one Idempotency-Key")
	case given[0] == "" || len(given[0]) > maxKey:
		return errKey.Errorf("the Idempotency-Key has %d bytes", len(given[0]))
	case strings.ContainsFunc(given[0], func(c rune) bool { return c < ' ' || c > '~' }):
		return errKey.Errorf("the Idempotency-Key has a character that is not printable ASCII")
	}
	return nil
}

// replay answers a repeated request.
func (a *API) replay(ctx context.Context, w http.ResponseWriter, r *http.Request, name string, own answer) {
	value, _, err := a.answers.Get(ctx, name)
	if err != nil && !errors.Is(err, millrace.ErrNotFound) {
		a.refuse(w, r, err)
		return
	}
	stored, ok := decodeAnswer(value)
	switch {
	case err != nil, ok && stored.fingerprint == own.fingerprint && stored.status == 0:
		a.refuse(w, r, errInProgress) // or it has just been refused
	case !ok:
		a.refuse(w, r, fmt.Errorf("the stored answer %s cannot be decoded", name))
	case stored.fingerprint != own.fingerprint:
		a.refuse(w, r, errKeyReused)
	default:
		w.Header().Set(replayedHeader, "true")
		stored.write(w)
	}
}

// mark shows that the request with a key is in progress.
type mark struct {
	name    string
	expires time.Time // not before; until then it is this process's
}

// expiry returns when a mark that was set or renewed at that time expires at the earliest.
func (a *API) expiry(asked time.Time) time.Time { return asked.Add(a.cfg.markTTL - a.cfg.markTTL/5) }

// trueFor says for how long the answer to a request is true: until a lease ends, or until
// messages are visible again. It is not replayed after that.
func trueFor(ctx context.Context, d time.Duration) { boundsOf(ctx).keep = d }

// do does the work of a request and stores the answer. It answers even if the answer
// cannot be stored in time.
func (a *API) do(ctx context.Context, w http.ResponseWriter, work *http.Request, m mark, own answer) {
	background := context.WithoutCancel(ctx) // the client may have gone
	working, worked := context.WithCancel(background)
	defer worked() // in case of a panic
	renewed := make(chan mark, 1)
	a.background.Go(func() { renewed <- a.renew(working, m) })
	recorded := recorder{header: w.Header()}
	a.mux.ServeHTTP(&recorded, work)
	done := time.Now()
	worked()
	own.status, own.body = recorded.status, recorded.body.Bytes()

	settled := make(chan struct{})
	a.background.Go(func() {
		defer close(settled)
		m := <-renewed // no renewal may follow
		keep := boundsOf(ctx).keep
		if own.status < http.StatusMultipleChoices && keep >= briefest {
			a.store(background, m, own, done, keep)
		} else {
			a.forget(background, m)
		}
	})
	if own.status < http.StatusInternalServerError {
		bounded, cancel := context.WithDeadline(background, boundsOf(ctx).deadline)
		defer cancel()
		select {
		case <-settled:
		case <-bounded.Done():
		}
	}
	own.write(w)
}

// renew renews a mark until ctx ends, and returns it. It leaves a mark that may have
// expired: the key may belong to a repeat now.
func (a *API) renew(ctx context.Context, m mark) mark {
	for retry.Sleep(ctx, a.cfg.markTTL/3) {
		asked := time.Now()
		if !a.settle(context.WithoutCancel(ctx), m.expires, "renew the mark of", func(ctx context.Context) error {
			_, err := a.answers.Expire(ctx, m.name, a.cfg.markTTL)
			return err
		}) {
			break
		}
		m.expires = a.expiry(asked)
	}
	return m
}

// forget removes a mark, so that the request may be repeated at once. It leaves a mark
// that may have expired: the key may have the answer to a repeat now.
func (a *API) forget(ctx context.Context, m mark) {
	a.settle(ctx, m.expires, "forget", func(ctx context.Context) error {
		_, err := a.answers.Remove(ctx, m.name)
		return err
	})
}

// store replaces a mark by an answer that was true for some time when it was made. It reserves
// a fifth of that time for the way to Redis, since a kept answer must still be true. A later
// request runs again, and the structure remembers the first one.
func (a *API) store(ctx context.Context, m mark, own answer, made time.Time, keep time.Duration) {
	ttl := min(answerTTL, time.Until(made.Add(keep-keep/5)))
	a.settle(ctx, time.Now().Add(min(a.cfg.Timeout, keep/5)), "store", func(ctx context.Context) error {
		_, err := a.answers.Set(ctx, m.name, own.encode(), max(ttl, time.Millisecond), pinned.SetConfig{})
		return err
	})
}

// settle changes a mark before a deadline. It logs failures, and reports success.
func (a *API) settle(ctx context.Context, until time.Time, what string, do func(context.Context) error) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := do(ctx)
	if err != nil {
		a.cfg.Logger.WarnContext(ctx, "could not "+what+" the answer to a request with an Idempotency-Key", "error", err)
	}
	return err == nil
}

// hash returns a hash that is different for different lists of texts.
func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// answer is the stored answer to a request. The fingerprint is that of its query and
// body; the status is 0 while it is in progress.
type answer struct {
	fingerprint string
	status      int
	body        []byte
}

// encode returns the stored form: "FINGERPRINT STATUS\nBODY".
func (a answer) encode() []byte {
	return append([]byte(a.fingerprint+" "+strconv.Itoa(a.status)+"\n"), a.body...)
}

// decodeAnswer reads the stored form.
func decodeAnswer(value []byte) (a answer, ok bool) {
	head, body, found := bytes.Cut(value, []byte("\n"))
	sum, status, cut := strings.Cut(string(head), " ")
	number, err := strconv.Atoi(status)
	return answer{sum, number, body}, found && cut && err == nil
}

func (a answer) write(w http.ResponseWriter) {
	kind := jsonType
	if a.status >= http.StatusBadRequest {
		kind = problemType
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have gone
}

// recorder records an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
