package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/retry"
)

const (
	// browsers is how many connections make requests, each one at a time.
	browsers = 16

	// requestsPerSecond is how many requests all browsers make together, where
	// machine and server keep up.
	requestsPerSecond = 4000

	// newVisitors is one visitor without a session in so many requests. What
	// has to be collected so grows and shrinks with the load, as it does in life.
	newVisitors = 40

	// pages is how many pages there are. The first request for each is no hit.
	pages = 200
)

// crowd is all browsers and what they saw.
type crowd struct {
	addresses []string // of the sites
	client    http.Client

	requests atomic.Int64 // answered
	hits     atomic.Int64 // of these, answered from the cache
	sessions atomic.Int64 // of these, that began a session

	mu   sync.Mutex
	took map[int64]time.Duration // by the number of the request
}

func newCrowd(addresses []string) *crowd {
	return &crowd{
		addresses: addresses,
		client:    http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: browsers}},
		took:      make(map[int64]time.Duration),
	}
}

// visit makes requests until a time comes, or one fails.
func (c *crowd) visit(ctx context.Context, until time.Time) error {
	defer c.client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var numbers atomic.Int64
	for range browsers {
		all.Go(func() {
			next := time.Now()
			for {
				// Visitors know nothing of each other, so pauses are exponential.
				// A browser that is late does not catch up.
				next = next.Add(time.Duration(rand.ExpFloat64() * float64(time.Second) * browsers / requestsPerSecond))
				if late := time.Now(); late.After(next) {
					next = late
				}
				if next.After(until) || !retry.Sleep(ctx, time.Until(next)) {
					return
				}
				if err := c.request(ctx, numbers.Add(1)); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// request asks one of the sites for a page.
func (c *crowd) request(ctx context.Context, number int64) error {
	url := "http://" + c.addresses[rand.IntN(len(c.addresses))] + pagePath + strconv.Itoa(rand.IntN(pages))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set(requestHeader, strconv.FormatInt(number, 10))
	visitorIsNew := number == 1 || rand.IntN(newVisitors) == 0
	if !visitorIsNew {
		req.Header.Set(sessionHeader, "one from before")
	}

	began := time.Now()
	response, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	took := time.Since(began)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answered %s: %s", url, response.Status, text)
	}

	c.requests.Add(1)
	if response.Header.Get(cacheHeader) == cacheHit {
		c.hits.Add(1)
	}
	if visitorIsNew {
		c.sessions.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took[number] = took
	return nil
}
