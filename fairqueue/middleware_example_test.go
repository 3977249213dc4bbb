package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// timed prints how long a handler takes, and its error.
func timed(next fairqueue.Handler) fairqueue.Handler {
	return func(ctx context.Context, m fairqueue.Message) error {
		began := time.Now()
		err := next(ctx, m)
		fmt.Printf("%s: quick %t, error %v\n", m.Body, time.Since(began) < time.Minute, err)
		return err
	}
}

// onceByID skips messages whose work is done already: at least once means that a message may
// come again after its work. A program with several processes keeps the ids in its database,
// in the transaction of the work.
func onceByID(next fairqueue.Handler) fairqueue.Handler {
	var done sync.Map
	return func(ctx context.Context, m fairqueue.Message) error {
		if _, ok := done.Load(m.ID); ok {
			return nil // which acknowledges it
		}
		err := next(ctx, m)
		if err == nil {
			done.Store(m.ID, true)
		}
		return err
	}
}

func ExampleChain() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}); err != nil {
		log.Fatal(err)
	}
	send := func(context.Context, fairqueue.Message) error {
		fmt.Println("send")
		cancel() // a worker would go on
		return nil
	}

	err := q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 1}, fairqueue.Chain(send, timed, onceByID))
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// send
	// hello: quick true, error <nil>
	// true
}
