package server

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/millrace/millrace"
)

const (
	// maxBodies is how many bytes of bodies the service holds at once, of requests that are
	// read or in progress.
	maxBodies = 64 << 20

	// maxLarge is how many of them bodies may take that are larger than smallBody. So a few
	// huge uploads leave room for messages and receipts.
	maxLarge  = 48 << 20
	smallBody = 64 << 10
)

var errBusy = &millrace.Error{
	Code:    "busy",
	Message: "the bodies of other requests take all the memory that the service has for them",
	Hint:    "Repeat the request in a second, or send smaller ones.",
}

// bodies counts the bytes of the bodies that are in memory. Clients may send slowly, and as
// many at once as they like.
type bodies struct{ held atomic.Int64 }

// limit refuses bodies that would take too much memory.
func (b *bodies) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			body := &countedBody{ReadCloser: r.Body, of: b, refused: func() { w.Header().Set("Connection", "close") }}
			defer body.release()
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// countedBody is the body of a request. Its bytes count from reading until the answer.
type countedBody struct {
	io.ReadCloser

	of      *bodies
	held    int64
	refused func()
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	most := int64(maxBodies)
	if c.held += int64(n); c.held > smallBody {
		most = maxLarge
	}
	if c.of.held.Add(int64(n)) > most && n > 0 {
		c.refused() // the rest is not read
		return 0, errBusy
	}
	return n, err
}

func (c *countedBody) release() { c.of.held.Add(-c.held) }
