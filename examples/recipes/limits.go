package recipes

import (
	"context"
	"errors"
	"net/http"

	"github.com/millrace/millrace/fairqueue"
)

// setLimits runs when a program starts. It changes no limit that is set, so an operator's change stays.
func setLimits(ctx context.Context, q *fairqueue.Queue) error {
	everyone := fairqueue.OwnLimits{
		MaxInFlight: new(4),      // handlers at once
		Rate:        new(10.0),   // deliveries a second
		Burst:       new(20),     // and at once after a pause
		MaxWaiting:  new(10_000), // messages that wait
	}
	if err := q.Limits().SetIfUnset(ctx, "", everyone); err != nil {
		return err
	}
	return q.Limits().SetIfUnset(ctx, "acme", fairqueue.OwnLimits{Rate: new(100.0), Weight: new(3.0)})
}

// accept answers a customer who has too many messages with 429, before anything is written.
func accept(w http.ResponseWriter, r *http.Request, q *fairqueue.Queue, customer string, body []byte) {
	_, err := q.Write(r.Context(), fairqueue.Draft{Tenant: customer, Body: body})
	switch {
	case errors.Is(err, fairqueue.ErrTenantFull):
		http.Error(w, "too many of your messages wait", http.StatusTooManyRequests)
	case err != nil: // Redis is full or does not answer
		http.Error(w, "try again", http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}
