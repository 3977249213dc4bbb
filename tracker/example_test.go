package tracker_test

import (
	"context"
	"fmt"
	"log"
	"slices"

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

// tasks stands for a table of tasks that are queued: each is the identifier that it is for.
type tasks []string

// Rows goes through the identifiers in the order of the alphabet.
func (t tasks) Rows(_ context.Context, after string, limit int) (tracker.Page, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(t)))
	ids = slices.DeleteFunc(ids, func(id string) bool { return id <= after })
	page := tracker.Page{IDs: ids[:min(len(ids), limit, tracker.MaxIDs)]}
	page.Looked = len(page.IDs)
	if page.Looked < len(ids) {
		page.Next = ids[page.Looked-1]
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
	answers, err := t.Queued(context.Background(), id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", id, answers[0].State)
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
