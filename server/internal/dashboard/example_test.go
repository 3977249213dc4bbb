package dashboard_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/server/internal/dashboard"
)

// The pages in a program that has a server already: below a path of their own, and
// behind the program's own authentication.
func Example() {
	client, closeAll := connect()
	defer closeAll()
	looks, err := survey.New(survey.Config{Client: client})
	if err != nil {
		log.Fatal(err)
	}
	// A program has looks.Run(ctx) in a goroutine.
	pages, err := dashboard.New(dashboard.Config{Client: client, Survey: looks, Prefix: "/ops"})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/", onlyOperators(http.StripPrefix("/ops", pages)))
	server := httptest.NewServer(mux)
	defer server.Close()
	defer pages.Drain() // pages that are open would keep the server from closing

	response, err := http.Get(server.URL + "/ops/queues")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

func onlyOperators(next http.Handler) http.Handler { return next }

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
