package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/connect"
)

// job is what one run does.
type job struct {
	redis    string        // URL; a private Redis when empty
	streams  int           // of the queue; 0 for a flow for each tenant
	hands    int           // of a courier: how many deliveries are under way at a time
	quiet    int           // how many quiet tenants there are
	every    time.Duration // how often each posts, on average
	alone    time.Duration // how long they do without the noisy tenant
	together time.Duration // and how long with
}

const (
	// times is how many times as much as a quiet tenant the noisy one posts, over
	// loud connections.
	times = 50
	loud  = 5
)

// patience is how long the queue may take to be empty in the end.
const patience = time.Minute

// outcome is what happened in a run.
type outcome struct {
	ledger  *ledger
	tenants int
	left    fairqueue.Stats
	cut     int // deliveries that a courier's end cut off
	took    time.Duration
}

// run posts, delivers and replaces the courier, and returns when the queue is
// empty and all have ended.
func (j job) run(ctx context.Context, stderr io.Writer) (o outcome, err error) {
	start := time.Now()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()

	client, closeRedis, err := openRedis(ctx, j.redis, stderr)
	if err != nil {
		return o, err
	}
	defer closeRedis()
	queue, err := fairqueue.New(client, "webhooks:"+rand.Text(), fairqueue.Config{
		Streams: j.streams, MaxAttempts: attempts,
		Logger: slog.New(slog.DiscardHandler), // failed attempts are counted, and many
	})
	if err != nil {
		return o, err
	}
	defer func() {
		_, gone := queue.Delete(context.WithoutCancel(ctx))
		err = errors.Join(err, gone)
	}()

	endpoints := make(map[string]endpoint)
	books := newLedger()
	receivers, stopReceivers, err := listen((&receiver{endpoints: endpoints, ledger: books}).handler(), fail)
	if err != nil {
		return o, err
	}
	defer stopReceivers()
	for _, tenant := range append(j.quietTenants(), noisyTenant) {
		endpoints[tenant] = endpoint{url: receivers + "/" + tenant, secret: []byte(rand.Text())}
	}
	accepting, stopAccepting, err := listen((&service{queue: queue, endpoints: endpoints}).handler(), fail)
	if err != nil {
		return o, err
	}
	defer stopAccepting()

	post := poster{url: accepting + "/hooks/", client: newClient(j.quiet + loud), ledger: books}
	defer post.client.CloseIdleConnections()
	o = outcome{ledger: books, tenants: len(endpoints)}
	crew := couriers{queue: queue, endpoints: endpoints, hands: j.hands, ledger: books, fail: fail}
	defer crew.stop() // unless it came to stop
	crew.start(ctx)

	fmt.Fprintf(stderr, "%d quiet tenants, alone for %s\n", j.quiet, j.alone)
	if err := j.load(ctx, post, j.alone, false); err != nil {
		return o, err
	}
	fmt.Fprintf(stderr, "the same next to a noisy one, for %s\n", j.together)
	if err := j.load(ctx, post, j.together/2, true); err != nil {
		return o, err
	}
	crew.replace(ctx)
	if err := j.load(ctx, post, j.together/2, true); err != nil {
		return o, err
	}
	stopAccepting()
	fmt.Fprintln(stderr, "all is posted; waiting until the queue is empty")
	if o.left, err = drained(ctx, queue); err != nil {
		return o, err
	}
	crew.stop()
	for letter, err := range queue.Dead(ctx) {
		if err != nil {
			return o, err
		}
		books.dead(letter)
	}
	o.cut, o.took = crew.cut(), time.Since(start)
	return o, nil
}

// quietTenants returns their names, the one whose endpoint is no more among them.
func (j job) quietTenants() []string {
	names := []string{goneTenant}
	for i := range j.quiet - 1 {
		names = append(names, "quiet-"+strconv.Itoa(i+1))
	}
	return names
}

// load has the tenants post for a while.
func (j job) load(ctx context.Context, post poster, long time.Duration, together bool) error {
	end := time.Now().Add(long)
	var all sync.WaitGroup
	errs := make(chan error, j.quiet+loud)
	tenant := func(name string, every time.Duration) {
		all.Go(func() { errs <- post.keep(ctx, name, together, every, end) })
	}
	for _, name := range j.quietTenants() {
		tenant(name, j.every)
	}
	for range loud {
		if together {
			tenant(noisyTenant, j.every*loud/times)
		}
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// drained waits until nothing is left in the queue but dead letters, and returns
// what is there then.
func drained(ctx context.Context, queue *fairqueue.Queue) (fairqueue.Stats, error) {
	for late := time.Now().Add(patience); ; {
		now, err := queue.Stats(ctx)
		if err != nil || now.Waiting+now.InFlight+now.Delayed == 0 || time.Now().After(late) {
			return now, err
		}
		if err := rest(ctx, 50*time.Millisecond); err != nil {
			return now, err
		}
	}
}

// rest waits, or returns the cause of ctx when that ends.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// listen serves HTTP on the loopback interface until stop is called, which lets
// requests that are under way end.
func listen(handler http.Handler, fail func(error)) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fail(err)
		}
	}()
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = errors.Join(server.Shutdown(ctx), server.Close()) // what hangs ends with its connection
		<-ended
	}
	return "http://" + listener.Addr().String(), stop, nil
}

// newClient returns an HTTP client that keeps its connections, for so many requests
// at a time.
func newClient(atOnce int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}
}

// openRedis connects to the Redis at a URL, or starts one. A program of your own
// needs none of this: it passes the rueidis.Client that it has to fairqueue.New.
func openRedis(ctx context.Context, url string, stderr io.Writer) (client rueidis.Client, stop func(), err error) {
	if url != "" {
		client, err := connect.Open(url)
		if err != nil {
			return nil, nil, err
		}
		return client, client.Close, nil
	}
	private, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(stderr, "redis: a private %s, gone at the end\n", private.Kind)
	return private.Client, func() { _ = private.Close() }, nil
}
