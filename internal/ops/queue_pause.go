package ops

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/fairqueue"
)

// PauseQueue suspends reading.
var PauseQueue = operation(Row{
	ID: "pauseQueue", Words: "queue pause", Method: http.MethodPost, Path: queuePath + "/pause", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "queue.pause", Form: "queues/pause",
	Summary:  "Pause reading",
	Detail:   "No reader receives messages until the queue is resumed. Messages in flight may be finished, and writing continues, so messages pile up.",
	Examples: []string{"queue pause orders"},
}, func(ctx context.Context, q *fairqueue.Queue, _ *Nothing) (Paused, error) {
	return Paused{Paused: true}, q.Pause(ctx)
})

// ResumeQueue ends a pause.
var ResumeQueue = operation(Row{
	ID: "resumeQueue", Words: "queue resume", Method: http.MethodPost, Path: queuePath + "/resume", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "queue.resume", Form: "queues/resume",
	Summary:  "Resume reading",
	Detail:   "Readers that wait are woken, and waiting messages are delivered.",
	Examples: []string{"queue resume orders"},
}, func(ctx context.Context, q *fairqueue.Queue, _ *Nothing) (Paused, error) {
	return Paused{}, q.Resume(ctx)
})
