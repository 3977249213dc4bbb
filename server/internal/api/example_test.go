package api_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/server/internal/api"
)

// connect stands for the client that a program has anyway.
func connect() (rueidis.Client, func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := dial.Redis(context.Background(), "redis://"+server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Close()
	}
}

// A program serves the API below a path of its choice, and asks it twice for the same
// thing, as a client does that has lost an answer.
func Example() {
	client, closeAll := connect()
	defer closeAll()

	work, err := api.New(api.Config{Client: client, Prefix: "/millrace"})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix("/millrace", work))
	defer server.Close()

	ask := func(method, path, body string) {
		r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "3f9a77c0")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s", response.StatusCode, answer)
	}
	for range 2 { // as after a lost answer
		ask("POST", "/millrace/v1/counters/impressions/add", `{"n":3}`)
	}
	ask("GET", "/millrace/v1/counters/impressions", "")
	ask("POST", "/millrace/v1/icks/search/marks", `{"members":["doc:17","doc:18"]}`)

	// Output:
	// 200 {"added":3,"server":"0"}
	// 200 {"added":3,"server":"0"}
	// 200 {"value":3,"servers":1,"answered":1}
	// 200 {"new":2,"lowered":0}
}
