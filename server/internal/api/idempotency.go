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
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/pinned"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"

	// maxKey is the longest key in bytes.
	maxKey = 255

	// answersNamespace is where answers are kept, a namespace of pinned.Keys.
	answersNamespace = "http"

	// answerLife is for how long an answer is kept. Where none was, the structures know
	// what they did for as long: package reqid.
	answerLife = 24 * time.Hour

	// markLifeDefault is for how long a mark says that a request is under way. While
	// it is, the mark is renewed; if its process is killed, the request may be repeated
	// after that.
	markLifeDefault = 5 * time.Second
)

var (
	errKey = &millrace.Error{
		Code: "bad_key",
		Hint: "Send one Idempotency-Key of 1 to 255 printable ASCII characters, such as a UUID.",
	}
	errKeyReused = &millrace.Error{
		Code:    "key_reused",
		Message: "the Idempotency-Key was used for a request with another query or body",
		Hint:    "Draw a new key for each request, and use it again only to repeat that one as it was.",
	}
	errInProgress = &millrace.Error{
		Code:    "in_progress",
		Message: "the request with this Idempotency-Key is under way",
		Hint:    "Repeat it in a second, for its answer.",
	}
)

// once answers a request that has a key: with the answer that was kept, or by doing
// what it asks for and keeping the answer.
//
//	      ┌──────────────── done, and refused for good ───────────────┐
//	      │                                                           ▼
//	new ──┴─▶ marked, under way ──▶ failed (5xx): the mark goes     kept ──▶ forgotten
//	              │      ▲                                                  after a day
//	              └──────┘ killed: the mark ends after some seconds, and what was
//	                       done is known to the structure, for a day as well
func (a *API) once(w http.ResponseWriter, r *http.Request, given []string, body []byte) {
	if err := checkKey(given); err != nil {
		a.refuse(w, r, err)
		return
	}
	ctx := r.Context()
	bounded, cancel := context.WithDeadline(ctx, *untilOf(ctx))
	defer cancel()
	answers, err := a.answers.get(answersNamespace, func() (*pinned.Keys, error) {
		return pinned.Open(bounded, a.cfg.Client, answersNamespace,
			pinned.Config{AllowEvictable: true, Logger: a.cfg.Logger, Hooks: a.cfg.Hooks})
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	name := nameOf(Principal(ctx), r.Method, r.URL.EscapedPath(), given[0])
	mine := answer{print: nameOf(r.URL.RawQuery, string(body))}
	// Another body under the same key is another request: where no answer is kept,
	// only the structures tell the two apart.
	work := r.WithContext(reqid.With(ctx, name+mine.print))
	asked := time.Now()
	marked, err := answers.Set(bounded, name, mine.encode(), a.markLife, pinned.SetConfig{IfNone: true})
	switch {
	case errors.Is(err, millrace.ErrFull):
		a.mux.ServeHTTP(w, work) // nothing can be kept, and what drains must be done all the same
	case err != nil:
		a.refuse(w, r, err)
	case !marked:
		a.replay(bounded, w, r, answers, name, mine)
	default:
		a.do(ctx, w, work, mark{answers, name, a.surely(asked)}, mine)
	}
}

// checkKey refuses what cannot be a key.
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

// replay answers a request that is not new.
func (a *API) replay(ctx context.Context, w http.ResponseWriter, r *http.Request, answers *pinned.Keys, name string, mine answer) {
	value, _, err := answers.Get(ctx, name)
	if err != nil && !errors.Is(err, millrace.ErrNotFound) {
		a.refuse(w, r, err)
		return
	}
	kept, ok := decodeAnswer(value)
	switch {
	case err != nil, ok && kept.print == mine.print && kept.status == 0:
		a.refuse(w, r, errInProgress) // or it failed at this moment
	case !ok:
		a.refuse(w, r, fmt.Errorf("the kept answer %s cannot be read", name))
	case kept.print != mine.print:
		a.refuse(w, r, errKeyReused)
	default:
		w.Header().Set(replayedHeader, "true")
		kept.write(w)
	}
}

// mark says that the request with a key is under way.
type mark struct {
	answers *pinned.Keys
	name    string
	lives   time.Time // until when it surely does, so that nobody else has another one
}

// surely returns until when a mark surely lives that Redis was asked for then.
func (a *API) surely(asked time.Time) time.Time { return asked.Add(a.markLife - a.markLife/5) }

// do does what a request asks for, and keeps the answer. What was done is answered
// even if the answer cannot be kept, or not in time.
func (a *API) do(ctx context.Context, w http.ResponseWriter, work *http.Request, m mark, mine answer) {
	behind := context.WithoutCancel(ctx) // the answer counts though the client has gone
	working, worked := context.WithCancel(behind)
	defer worked() // if what follows panics
	renewed := make(chan mark, 1)
	a.behind.Go(func() { renewed <- a.renew(working, m) })
	recorded := recorder{header: w.Header()}
	a.mux.ServeHTTP(&recorded, work)
	worked()
	mine.status, mine.body = recorded.status, recorded.body.Bytes()

	failed := mine.status >= http.StatusInternalServerError
	settled := make(chan struct{})
	a.behind.Go(func() {
		defer close(settled)
		m := <-renewed // a renewal must not come behind what is done to the mark now
		if failed {
			a.forget(behind, m)
		} else {
			a.keep(behind, m, mine)
		}
	})
	if !failed {
		bounded, cancel := context.WithDeadline(behind, *untilOf(ctx))
		defer cancel()
		select {
		case <-settled:
		case <-bounded.Done():
		}
	}
	mine.write(w)
}

// renew renews a mark until ctx ends, and returns it. One that may have ended stays
// as it is: what is there now may be somebody else's.
func (a *API) renew(ctx context.Context, m mark) mark {
	for retry.Sleep(ctx, a.markLife/3) {
		asked := time.Now()
		if !a.settle(context.WithoutCancel(ctx), m.lives, "go on to keep a place for", func(ctx context.Context) error {
			_, err := m.answers.Expire(ctx, m.name, a.markLife)
			return err
		}) {
			break
		}
		m.lives = a.surely(asked)
	}
	return m
}

// forget removes a mark, so that the request may be repeated at once. One that may
// have ended is left alone: in its place may be the answer to a repeat.
func (a *API) forget(ctx context.Context, m mark) {
	a.settle(ctx, m.lives, "forget", func(ctx context.Context) error {
		_, err := m.answers.Remove(ctx, m.name)
		return err
	})
}

// keep puts an answer in the place of a mark.
func (a *API) keep(ctx context.Context, m mark, mine answer) {
	a.settle(ctx, time.Now().Add(a.cfg.Timeout), "keep", func(ctx context.Context) error {
		_, err := m.answers.Set(ctx, m.name, mine.encode(), answerLife, pinned.SetConfig{})
		return err
	})
}

// settle does what is to become of a mark until then, and reports whether it could;
// it logs if not.
func (a *API) settle(ctx context.Context, until time.Time, what string, do func(context.Context) error) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := do(ctx)
	if err != nil {
		a.cfg.Logger.WarnContext(ctx, "could not "+what+" the answer to a request with an Idempotency-Key", "error", err)
	}
	return err == nil
}

// nameOf returns a name for what these texts are, and others are not.
func nameOf(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// answer is what is kept of a request: the print of its query and its body, and what
// was answered.
// One that is under way has no status.
type answer struct {
	print  string
	status int
	body   []byte
}

// encode returns the answer as it is kept: "PRINT STATUS\nBODY".
func (a answer) encode() []byte {
	return append([]byte(a.print+" "+strconv.Itoa(a.status)+"\n"), a.body...)
}

// decodeAnswer reads what encode returned.
func decodeAnswer(value []byte) (a answer, ok bool) {
	head, body, found := bytes.Cut(value, []byte("\n"))
	sum, status, cut := strings.Cut(string(head), " ")
	number, err := strconv.Atoi(status)
	return answer{sum, number, body}, found && cut && err == nil
}

// write answers.
func (a answer) write(w http.ResponseWriter) {
	kind := jsonType
	if a.status >= http.StatusBadRequest {
		kind = problemType
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // to somebody who may have gone
}

// recorder takes an answer down.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader takes the status down.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write takes a part of the body down.
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
