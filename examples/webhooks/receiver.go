package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// Tenants. Those not named here are quiet.
const (
	noisyTenant = "noisy" // many webhooks, and an endpoint that is slow and fails
	goneTenant  = "gone"  // quiet, and its endpoint is no more
)

const (
	// slowness is how long the noisy tenant's endpoint takes on average, a third
	// of it at least.
	slowness = 150 * time.Millisecond

	// hopeless is one webhook of the noisy tenant in so many, which its endpoint
	// cannot digest, however often it comes.
	hopeless = 100
)

// receiver is the tenants' side: an HTTP server with an endpoint for each of them.
type receiver struct {
	endpoints map[string]endpoint
	ledger    *ledger
}

func (r *receiver) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{tenant}", r.receive)
	return mux
}

// receive is an endpoint. It checks the signature first, as every endpoint should.
func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	tenant := req.PathValue("tenant")
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !signed(r.endpoints[tenant].secret, req.Header, body) {
		r.ledger.forged()
		http.Error(w, "the signature is not good", http.StatusForbidden)
		return
	}
	number, err := numberOf(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch tenant {
	case goneTenant:
		w.WriteHeader(http.StatusGone)
		return
	case noisyTenant:
		if !fumble(w, req, number) {
			return
		}
	}
	r.ledger.received(number)
	w.WriteHeader(http.StatusNoContent)
}

// fumble is what the noisy tenant's endpoint does with a webhook. It reports
// whether it takes it, and has answered if not.
func fumble(w http.ResponseWriter, req *http.Request, number int) bool {
	pause := slowness/3 + rand.N(slowness*4/3)
	chance := rand.IntN(100)
	if chance < 2 {
		pause = 2 * answerWithin
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-req.Context().Done():
		return false // the courier has given up
	}
	switch {
	case number%hopeless == 0, chance < 15:
		w.WriteHeader(http.StatusInternalServerError)
		return false
	case chance < 20:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return false
	}
	return true
}
