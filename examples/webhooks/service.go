package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

const (
	// keyHeader has what makes a repeated request the same one.
	keyHeader = "Idempotency-Key"

	// maxBody is the largest webhook that is accepted, in bytes.
	maxBody = 64 << 10
)

// endpoint is where a tenant's webhooks go.
type endpoint struct {
	url    string
	secret []byte // shared with the tenant, for signatures
}

// accepted is the answer to a webhook that was accepted.
type accepted struct {
	ID string `json:"id"`
}

// service accepts webhooks: POST /hooks/{tenant}. It answers 202 when the webhook
// is in the queue, and not before.
type service struct {
	queue     *fairqueue.Queue
	endpoints map[string]endpoint // by tenant
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/{tenant}", s.accept)
	return mux
}

func (s *service) accept(w http.ResponseWriter, req *http.Request) {
	tenant := req.PathValue("tenant")
	if _, known := s.endpoints[tenant]; !known {
		http.Error(w, "there is no such tenant", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	draft := fairqueue.Draft{Tenant: tenant, Body: body, DedupeID: req.Header.Get(keyHeader)}
	if kind := req.Header.Get("Content-Type"); kind != "" {
		draft.Headers = map[string]string{"Content-Type": kind}
	}
	id, err := s.queue.Write(req.Context(), draft)
	switch {
	case errors.Is(err, millrace.ErrBadArgument): // a key that is too long
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, millrace.ErrFull):
		w.Header().Set("Retry-After", "10")
		http.Error(w, "no more webhooks can be taken just now", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, "the webhook could not be taken: post it again under its key", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		if err := json.NewEncoder(w).Encode(accepted{ID: id}); err != nil {
			return // a caller that has gone posts it again
		}
	}
}
