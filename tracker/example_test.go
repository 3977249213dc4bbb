package tracker_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strconv"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/steal"
	"github.com/millrace/millrace/tracker"
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

// tasks stands for a table of tasks: each is the identifier that it is for, and
// its place is its key. One that is done is empty.
type tasks []string

func (t tasks) Rows(_ context.Context, after string, limit int) (tracker.Page, error) {
	key := 0
	if after != "" {
		last, err := strconv.Atoi(after)
		if err != nil {
			return tracker.Page{}, err
		}
		key = last + 1
	}
	var page tracker.Page
	for ; key < len(t) && page.Looked < limit; key++ {
		page.Looked++
		page.Next = strconv.Itoa(key)
		if t[key] != "" {
			page.IDs = append(page.IDs, t[key])
		}
	}
	if key == len(t) {
		page.Next = ""
	}
	return page, nil
}

func (t tasks) Pending(_ context.Context, ids []string) ([]string, error) {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(t, id) }), nil
}

func open(client rueidis.Client, source tracker.Source) *tracker.Tracker {
	t, err := tracker.New(client, "items", tracker.Config{Source: source})
	if err != nil {
		log.Fatal(err)
	}
	return t
}

func show(t *tracker.Tracker, id string) {
	answer, err := t.Queued(context.Background(), id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", id, answer.State)
}

func ExampleTracker_Queued() {
	client, closeAll := connect()
	defer closeAll()
	table := tasks{"book", "film", "book"}
	items := open(client, &table)
	ctx := context.Background()

	show(items, "song") // no pass is complete
	if err := items.Fill(ctx, nil); err != nil {
		log.Fatal(err)
	}
	show(items, "song")

	table = append(table, "song") // a producer: the commit, and then
	if err := items.Add(ctx, "song"); err != nil {
		log.Fatal(err)
	}
	show(items, "song")
	show(items, "book")
	// Output:
	// song: unknown
	// song: not queued
	// song: queued
	// book: queued
}

// The two jobs keep the tracker in step with the table, in idle moments of the
// programs that use it.
func ExampleTracker_Jobs() {
	client, closeAll := connect()
	defer closeAll()
	items := open(client, &tasks{"book", "film"})

	recruiter := steal.New(steal.Config{})
	for i, job := range items.Jobs() {
		rate := []float64{1, 0}[i] // 0.003 each where there are many idle moments
		if err := recruiter.Install(job, rate); err != nil {
			log.Fatal(err)
		}
	}
	recruiter.Enlist(context.Background()) // such as behind a cache hit
	if err := recruiter.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	show(items, "film")
	show(items, "song")
	// Output:
	// film: queued
	// song: not queued
}
