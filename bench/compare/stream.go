package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
)

var streamPeer = &peer{
	Name: "stream", Title: "a stream by hand", Version: "rueidis 1.0.79", batches: true, missing: always, queues: true, queuesName: "a stream per tenant",
	Settings: []setting{
		{"`XREADGROUP COUNT 100 BLOCK`", "one call feeds many handlers"},
		{"`XACK` and `XDEL` of up to 100 messages in one pipeline, by one goroutine", "an acknowledgement costs a hundredth of a round trip"},
		{"batches are pipelines of `XADD`", "`XADD` takes one message"},
		{"a stream per tenant: `XREADGROUP COUNT 1` over all of them", "each read takes one message of each tenant, in turn; tenants must be known"},
		{"`XAUTOCLAIM` each second, of what is older than 5 s", "there is no other way back for what a killed worker had"},
	},
	connect: func(ctx context.Context, j *job) (system, error) {
		client, err := dial.Redis(ctx, j.URL)
		if err != nil {
			return nil, err
		}
		s := &streamSystem{client: client, job: j, keys: []string{"compared"}}
		if j.TenantQueues {
			s.keys = nil
			for tenant := range j.Tenants {
				s.keys = append(s.keys, tenantName(tenant))
			}
		}
		for _, key := range s.keys {
			err := client.Do(ctx, client.B().XgroupCreate().Key(key).Group(streamGroup).Id("0").Mkstream().Build()).Error()
			if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
				client.Close()
				return nil, err
			}
		}
		return s, nil
	},
}

const (
	streamGroup = "group"

	// streamLot is how many messages a read takes, and an acknowledgement.
	streamLot = 100

	// streamRetry is after how long a call that failed is repeated.
	streamRetry = 100 * time.Millisecond
)

type streamSystem struct {
	client rueidis.Client
	job    *job
	keys   []string
}

// entry is a message that was read.
type entry struct{ key, id, body string }

func (s *streamSystem) write(ctx context.Context, messages []message) error {
	adds := make(rueidis.Commands, len(messages))
	for i, m := range messages {
		key := s.keys[0]
		if s.job.TenantQueues {
			key = tenantName(m.tenant)
		}
		adds[i] = s.client.B().Xadd().Key(key).Id("*").FieldValue().FieldValue("b", m.body).Build()
	}
	for _, reply := range s.client.DoMulti(ctx, adds...) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}

func (s *streamSystem) work(ctx context.Context, handle func(body string)) error {
	consumer := strconv.Itoa(os.Getpid())
	entries, done := make(chan entry), make(chan entry, streamLot)
	for range s.job.Concurrency {
		go func() {
			for e := range entries {
				handle(e.body)
				done <- e
			}
		}()
	}
	lot := int64(streamLot)
	if s.job.TenantQueues || s.job.Concurrency == 1 { // one handler has no use for more
		lot = 1
	}
	go s.acknowledge(ctx, done)
	go s.claim(ctx, consumer, entries)
	for ctx.Err() == nil {
		found, err := s.read(ctx, consumer, lot)
		if err != nil {
			time.Sleep(streamRetry) // the server restarts
		}
		for _, e := range found {
			select {
			case entries <- e:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// step reads and acknowledges from the one stream.
func (s *streamSystem) step(ctx context.Context, n int) (acknowledge func() error, err error) {
	entries, err := s.read(ctx, "step", int64(n))
	if err == nil && len(entries) != n {
		err = fmt.Errorf("a read returned %d messages, want %d", len(entries), n)
	}
	ids := map[string][]string{}
	for _, e := range entries {
		ids[e.key] = append(ids[e.key], e.id)
	}
	return func() error { return s.remove(ctx, ids) }, err
}

// read waits for messages, for a second at most. From each stream it takes so many.
func (s *streamSystem) read(ctx context.Context, consumer string, lot int64) ([]entry, error) {
	ids := make([]string, len(s.keys))
	for i := range ids {
		ids[i] = ">"
	}
	read, err := s.client.Do(ctx, s.client.B().Xreadgroup().Group(streamGroup, consumer).Count(lot).Block(1000).Streams().Key(s.keys...).Id(ids...).Build()).AsXRead()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	var all []entry
	for key, found := range read {
		for _, x := range found {
			all = append(all, entry{key: key, id: x.ID, body: x.FieldValues["b"]})
		}
	}
	return all, nil
}

// acknowledge removes messages that were handled, many at a time.
func (s *streamSystem) acknowledge(ctx context.Context, done <-chan entry) {
	for {
		ids := map[string][]string{}
		select {
		case e := <-done:
			ids[e.key] = append(ids[e.key], e.id)
		case <-ctx.Done():
			return
		}
		for range len(done) {
			e := <-done
			ids[e.key] = append(ids[e.key], e.id)
		}
		for err := s.remove(ctx, ids); err != nil && ctx.Err() == nil; err = s.remove(ctx, ids) {
			time.Sleep(streamRetry)
		}
	}
}

func (s *streamSystem) remove(ctx context.Context, ids map[string][]string) (err error) {
	var commands rueidis.Commands
	for key, of := range ids {
		commands = append(commands,
			s.client.B().Xack().Key(key).Group(streamGroup).Id(of...).Build(),
			s.client.B().Xdel().Key(key).Id(of...).Build())
	}
	for _, reply := range s.client.DoMulti(ctx, commands...) {
		err = errors.Join(err, reply.Error())
	}
	return err
}

// claim takes over entries that other consumers did not finish in time.
func (s *streamSystem) claim(ctx context.Context, consumer string, entries chan<- entry) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		for _, key := range s.keys {
			for _, e := range s.claimOf(ctx, consumer, key) {
				select {
				case entries <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// claimOf returns entries that were read from a stream and not finished in time. After an error
// the next call tries again.
func (s *streamSystem) claimOf(ctx context.Context, consumer, key string) []entry {
	idle := strconv.Itoa(cmp.Or(s.job.VisibilityMs, 30_000))
	reply, err := s.client.Do(ctx, s.client.B().Xautoclaim().Key(key).Group(streamGroup).Consumer(consumer).MinIdleTime(idle).Start("0").Count(streamLot).Build()).ToArray()
	if err != nil || len(reply) < 2 {
		return nil
	}
	claimed, err := reply[1].AsXRange()
	if err != nil {
		return nil
	}
	var all []entry
	for _, x := range claimed {
		all = append(all, entry{key: key, id: x.ID, body: x.FieldValues["b"]})
	}
	return all
}

func (s *streamSystem) close() { s.client.Close() }
