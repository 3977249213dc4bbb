package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/server"
)

// The service beside a program's own pages. In a program that goes on, Run belongs
// into a goroutine of its own: go service.Run(ctx).
func Example() {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	client, err := dial.Redis(context.Background(), "redis://"+redis.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	service, err := server.New(server.Config{Client: client, Prefix: "/millrace"})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/millrace/", service)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the shop") })

	request := httptest.NewRequest(http.MethodPost, "/millrace/v1/icks/search/marks", strings.NewReader(`{"members":["doc:17"]}`))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, request)
	fmt.Print(answer.Code, " ", answer.Body)
	// Output: 200 {"new":1,"lowered":0}
}
