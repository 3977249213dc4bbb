package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/schedule/cron"
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

func open(client rueidis.Client) *fairqueue.Queue {
	q, err := fairqueue.New(client, "webhooks", fairqueue.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return q
}

func Example() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}); err != nil {
		log.Fatal(err)
	}

	// In as many processes as there is work for.
	err := q.Consume(ctx, fairqueue.ConsumeConfig{}, func(_ context.Context, m fairqueue.Message) error {
		fmt.Printf("%s says %s, attempt %d\n", m.Tenant, m.Body, m.Attempt)
		cancel() // a worker would go on
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// acme says hello, attempt 1
	// true
}

func ExampleQueue_Read() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx := context.Background()
	_, _ = q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")})

	messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: 10, Visibility: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	done, err := q.Ack(ctx, messages[0].Receipt)
	fmt.Println(len(messages), done, err)
	_, err = q.Ack(ctx, messages[0].Receipt)
	fmt.Println(errors.Is(err, millrace.ErrStale))
	// Output:
	// 1 1 <nil>
	// true
}

func ExampleQueue_WriteBatch() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	written, err := q.WriteBatch(context.Background(),
		fairqueue.Draft{Tenant: "acme", Body: []byte("now")},
		fairqueue.Draft{Tenant: "acme", Body: []byte("later"), Delay: time.Hour},
		fairqueue.Draft{Tenant: "acme", Body: []byte("once"), DedupeID: "order 17"},
		fairqueue.Draft{Tenant: "acme", Body: []byte("once"), DedupeID: "order 17"},
	)
	fmt.Println(written[2].Duplicate, written[3].Duplicate, err)
	n, err := q.Len(context.Background())
	fmt.Println(n, "waiting", err)
	// Output:
	// false true <nil>
	// 2 waiting <nil>
}

func ExampleQueue_Cancel() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx := context.Background()
	id, _ := q.Write(ctx, fairqueue.Draft{Tenant: "acme", Delay: time.Hour})
	places, err := q.Cancel(ctx, id)
	fmt.Println(places, err)
	// Output: [delayed] <nil>
}

func ExampleQueue_Dead() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx := context.Background()
	id, _ := q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")})
	messages, _ := q.Read(ctx, fairqueue.ReadConfig{})
	_, _ = q.Nack(ctx, fairqueue.NackConfig{Dead: true, Reason: "no such endpoint"}, messages[0].Receipt)

	for m, err := range q.Dead().All(ctx) {
		fmt.Println(string(m.Body), "is dead:", m.Reason, m.ID == id, err)
	}
	n, err := q.Dead().Redrive(ctx, id)
	fmt.Println(n, "tried again", err)
	// Output:
	// hello is dead: no such endpoint true <nil>
	// 1 tried again <nil>
}

// The messages of a customer's order, and why messages died.
func ExampleQueue_Search() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx := context.Background()
	_, _ = q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("order 17: paid")})
	_, _ = q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("order 18: paid")})

	found, err := q.Search(ctx, fairqueue.SearchConfig{Tenant: "acme", Text: "order 17"})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range found.Messages {
		fmt.Printf("%s, looked at %d of %d\n", m.Body, found.Looked, found.Total)
	}

	messages, _ := q.Read(ctx, fairqueue.ReadConfig{Max: 2})
	for _, m := range messages {
		_, _ = q.Nack(ctx, fairqueue.NackConfig{Dead: true, Reason: "card expired"}, m.Receipt)
	}
	groups, _, err := q.Failures(ctx, fairqueue.SearchConfig{State: fairqueue.Dead, Tenant: "acme"})
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range groups {
		fmt.Printf("%d died: %s\n", g.Count, g.Reason)
	}
	n, _, err := q.Retry(ctx, fairqueue.SearchConfig{State: fairqueue.Dead, Reason: "card expired", Text: "order 18"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d will be tried again\n", n)
	// Output:
	// order 17: paid, looked at 2 of 2
	// 2 died: card expired
	// 1 will be tried again
}

func ExampleQueue_Ready() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	// A handler of /ready answers 200 while this is nil.
	fmt.Println(q.Ready(context.Background()))
	// Output: <nil>
}

// A page of the messages in each state, to look into a queue.
func ExampleQueue_Browse() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx := context.Background()
	_, _ = q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("first")})
	_, _ = q.Read(ctx, fairqueue.ReadConfig{})
	_, _ = q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("second")})
	_, _ = q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("third"), Delay: time.Hour})

	for _, place := range []fairqueue.State{fairqueue.Waiting, fairqueue.InFlight, fairqueue.Delayed} {
		for cfg := (fairqueue.BrowseConfig{State: place, Tenant: "acme"}); ; {
			messages, next, err := q.Browse(ctx, cfg)
			if err != nil {
				log.Fatal(err)
			}
			for _, m := range messages {
				fmt.Printf("%s: %s, delivered %d times\n", place, m.Body, m.Attempt)
			}
			if next == "" {
				break
			}
			cfg.After = next
		}
	}
	// Output:
	// waiting: second, delivered 0 times
	// in_flight: first, delivered 1 times
	// delayed: third, delivered 0 times
}

