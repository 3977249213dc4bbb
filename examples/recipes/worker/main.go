// Worker handles the messages of the queue "orders" until it gets SIGTERM, and then finishes the ones that it has.
// deploy/kubernetes/worker.yaml runs such a program.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := dial.Redis(ctx, os.Getenv("MILLRACE_REDIS_URL"))
	if err != nil {
		return err
	}
	defer client.Close()
	orders, err := fairqueue.New(client, "orders", fairqueue.Config{})
	if err != nil {
		return err
	}
	err = orders.Consume(ctx, fairqueue.ConsumeConfig{
		Drain:   30 * time.Second, // for handlers, after SIGTERM
		Timeout: time.Minute,      // the end of a handler's context
		MaxRun:  2 * time.Minute,  // the program ends when all its handlers ignore that, and Kubernetes starts it again
	}, handle)
	if errors.Is(err, context.Canceled) && !errors.Is(err, fairqueue.ErrUnsettled) {
		return nil
	}
	return err
}

// handle is yours.
func handle(ctx context.Context, m fairqueue.Message) error {
	fmt.Printf("%s begins\n", m.Body)
	select {
	case <-time.After(time.Second):
		fmt.Printf("%s is done\n", m.Body)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
