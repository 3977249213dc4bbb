package dial_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
)

func Example() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()

	client, err := dial.Redis(ctx, "redis://"+server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	queue, err := fairqueue.New(client, "mails", fairqueue.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := queue.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(queue.Len(ctx))
	// Output: 1 <nil>
}

// An error says what to do next, and shows no password.
func ExampleRedis_error() {
	_, err := dial.Redis(context.Background(), "redis://app:secret@127.0.0.1:1")
	fmt.Println(millrace.Code(err))
	fmt.Println(millrace.Hint(err))
	// Output:
	// unreachable
	// Nothing listens there: start redis-server, or check host and port.
}

// Credentials that change are not in the URL, nor is a certificate of the client.
func ExampleRedis_credentials() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	server.RequireUserAuth("orders", "token of today")

	client, err := dial.Redis(context.Background(), "redis://"+server.Addr(), func(opt *rueidis.ClientOption) {
		opt.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: "orders", Password: "token of today"}, nil
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println("connected")
	// Output: connected
}