// A queue whose tenants choose their own names, without end, has streams instead of a flow
// for each tenant.
func ExampleQueue_Resize() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx := context.Background()
	_, _ = q.Write(ctx, fairqueue.Draft{Tenant: "acme"})
	if err := q.Resize(ctx, 128, 0); err != nil {
		log.Fatal(err)
	}
	s, err := q.Stats(ctx)
	fmt.Println(s.Streams, "streams,", s.PerTenant, "a tenant", err)
	// Output: 128 streams, 4 a tenant <nil>
}

// A tenant that pays for it has more turns than others.
func ExampleLimitSettings_Set() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx := context.Background()
	for range 4 {
		_, _ = q.Write(ctx, fairqueue.Draft{Tenant: "acme"})
		_, _ = q.Write(ctx, fairqueue.Draft{Tenant: "basic"})
	}
	if err := q.Limits().Set(ctx, "acme", fairqueue.OwnLimits{Weight: new(3.0)}); err != nil {
		log.Fatal(err)
	}
	_, _ = q.Read(ctx, fairqueue.ReadConfig{Max: 2}) // it counts from the next message on

	messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: 4})
	turns := map[string]int{}
	for _, m := range messages {
		turns[m.Tenant]++
	}
	fmt.Println(turns, err)
	// Output: map[acme:3 basic:1] <nil>
}

// A receiver that is down says when to come back, or that it never will.
func ExampleRetryAfter() {
	deliver := func(status int, retryAfter time.Duration) error {
		err := fmt.Errorf("the receiver answered %d", status)
		switch status {
		case 200:
			return nil
		case 410:
			return fairqueue.NoRetry(err)
		case 429:
			return fairqueue.RetryAfter(retryAfter, err)
		}
		return err // after the backoff
	}
	fmt.Println(deliver(429, time.Minute))
	fmt.Println(deliver(200, 0))
	// Output:
	// the receiver answered 429
	// <nil>
}

// Two processes copy the same log. Each position is written once.
func ExampleSources_Position() {
	client, closeAll := connect()
	defer closeAll()
	q := open(client)
	ctx := context.Background()
	events := []string{"created", "paid", "shipped"}
	for range 2 {
		var drafts []fairqueue.Draft
		for i, event := range events {
			drafts = append(drafts, fairqueue.Draft{Tenant: "acme", Body: []byte(event), Source: "orders.log", Position: int64(i) + 1})
		}
		written, err := q.WriteBatch(ctx, drafts...)
		fmt.Println(len(written), written[0].Duplicate, err)
	}
	fmt.Println(q.Sources().Position(ctx, "orders.log"))
	fmt.Println(q.Len(ctx))
	// Output:
	// 3 false <nil>
	// 3 true <nil>
	// 3 <nil>
	// 3 <nil>
}

func ExampleTyped() {
	client, closeAll := connect()
	defer closeAll()
	type order struct{ Number int }
	orders := fairqueue.Typed[order]{Queue: open(client)}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := orders.Write(ctx, order{Number: 17}, fairqueue.Draft{Tenant: "acme"}); err != nil {
		log.Fatal(err)
	}
	_ = orders.Consume(ctx, fairqueue.ConsumeConfig{}, func(_ context.Context, m fairqueue.Message, value order) error {
		fmt.Println(m.Tenant, "orders number", value.Number)
		cancel()
		return nil
	})
	// Output: acme orders number 17
}

