package ops

import "github.com/millrace/millrace/internal/document"

// queuePath is the path of a queue.
const queuePath = "/v1/queues/{name}"

// Queue names a queue.
type Queue struct {
	Name document.Text `arg:"" path:"name" complete:"queue" doc:"The queue's name, 1 to 512 bytes." example:"\"orders\""`
}

// Structure returns the name.
func (q Queue) Structure() string { return string(q.Name) }

// Flows are what the flows of a new queue are.
type Flows struct {
	Streams   int `json:"streams,omitempty" placeholder:"N" minimum:"0" maximum:"1024" doc:"How many streams the flows of the queue are if it is new. Defaults to 0, a flow for each tenant." example:"64"`
	PerTenant int `json:"per_tenant,omitempty" placeholder:"K" minimum:"0" maximum:"1024" doc:"How many of them a tenant has, if the queue is new and has streams. Defaults to 4." example:"4"`
}

// NewQueue returns them.
func (f Flows) NewQueue() (streams, perTenant int) { return f.Streams, f.PerTenant }
