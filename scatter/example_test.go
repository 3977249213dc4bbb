package scatter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/scatter"
)

// connect stands for the servers that a program counts on.
func connect(n int) ([]scatter.Server, []*miniredis.Miniredis) {
	var servers []scatter.Server
	var running []*miniredis.Miniredis
	for i := range n {
		one := miniredis.NewMiniRedis()
		if err := one.Start(); err != nil {
			log.Fatal(err)
		}
		running = append(running, one)
		servers = append(servers, scatter.Server{
			Name:   fmt.Sprint("redis-", i),
			Option: rueidis.ClientOption{InitAddress: []string{one.Addr()}},
		})
	}
	return servers, running
}

// An event is written to one server. Reads ask all servers.
func Example() {
	ctx := context.Background()
	servers, running := connect(3)
	sc, err := scatter.New(servers, scatter.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer sc.Close()

	for i := range 10 {
		s := sc.Session(fmt.Sprint("user-", i))
		s.Add("clicks", 1)
		s.AddFloat("cost", 0.25)
		s.Insert("users", fmt.Sprint("user-", i%4))
		s.Push("events", 100, []byte("clicked"))
		if err := s.Flush(ctx); err != nil {
			log.Fatal(err)
		}
	}

	g := sc.Gather()
	clicks, cost, users, events := g.Int("clicks"), g.Float("cost"), g.Set("users"), g.List("events", 100)
	if err := g.Read(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(clicks.Value, cost.Value, users.Value, len(events.Value))

	// A server that does not answer is an error, with the data of the others.
	running[0].Close()
	g = sc.Gather()
	clicks = g.Int("clicks")
	err = g.Read(ctx)
	fmt.Println(errors.Is(err, millrace.ErrPartial), clicks.Answered, "of", clicks.Servers, clicks.Missing)
	for _, one := range running[1:] {
		one.Close()
	}
	// Output:
	// 10 2.5 [user-0 user-1 user-2 user-3] 10
	// true 2 of 3 [redis-0]
}

// Values in buckets expire. A reader adds up those that it wants.
func ExampleSession_In() {
	ctx := context.Background()
	servers, running := connect(1)
	defer running[0].Close()
	sc, err := scatter.New(servers, scatter.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer sc.Close()

	now := time.Now()
	s := sc.Session("user-7")
	for _, ago := range []time.Duration{0, time.Minute, 50 * time.Minute, 2 * time.Hour} {
		s.In(scatter.Bucket{Every: time.Minute, At: now.Add(-ago)}).Add("clicks", 1)
	}
	if err := s.Flush(ctx); err != nil {
		log.Fatal(err)
	}

	keys, err := scatter.Bucket{Every: time.Minute}.Keys("clicks", now.Add(-time.Hour), now.Add(1))
	if err != nil {
		log.Fatal(err)
	}
	g := sc.Gather()
	lastHour := g.Int(keys...)
	if err := g.Read(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(lastHour.Value)
	// Output: 3
}

// Counters that change very often are added up in memory.
func ExampleTally() {
	ctx := context.Background()
	servers, running := connect(1)
	defer running[0].Close()
	sc, err := scatter.New(servers, scatter.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer sc.Close()

	tally, err := sc.Tally(scatter.TallyConfig{})
	if err != nil {
		log.Fatal(err)
	}
	for range 100_000 {
		if err := tally.Add("frames", 1); err != nil {
			log.Print(err) // too many counters wait: the servers cannot be reached
		}
	}
	if err := tally.Close(ctx); err != nil {
		log.Print(err)
	}

	g := sc.Gather()
	frames := g.Int("frames")
	if err := g.Read(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(frames.Value)
	// Output: 100000
}