// A team that has a stream with a consumer group moves to a queue: readers of the
// queue empty the stream, too, and writers change over one by one.
func ExampleLegacy() {
	client, closeAll := connect()
	defer closeAll()
	ctx := context.Background()
	client.Do(ctx, client.B().Xadd().Key("jobs").Id("*").FieldValue().FieldValue("customer", "acme").FieldValue("text", "hello").Build())
	client.Do(ctx, client.B().XgroupCreate().Key("jobs").Group("workers").Id("0").Build())

	q, err := fairqueue.New(client, "jobs", fairqueue.Config{Legacy: []fairqueue.Legacy{{
		Stream: "jobs",
		Group:  "workers",
		Draft: func(fields map[string]string) (fairqueue.Draft, error) {
			return fairqueue.Draft{Tenant: fields["customer"], Body: []byte(fields["text"])}, nil
		},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	messages, err := q.Read(ctx, fairqueue.ReadConfig{})
	fmt.Println(messages[0].Tenant, string(messages[0].Body), err)
	// Output: acme hello <nil>
}

// A team moves from the shuffle queues of replicate/go: docs/FROM_REPLICATE.md has the steps.
func ExampleLegacy_shuffle() {
	client, closeAll := connect()
	defer closeAll()
	ctx := context.Background()
	client.Do(ctx, client.B().Hset().Key("input:meta").FieldValue().FieldValue("streams", "4").Build())
	client.Do(ctx, client.B().Xadd().Key("input:s3").Id("*").FieldValue().FieldValue("tenant", "acme").FieldValue("value", "hello").Build())

	q, err := fairqueue.New(client, "predictions", fairqueue.Config{Legacy: []fairqueue.Legacy{{
		Shuffle:    "input",
		Group:      "directors",
		ClaimAfter: 10 * time.Minute,
		Draft: func(fields map[string]string) (fairqueue.Draft, error) {
			return fairqueue.Draft{Tenant: fields["tenant"], Body: []byte(fields["value"])}, nil
		},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	messages, err := q.Read(ctx, fairqueue.ReadConfig{})
	fmt.Println(messages[0].Tenant, string(messages[0].Body), err)
	// Output: acme hello <nil>
}

// An import writes a message for each part of a file, and hears when all are done.
func ExampleBatches_Create() {
	client, closeAll := connect()
	defer closeAll()
	q, ctx := open(client), context.Background()
	id, err := q.Batches().Create(ctx, 2, fairqueue.Draft{Tenant: "acme", Body: []byte("import 17 is done")})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = q.WriteBatch(ctx,
		fairqueue.Draft{Tenant: "acme", Body: []byte("rows 1 to 100"), Batch: id},
		fairqueue.Draft{Tenant: "acme", Body: []byte("rows 101 to 200"), Batch: id},
	)
	for range 3 {
		messages, _ := q.Read(ctx, fairqueue.ReadConfig{Block: -1})
		fmt.Println(strings.TrimSpace(string(messages[0].Body) + " " + messages[0].Headers[fairqueue.HeaderBatchHandled]))
		_, _ = q.Ack(ctx, messages[0].Receipt)
	}
	b, _ := q.Batches().Get(ctx, id)
	fmt.Println(b.State)
	// Output:
	// rows 1 to 100
	// rows 101 to 200
	// import 17 is done 2
	// done
}

// A nightly report, whichever replicas are alive at that time.
func ExampleSchedules_Set() {
	client, closeAll := connect()
	defer closeAll()
	queue := open(client)
	ctx := context.Background()

	nightly, err := cron.Parse("0 3 * * *", "Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	// Each replica may set it when it starts: an existing schedule stays.
	err = queue.Schedules().Set(ctx, fairqueue.Schedule{
		Name:  "nightly",
		Spec:  nightly,
		Draft: fairqueue.Draft{Tenant: "ops", Body: []byte("write the report")},
	})
	if err != nil {
		log.Fatal(err)
	}
	for s, err := range queue.Schedules().All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Name, "is", s.Spec, "with", string(s.Draft.Body))
	}
	// Output: nightly is at 0 3 * * * Europe/Berlin with write the report
}

// One process reads two queues with four handlers in all.
func ExamplePool() {
	client, closeAll := connect()
	defer closeAll()
	pool, err := fairqueue.NewPool(4)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var consumers sync.WaitGroup
	for _, name := range []string{"mails", "reports"} {
		q, err := fairqueue.New(client, name, fairqueue.Config{})
		if err != nil {
			log.Fatal(err)
		}
		consumers.Go(func() {
			_ = q.Consume(ctx, fairqueue.ConsumeConfig{Pool: pool}, func(_ context.Context, m fairqueue.Message) error {
				fmt.Printf("%s\n", m.Body)
				cancel()
				return nil
			})
		})
		if name == "reports" {
			if _, err := q.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("a report")}); err != nil {
				log.Fatal(err)
			}
		}
	}
	consumers.Wait()
	// Output: a report
}

// The customer's API says "too many requests": its messages wait for a minute, and this one is
// the next of them. It is no attempt.
func ExampleThrottle() {
	tooMany := errors.New("429 Too Many Requests")
	handler := func(context.Context, fairqueue.Message) error {
		return fairqueue.Throttle(time.Minute, tooMany)
	}
	fmt.Println(errors.Is(handler(context.Background(), fairqueue.Message{}), tooMany))
	// Output: true
}

// A gateway to a language model sets the cost of each request in tokens. A tenant with a few large requests and one with
// many small ones have the same sum of tokens served.
func ExampleDraft_cost() {
	client, closeAll := connect()
	defer closeAll()
	q, ctx := open(client), context.Background()
	drafts := []fairqueue.Draft{{Tenant: "acme", Body: []byte("a long text"), Cost: 3_000}}
	for range 5 {
		drafts = append(drafts, fairqueue.Draft{Tenant: "globex", Body: []byte("a question"), Cost: 1_000})
	}
	if _, err := q.WriteBatch(ctx, drafts...); err != nil {
		log.Fatal(err)
	}
	messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Println(m.Tenant, m.Cost)
	}
	// Output:
	// globex 1000
	// globex 1000
	// acme 3000
	// globex 1000
	// globex 1000
	// globex 1000
}
