package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/readable"
)

// queueControls are the actions on a queue as a whole.
func (d *Dashboard) queueControls(s fairqueue.Stats) []request {
	path := func(verb string) string { return d.link("queues", s.Name, verb) }
	pause := request{
		ID: "ask-pause", Open: "Pause", Title: "Pause this queue?", Path: path("pause"), Verb: "Pause",
		Text: "No message is delivered any more, to any process, until somebody resumes the queue. What is in flight may be finished, and writing goes on: messages pile up.",
	}
	if s.Paused {
		pause = request{
			ID: "ask-resume", Open: "Resume", Title: "Resume this queue?", Path: path("resume"), Verb: "Resume",
			Text: "Readers are woken, and what waits is delivered.",
		}
	}
	return []request{
		pause,
		{
			ID: "ask-resize", Open: "Resize", Title: "Resize this queue?", Path: path("resize"), Verb: "Resize",
			Text: "With 0 streams each tenant is a flow of its own, and takes turns with all others. With more, flows are so many streams, of which each tenant has some. It holds for what is written from then on; what waits stays where it is, and has its turns.",
			Fields: []field{
				{"streams", "Streams", s.Streams, 0, 1024},
				{"per_tenant", "Streams a tenant", s.PerTenant, 0, 1024},
			},
		},
		{
			ID: "ask-delete", Open: "Delete", Title: "Delete this queue?", Path: path("delete"), Verb: "Delete for good", Danger: true, Leaves: true,
			Confirm: plain(s.Name),
			Text:    "All that is in it is lost: what waits, what is in flight, what is delayed and what is dead. Stop writers and readers first; the next write begins the queue anew.",
		},
	}
}

// messageRequests are the actions on messages that were chosen.
func (d *Dashboard) messageRequests(name, place string) []request {
	if place != dead {
		return []request{{
			ID: "ask-cancel", Open: "Cancel", Title: "Cancel the chosen messages?", Path: d.link("queues", name, "cancel"), Verb: "Cancel messages",
			Danger: true, Chosen: true,
			Text: "They are gone for good and will not be delivered. A handler that has one in hand is told to stop when it next extends its time.",
		}}
	}
	return []request{
		{
			ID: "ask-redrive", Open: "Redrive", Title: "Try the chosen messages again?", Path: d.link("queues", name, "redrive"), Verb: "Redrive", Chosen: true,
			Text: "They wait again as if they had never been delivered, and without their deadlines. What made them fail may make them fail again.",
		},
		{
			ID: "ask-purge", Open: "Purge", Title: "Forget the chosen messages?", Path: d.link("queues", name, "purge"), Verb: "Forget for good",
			Danger: true, Chosen: true, Confirm: plain(name),
			Text: "They are gone for good, with their bodies.",
		},
	}
}

// queueActions are what can be done to a queue.
func (d *Dashboard) queueActions() []action {
	on := func(word string, do func(ctx context.Context, q *fairqueue.Queue, r *http.Request) (string, error)) action {
		return action{
			path: "/queues/{name}/" + word, word: "queue." + word,
			do: func(ctx context.Context, name string, r *http.Request) (string, error) {
				q, err := fairqueue.New(d.cfg.Client, name, fairqueue.Config{Logger: d.cfg.Logger})
				if err != nil {
					return "", err
				}
				return do(ctx, q, r)
			},
			back: func(name string) string { return d.link("queues", name) },
		}
	}
	remove := on("delete", deleteQueue)
	remove.back = func(string) string { return d.link("queues") }
	return []action{
		on("pause", func(ctx context.Context, q *fairqueue.Queue, _ *http.Request) (string, error) {
			return "The queue is paused.", q.Pause(ctx)
		}),
		on("resume", func(ctx context.Context, q *fairqueue.Queue, _ *http.Request) (string, error) {
			return "The queue is read again.", q.Resume(ctx)
		}),
		on("resize", resizeQueue),
		on("redrive", redrive),
		on("purge", purge),
		on("cancel", cancel),
		remove,
	}
}

func resizeQueue(ctx context.Context, q *fairqueue.Queue, r *http.Request) (string, error) {
	streams, err := strconv.Atoi(strings.TrimSpace(r.PostFormValue("streams")))
	if err != nil {
		return "", wrong("the number of streams", r.PostFormValue("streams"))
	}
	perTenant, err := strconv.Atoi(strings.TrimSpace(r.PostFormValue("per_tenant")))
	if err != nil {
		return "", wrong("the number of streams a tenant has", r.PostFormValue("per_tenant"))
	}
	if err := q.Resize(ctx, streams, perTenant); err != nil {
		return "", err
	}
	if streams == 0 {
		return "Each tenant is a flow now.", nil
	}
	if perTenant == 0 {
		perTenant = min(streams, 4) // the default
	}
	return fmt.Sprintf("The queue has %s now, and a tenant %s of them.", readable.Count(streams, "stream"), readable.Number(perTenant)), nil
}

func redrive(ctx context.Context, q *fairqueue.Queue, r *http.Request) (string, error) {
	ids, err := picked(r)
	if err != nil {
		return "", err
	}
	n, err := q.Redrive(ctx, ids...)
	return some(n, len(ids), "message", "waiting again", "not dead any more"), err
}

func purge(ctx context.Context, q *fairqueue.Queue, r *http.Request) (string, error) {
	if err := confirmed(q.Name(), r); err != nil {
		return "", err
	}
	ids, err := picked(r)
	if err != nil {
		return "", err
	}
	n, err := q.Purge(ctx, ids...)
	return some(n, len(ids), "message", "forgotten", "not dead any more"), err
}

func cancel(ctx context.Context, q *fairqueue.Queue, r *http.Request) (string, error) {
	ids, err := picked(r)
	if err != nil {
		return "", err
	}
	places, err := q.Cancel(ctx, ids...)
	n := 0
	for _, place := range places {
		if place != fairqueue.Gone {
			n++
		}
	}
	return some(n, len(ids), "message", "cancelled", "not there any more"), err
}

func deleteQueue(ctx context.Context, q *fairqueue.Queue, r *http.Request) (string, error) {
	if err := confirmed(q.Name(), r); err != nil {
		return "", err
	}
	n, err := q.Delete(ctx)
	if err == nil && n == 0 {
		err = millrace.ErrNotFound.Errorf("there is no such queue")
	}
	return fmt.Sprintf("The queue %s is deleted, with its %s.", plain(cut(q.Name(), 100)), readable.Count(n, "key")), err
}
