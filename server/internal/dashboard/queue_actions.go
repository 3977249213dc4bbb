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
		Text: "No process receives messages until the queue is resumed. Messages in flight may be finished, and writing continues, so messages pile up.",
	}
	if s.Paused {
		pause = request{
			ID: "ask-resume", Open: "Resume", Title: "Resume this queue?", Path: path("resume"), Verb: "Resume",
			Text: "Readers wake up, and waiting messages are delivered.",
		}
	}
	return []request{
		pause,
		{
			ID: "ask-resize", Open: "Resize", Title: "Resize this queue?", Path: path("resize"), Verb: "Resize",
			Text: "With 0 streams each tenant is a flow, and flows take turns. With more streams, each stream is a flow, and each tenant uses some of them. It applies to new messages; waiting messages stay in their flows and still take turns.",
			Fields: []field{
				{"streams", "Streams", s.Streams, 0, 1024},
				{"per_tenant", "Streams per tenant", s.PerTenant, 0, 1024},
			},
		},
		{
			ID: "ask-delete", Open: "Delete", Title: "Delete this queue?", Path: path("delete"), Verb: "Delete", Danger: true, Leaves: true,
			Confirm: plain(s.Name),
			Text:    "All messages are lost: waiting, in flight, delayed and dead. Stop writers and readers first; the next write creates the queue again.",
		},
	}
}

// messageRequests are the actions on selected messages.
func (d *Dashboard) messageRequests(name, place string) []request {
	if place != dead {
		return []request{{
			ID: "ask-cancel", Open: "Cancel", Title: "Cancel the selected messages?", Path: d.link("queues", name, "cancel"), Verb: "Cancel messages",
			Danger: true, Chosen: true,
			Text: "They are deleted and will not be delivered. A handler that works on one learns it when it next extends its time.",
		}}
	}
	return []request{
		{
			ID: "ask-redrive", Open: "Redrive", Title: "Redeliver the selected messages?", Path: d.link("queues", name, "redrive"), Verb: "Redrive", Chosen: true,
			Text: "They wait again as if they had never been delivered, and without their deadlines. They may fail again for the same reason.",
		},
		{
			ID: "ask-purge", Open: "Purge", Title: "Delete the selected messages?", Path: d.link("queues", name, "purge"), Verb: "Delete",
			Danger: true, Chosen: true, Confirm: plain(name),
			Text: "They are deleted with their bodies.",
		},
	}
}

// queueActions are the actions on queues and their messages.
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
			return "The queue is resumed.", q.Resume(ctx)
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
		return "", notNumber("the number of streams", r.PostFormValue("streams"))
	}
	perTenant, err := strconv.Atoi(strings.TrimSpace(r.PostFormValue("per_tenant")))
	if err != nil {
		return "", notNumber("the number of streams per tenant", r.PostFormValue("per_tenant"))
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
	return fmt.Sprintf("The queue has %s now, and each tenant uses %s of them.", readable.Count(streams, "stream"), readable.Number(perTenant)), nil
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
	return some(n, len(ids), "message", "deleted", "not dead any more"), err
}

func cancel(ctx context.Context, q *fairqueue.Queue, r *http.Request) (string, error) {
	ids, err := picked(r)
	if err != nil {
		return "", err
	}
	states, err := q.Cancel(ctx, ids...)
	n := 0
	for _, state := range states {
		if state != fairqueue.Gone {
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
