// Command goredis handles messages of a queue in a program whose other code uses go-redis.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
)

func main() {
	url := flag.String("redis", "redis://127.0.0.1:6379", "URL of the Redis to use")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *url)
	stop()
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	// The program's own client: go-redis, with its options.
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	cache := redis.NewClient(options)
	defer func() { _ = cache.Close() }()

	// The queue's client: rueidis, for the same server.
	opt, err := FromOptions(options)
	if err != nil {
		return err
	}
	client, err := dial.With(ctx, opt)
	if err != nil {
		return err
	}
	defer client.Close()
	queue, err := fairqueue.New(client, "visits", fairqueue.Config{})
	if err != nil {
		return err
	}
	return queue.Consume(ctx, fairqueue.ConsumeConfig{}, func(ctx context.Context, msg fairqueue.Message) error {
		visits, err := cache.Incr(ctx, "visits:"+msg.Tenant).Result()
		if err == nil {
			fmt.Println(msg.Tenant, visits)
		}
		return err
	})
}
