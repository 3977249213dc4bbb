package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// Headers of a delivery.
const (
	idHeader        = "Webhook-Id"        // the same in each attempt: a receiver that has seen it needs not look again
	timeHeader      = "Webhook-Timestamp" // of the attempt, in Unix seconds
	signatureHeader = "Webhook-Signature" // see sign
)

const (
	// answerWithin is how long an endpoint may take. It is short, as all is here
	// that in life takes minutes.
	answerWithin = 500 * time.Millisecond

	// attempts is after how many a webhook goes to the dead letters.
	attempts = 5
)

// courier delivers webhooks.
type courier struct {
	endpoints map[string]endpoint // by tenant
	client    *http.Client
	hands     int              // how many deliveries are under way at a time
	failed    func(why string) // told of each attempt that failed

	cut atomic.Int64 // deliveries that were cut off because the time to drain was over
}

// run delivers what is in the queue until ctx ends, and returns when the
// deliveries that are under way then have ended, too.
func (c *courier) run(ctx context.Context, queue *fairqueue.Queue) error {
	return queue.Consume(ctx, fairqueue.ConsumeConfig{
		Concurrency: c.hands,
		Visibility:  10 * time.Second,
		Drain:       2 * answerWithin,
		Backoff: func(attempt int, err error) time.Duration { // shorter than the default, as all is here
			return fairqueue.Backoff(attempt, err) / 4
		},
	}, func(ctx context.Context, m fairqueue.Message) error {
		err := c.deliver(ctx, m)
		switch {
		case ctx.Err() != nil:
			c.cut.Add(1)
		case err != nil:
			c.failed(err.Error())
		}
		return err
	})
}

// deliver makes one attempt. Its error says what becomes of the webhook.
func (c *courier) deliver(ctx context.Context, m fairqueue.Message) error {
	to, known := c.endpoints[m.Tenant]
	if !known {
		return fairqueue.NoRetry(errors.New("the tenant has no endpoint any more"))
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(m.Body))
	if err != nil {
		return fairqueue.NoRetry(err)
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", m.Headers["Content-Type"])
	req.Header.Set(idHeader, m.ID)
	req.Header.Set(timeHeader, now)
	req.Header.Set(signatureHeader, sign(to.secret, m.ID, now, m.Body))

	response, err := c.client.Do(req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", answerWithin)
	case err != nil:
		return err
	}
	defer response.Body.Close()
	return judged(response)
}

// judged says what an answer means for its webhook.
func judged(response *http.Response) error {
	status := response.StatusCode
	if status >= 200 && status <= 299 {
		return nil
	}
	answered := fmt.Errorf("the endpoint answered %s", response.Status)
	switch status {
	case http.StatusGone:
		return fairqueue.NoRetry(answered)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if later, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
			return fairqueue.RetryAfter(time.Duration(later)*time.Second, answered)
		}
	}
	return answered
}

// sign returns the signature of an attempt: the HMAC-SHA256 of id, time and body
// with the tenant's secret, in hexadecimal. With the time signed, nobody can
// deliver an old attempt again as a new one.
func sign(secret []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.", id, at)
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// signed reports whether a delivery is from who has the secret.
func signed(secret []byte, header http.Header, body []byte) bool {
	want := sign(secret, header.Get(idHeader), header.Get(timeHeader), body)
	return hmac.Equal([]byte(header.Get(signatureHeader)), []byte(want))
}
