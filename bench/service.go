package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/server"
)

// httpConnections is how many connections clients of the service have.
const httpConnections = 32

func serviceFigures() []bench.Figure {
	return []bench.Figure{
		{What: "service write, and a worker's round, one by one, 32 connections", Unit: "messages/s", Sides: []bench.Side{
			{Name: "millrace serve", Measure: served(service, nil)},
			{Name: "bare handler", Goal: bench.AtLeast(0.7), Measure: served(bareHandler, nil)},
		}},
		{What: "service: redis-server's CPU a message of these", Unit: "us", Sides: []bench.Side{
			{Name: "millrace serve", Measure: served(service, redisUsed)},
			{Name: "bare handler", Measure: served(bareHandler, redisUsed)},
		}},
		{What: "service: CPU a message of the service, with its clients", Unit: "us", Sides: []bench.Side{
			{Name: "millrace serve", Measure: served(service, selfUsed)},
			{Name: "bare handler", Measure: served(bareHandler, selfUsed)},
		}},
	}
}

// paths are where a program writes, and where a worker settles a message and takes the next.
const (
	writePath = "/v1/queues/bench/messages"
	workPath  = "/v1/queues/bench/work"
)

// redisUsed returns the CPU time that the server has used.
func redisUsed(ctx context.Context, b *bench.B) time.Duration {
	fields := info.Parse(must.Get(b.Client.Do(ctx, b.Client.B().Info().Section("cpu").Build()).ToString()))
	return time.Duration((fields.Float("used_cpu_user") + fields.Float("used_cpu_sys")) * float64(time.Second))
}

// selfUsed returns the CPU time that this process has used: the service's and its clients'.
func selfUsed(context.Context, *bench.B) time.Duration {
	var used unix.Rusage
	must.Do(unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// served has clients write messages and work on them through the handler that start serves, and returns messages a second, or the microseconds of CPU time
// a message that used tells. The server is its own, because the service does its upkeep.
func served(start func(ctx context.Context, b *bench.B, listener net.Listener), used func(context.Context, *bench.B) time.Duration) bench.Measure {
	return func(ctx context.Context, b *bench.B) float64 {
		moveTo(ctx, b, redisproc.Config{})
		listener := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
		start(ctx, b, listener)
		var programs [httpConnections]*program
		for i := range programs {
			conn := must.Get((&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String()))
			b.Defer(func(context.Context) error { return conn.Close() })
			programs[i] = &program{conn: conn, answers: bufio.NewReader(conn), round: roundDocument{Worker: fmt.Sprint("worker ", i), Concurrency: 1}}
		}
		var turn atomic.Int64
		cycle := func(_ context.Context, i int) error {
			return programs[i].cycle(bench.Tenant(int(turn.Add(1))))
		}
		if used == nil {
			return b.Rate(ctx, httpConnections, cycle)
		}
		before := used(ctx, b)
		b.Rate(ctx, httpConnections, cycle)
		return float64((used(ctx, b) - before).Microseconds()) / float64(turn.Load())
	}
}

// program is a client of the service with one connection. It is no http.Client, which
// takes as much CPU as a server, so that the difference between the sides would be half as
// large.
type program struct {
	conn    net.Conn
	answers *bufio.Reader
	round   roundDocument // the next
}

type draftDocument struct {
	Tenant string `json:"tenant"`
	Body   string `json:"body"`
}

type roundDocument struct {
	Worker      string   `json:"worker"`
	Concurrency int      `json:"concurrency"`
	Ack         []string `json:"ack,omitempty"`
}

type takenDocument struct {
	Messages []takenMessage `json:"messages"`
	Stale    []string       `json:"stale"`
}

type takenMessage struct {
	ID      string `json:"id"`
	Receipt string `json:"receipt"`
	Tenant  string `json:"tenant"`
	Body    string `json:"body"`
}

var body = string(bytes.Repeat([]byte("x"), bench.BodySize))

// cycle writes a message, acknowledges the one before, and takes one.
func (p *program) cycle(tenant string) error {
	if err := p.post(writePath, draftDocument{tenant, body}, nil); err != nil {
		return err
	}
	var got takenDocument
	for len(got.Messages) == 0 { // on a busy machine all that waits may be of tenants that seem slow
		if err := p.post(workPath, p.round, &got); err != nil {
			return err
		}
		if len(got.Stale) > 0 {
			return fmt.Errorf("%d receipts are stale, want none", len(got.Stale))
		}
		p.round.Ack = nil
	}
	p.round.Ack = []string{got.Messages[0].Receipt}
	return nil
}

func (p *program) post(path string, document, into any) error {
	sent, err := json.Marshal(document)
	if err != nil {
		return err
	}
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(sent), sent)
	if _, err := p.conn.Write(request); err != nil {
		return err
	}
	response, err := http.ReadResponse(p.answers, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("POST %s: %s %.200s", path, response.Status, got)
	case into == nil:
		return nil
	}
	return json.Unmarshal(got, into)
}

// service serves as millrace serve does.
func service(ctx context.Context, b *bench.B, listener net.Listener) {
	s := must.Get(server.New(server.Config{Client: b.Client, Hosts: []string{"127.0.0.1"}, Logger: slog.New(slog.DiscardHandler)}))
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	b.Defer(func(context.Context) error { stop(); return <-ended })
}

// bareHandler serves a handler that a program without the service would write for itself: the
// same calls of the library behind JSON of known fields, which it does not check.
func bareHandler(_ context.Context, b *bench.B, listener net.Listener) {
	q := must.Get(fairqueue.New(b.Client, "bench", fairqueue.Config{}))
	mux := http.NewServeMux()
	handle(mux, "POST "+writePath, func(ctx context.Context, in draftDocument) (any, error) {
		id, err := q.Write(ctx, fairqueue.Draft{Tenant: in.Tenant, Body: []byte(in.Body)})
		return map[string]string{"id": id}, err
	})
	handle(mux, "POST "+workPath, func(ctx context.Context, in roundDocument) (any, error) {
		ended := make(map[string]error, len(in.Ack))
		for _, receipt := range in.Ack {
			ended[receipt] = nil
		}
		messages, stale, err := q.Exchange(ctx, ended, fairqueue.ReadConfig{Worker: in.Worker, Concurrency: in.Concurrency})
		doc := takenDocument{Stale: stale}
		for _, m := range messages {
			doc.Messages = append(doc.Messages, takenMessage{m.ID, m.Receipt, m.Tenant, string(m.Body)})
		}
		return doc, err
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	b.Defer(func(context.Context) error {
		err := s.Close()
		if failed := <-ended; !errors.Is(failed, http.ErrServerClosed) {
			err = errors.Join(err, failed)
		}
		return err
	})
}

// handle answers requests with the result of do, as JSON.
func handle[I any](mux *http.ServeMux, pattern string, do func(context.Context, I) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var in I
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := do(r.Context(), in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the client may have gone
	})
}
