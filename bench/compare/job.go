package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// job is the work of one process: it writes messages, or it handles them.
type job struct {
	Peer string
	URL  string // of Redis, or the DSN of PostgreSQL

	// Records is the file in which the process notes messages.
	Records string

	Concurrency  int  // handlers of a worker
	TenantQueues bool // each tenant has a queue of its own
	Tenants      int  // all tenants of the measurement, numbered from 0 on

	// VisibilityMs is after how long a message of a killed worker comes again, where that can
	// be set.
	VisibilityMs int

	// Streams is how many streams Millrace's queue has, with four for each tenant; 0 if its flows are tenants.
	Streams int

	// HandlerMs is how long each handler takes after it has noted its message.
	HandlerMs int

	// Onward: a handler writes its message again, so that the backlog stays as it is.
	Onward bool

	// Loads are written one after the other. A worker has none.
	Loads []load
}

// load is messages that are written in one way.
type load struct {
	First, Count int // their numbers
	Tenant       int // the first tenant
	Tenants      int // how many tenants take turns
	Batch        int // messages per call; 1 for calls of one message
	Writers      int // concurrent calls
	OverMs       int // the time over which calls are spread evenly; 0 for as fast as possible
	HandlerMs    int // how long a handler takes
}

// message is one message to write.
type message struct {
	tenant int
	body   string
}

// bodySize is the size of a message.
const bodySize = 100

func tenantName(tenant int) string { return fmt.Sprintf("tenant-%d", tenant) }

// message returns message i of the load.
func (l *load) message(i int) message {
	body := fmt.Sprintf("%d %d ", l.First+i, l.HandlerMs)
	return message{tenant: l.Tenant + i%l.Tenants, body: body + strings.Repeat("x", bodySize-len(body))}
}

// parse returns the number of a message, and how long its handler takes.
func parse(body string) (number int, takes time.Duration, err error) {
	parts := strings.SplitN(body, " ", 3)
	if len(parts) != 3 {
		return 0, 0, fmt.Errorf("a body without a number: %q", body)
	}
	number, err = strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, err
	}
	ms, err := strconv.Atoi(parts[1])
	return number, time.Duration(ms) * time.Millisecond, err
}

// readyLine is the line that a worker prints before it takes messages.
const readyLine = "ready"

// child runs the job of the environment in this process. It ends when stdin ends.
func child(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the parent stops this process, or has gone
		cancel()
	}()
	s, err := find(j.Peer).connect(ctx, &j)
	if err != nil {
		return err
	}
	defer s.close()
	records, err := os.OpenFile(j.Records, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer records.Close()
	if len(j.Loads) > 0 {
		for _, l := range j.Loads {
			if err := l.write(ctx, s, records); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Println(readyLine)
	return s.work(ctx, func(body string) {
		err := handle(body, records)
		if j.HandlerMs > 0 {
			time.Sleep(time.Duration(j.HandlerMs) * time.Millisecond)
		}
		if err == nil && j.Onward {
			err = onward(ctx, s, j.Tenants, body)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

// onward writes a message again, for the same tenant.
func onward(ctx context.Context, s system, tenants int, body string) error {
	number, _, err := parse(body)
	if err != nil {
		return err
	}
	return s.write(ctx, []message{{tenant: number % tenants, body: body}})
}

// handle is the handler of all systems.
func handle(body string, records *os.File) error {
	now := time.Now()
	number, takes, err := parse(body)
	if err != nil {
		return err
	}
	note := record{Number: uint32(number), At: now}
	if takes > 0 {
		if _, err := records.Write(note.append(nil)); err != nil {
			return err
		}
		time.Sleep(takes)
		now = time.Now()
	}
	note.End = now
	_, err = records.Write(note.append(nil))
	return err
}

// write writes the load, and notes the time of each call.
func (l *load) write(ctx context.Context, s system, records *os.File) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	calls := (l.Count + l.Batch - 1) / l.Batch
	began := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range l.Writers {
		wg.Go(func() {
			for ctx.Err() == nil {
				call := int(next.Add(1)) - 1
				if call >= calls {
					return
				}
				if l.OverMs > 0 {
					due := began.Add(time.Duration(l.OverMs) * time.Millisecond * time.Duration(call) / time.Duration(calls))
					time.Sleep(time.Until(due))
				}
				if err := l.call(ctx, s, records, call); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (l *load) call(ctx context.Context, s system, records *os.File, call int) error {
	first, end := call*l.Batch, min(l.Count, (call+1)*l.Batch)
	messages := make([]message, 0, end-first)
	for i := first; i < end; i++ {
		messages = append(messages, l.message(i))
	}
	began := time.Now()
	if err := s.write(ctx, messages); err != nil {
		return err
	}
	var notes []byte
	for i, ended := first, time.Now(); i < end; i++ {
		notes = record{Number: uint32(l.First + i), At: began, End: ended}.append(notes)
	}
	_, err := records.Write(notes)
	return err
}
