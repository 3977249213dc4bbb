// Command outbox sends rows of PostgreSQL that were written with business data to a queue, each
// exactly once.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
)

//go:embed schema.sql
var schema string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

const usage = "usage: outbox [flags] schema | order TENANT ITEM | relay | work | resume SOURCE --skip or --resend"

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("outbox", flag.ContinueOnError)
	dsn := flags.String("postgres", "postgres://localhost/postgres", "the database")
	url := flags.String("redis", "redis://127.0.0.1:6379", "URL of the Redis to use")
	name := flags.String("name", "shop", "name of the outbox, different for each database")
	queueName := flags.String("queue", "orders", "name of the queue")
	r := relay{}
	flags.IntVar(&r.batch, "batch", 500, "rows that one transaction sends")
	flags.DurationVar(&r.poll, "poll", time.Second, "how often to look for rows without a notification")
	flags.DurationVar(&r.check, "check", 10*time.Second, "how often to look for messages that Redis lost")
	flags.DurationVar(&r.keep, "keep", 24*time.Hour, "how long to keep rows that were sent")
	flags.DurationVar(&r.resend, "resend", time.Hour, "up to which age rows are sent again that Redis lost")
	if err := flags.Parse(args); err != nil {
		return err
	}
	args = flags.Args()
	if len(args) == 0 {
		return errors.New(usage)
	}

	switch verb := args[0]; {
	case verb == "schema" && len(args) == 1:
		return database(ctx, *dsn, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, schema)
			return err
		})
	case verb == "order" && len(args) == 3:
		return database(ctx, *dsn, func(conn *pgx.Conn) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return order(ctx, tx, args[1], args[2]) })
		})
	}
	client, err := dial.Redis(ctx, *url)
	if err != nil {
		return err
	}
	defer client.Close()
	r.dsn, r.name = *dsn, *name
	if r.queue, err = fairqueue.New(client, *queueName, fairqueue.Config{}); err != nil {
		return err
	}
	switch verb := args[0]; {
	case verb == "relay" && len(args) == 1:
		return r.run(ctx)
	case verb == "work" && len(args) == 1:
		return r.queue.Consume(ctx, fairqueue.ConsumeConfig{}, func(_ context.Context, msg fairqueue.Message) error {
			_, err := fmt.Fprintf(stdout, "%s: %s\n", msg.Tenant, msg.Body)
			return err
		})
	case verb == "resume" && len(args) == 3 && (args[2] == "--skip" || args[2] == "--resend"):
		source, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return r.resume(ctx, source, args[2] == "--resend")
	}
	return errors.New(usage)
}

// order stands for a program's transaction: business data and message in one. If it fails or is
// rolled back, there is neither.
func order(ctx context.Context, tx pgx.Tx, tenant, item string) error {
	if _, err := tx.Exec(ctx, `INSERT INTO orders (tenant, item) VALUES ($1, $2)`, tenant, item); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO outbox (tenant, body) VALUES ($1, $2)`, tenant, []byte("ordered: "+item))
	return err
}

// database connects for as long as do runs.
func database(ctx context.Context, dsn string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}
