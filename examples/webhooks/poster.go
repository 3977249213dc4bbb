package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// repeats is one post in so many that is made twice, as by somebody whose
// connection broke before the answer came.
const repeats = 10

// poster is the tenants' side where webhooks come from.
type poster struct {
	url    string // of the service, up to the tenant
	client *http.Client
	ledger *ledger
}

// keep posts webhooks of one tenant until a time comes, with pauses of every on
// average.
func (p poster) keep(ctx context.Context, tenant string, together bool, every time.Duration, end time.Time) error {
	next := time.Now()
	for {
		next = next.Add(time.Duration(rand.ExpFloat64() * float64(every)))
		if next.After(end) || time.Now().After(end) { // or it is behind, on a busy machine
			return nil
		}
		if err := rest(ctx, time.Until(next)); err != nil {
			return err
		}
		if err := p.post(ctx, tenant, together); err != nil {
			return err
		}
	}
}

// post posts one webhook, sometimes twice.
func (p poster) post(ctx context.Context, tenant string, together bool) error {
	number := p.ledger.post(tenant, together)
	posts := 1
	if rand.IntN(repeats) == 0 {
		posts = 2
	}
	for range posts {
		id, err := p.send(ctx, tenant, number)
		if err != nil {
			return err
		}
		p.ledger.accepted(number, id)
	}
	return nil
}

// send makes one request.
func (p poster) send(ctx context.Context, tenant string, number int) (id string, err error) {
	body, err := json.Marshal(event{Number: number})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+tenant, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(keyHeader, strconv.Itoa(number))
	response, err := p.client.Do(req)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusAccepted {
		return "", fmt.Errorf("the service answered %s: %s", response.Status, text)
	}
	var answer accepted
	err = json.Unmarshal(text, &answer)
	return answer.ID, err
}
