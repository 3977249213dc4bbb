// Package mail is the work of the programs before and after. It does not change when the queue does.
package mail

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Mail is a mail of a customer.
type Mail struct {
	Customer string `json:"customer"`
	To       string `json:"to"`
	Key      string `json:"key"` // of the request that asked for it
}

// Send sends a mail with its Key as the key of idempotency, so that a second call with the same key sends nothing.
type Send func(ctx context.Context, m Mail) error

// ErrNoAddress is an error of Send that a retry does not help.
var ErrNoAddress = errors.New("no such address")

// BusyError says when to try again, as an answer of 429 does.
type BusyError struct{ After time.Duration }

func (e *BusyError) Error() string { return fmt.Sprintf("too many requests, again after %v", e.After) }

// Digest returns the mail of a day to the team.
func Digest(day time.Time) Mail {
	return Mail{Customer: "us", To: "team@shop.example", Key: "digest/" + day.UTC().Format(time.DateOnly)}
}
