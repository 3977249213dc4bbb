package api_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server/internal/api"
)

// FuzzRequest sends any request. It is answered by the API, never with a failure of
// it, and always as the description says.
func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ method, path, query, body, key string }{
		{"GET", "/openapi.json", "", "", ""},
		{"POST", "/v1/queues/orders/messages", "", `{"tenant":"acme","body":"hello"}`, "k"},
		{"POST", "/v1/queues/orders/messages", "", `{"tenant":{"base64":"/wA="},"headers":{"a":"b"},"delay":"1h"}`, ""},
		{"POST", "/v1/queues/a%2Fb/messages/batch", "", `{"messages":[{"tenant":"a"}],"streams":1}`, ""},
		{"POST", "/v1/queues/orders/receive", "", `{"max":1,"visibility":"1m"}`, "k"},
		{"POST", "/v1/queues/orders/ack", "", `{"receipts":["1:1-0"]}`, ""},
		{"POST", "/v1/queues/orders/cancel", "", `{"ids":["1-0.d"]}`, "k"},
		{"GET", "/v1/queues/orders/browse", "place=delayed&tenant=%FF&after=1.1-0", "", ""},
		{"POST", "/v1/icks/search/marks", "", `{"marks":[{"member":"a","score":"-inf"}]}`, ""},
		{"POST", "/v1/icks/{tag}x/exchange", "", `{"max":3,"token":"1","members":["a"]}`, ""},
		{"POST", "/v1/leases/nightly/acquire", "", `{"ttl":"10ms","token":"t"}`, "k"},
		{"POST", "/v1/hashes/ns/h/set", "", `{"fields":{"{\"base64\":\"/w==\"}":"v"},"ttl":"1s","if":"none"}`, ""},
		{"GET", "/v1/hashes/ns/h", "field=a&field=b", "", ""},
		{"POST", "/v1/counters/n/add", "", `{"n":-9223372036854775808}`, ""},
		{"DELETE", "/v1/queues/orders", "", "", ""},
		{"POST", "/v1/queues/../icks", "a=b&a=c", `{"a":[[[[[1e999]]]],"a":"\ud800"}`, "\x00"},
	} {
		f.Add(seed.method, seed.path, seed.query, []byte(seed.body), seed.key)
	}
	a, err := api.New(api.Config{Client: redistest.Start(f, redistest.Options{}).Client(f), MaxBlock: time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	spec := readSpec(f, a)
	f.Fuzz(func(t *testing.T, method, path, query string, body []byte, key string) {
		u := &url.URL{Path: path, RawQuery: query}
		if raw, err := url.Parse("http://h" + path); err == nil {
			u.Path, u.RawPath = raw.Path, raw.RawPath
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
		r.Method, r.URL = method, u
		if len(body) > 0 {
			r.Header.Set("Content-Type", "application/json")
		}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		begun := time.Now()
		got := service{t, a, spec}.send(r, body)
		if took := time.Since(begun); got.status >= 500 || took > 20*time.Second {
			t.Errorf("%s: %d %s after %s", got.what, got.status, got.body, took)
		}
	})
}
