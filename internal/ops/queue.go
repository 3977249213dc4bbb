package ops

import "github.com/millrace/millrace/internal/jsontype"

// queuePath is the path of a queue.
const queuePath = "/v1/queues/{name}"

// Queue names a queue.
type Queue struct {
	Name jsontype.Text `arg:"" path:"name" complete:"queue" doc:"The queue's name, 1 to 512 bytes." example:"\"orders\""`
}

// Structure returns the name.
func (q Queue) Structure() string { return string(q.Name) }

// Flows says how a new queue divides its messages.
type Flows struct {
	Streams   int `json:"streams,omitempty" placeholder:"N" minimum:"0" maximum:"1024" doc:"How many streams the flows of the queue are if it is new. Defaults to 0, a flow for each tenant." example:"64"`
	PerTenant int `json:"per_tenant,omitempty" placeholder:"K" minimum:"0" maximum:"1024" doc:"How many of them a tenant has, if the queue is new and has streams. Defaults to 4." example:"4"`
}

// NewQueue returns them.
func (f Flows) NewQueue() (streams, perTenant int) { return f.Streams, f.PerTenant }

// Queues are the names of queues.
type Queues struct {
	Queues []jsontype.Text `json:"queues" doc:"Their names, sorted by their bytes."`
	Incomplete
}

// Deleted counts the keys or fields that a deletion removed.
type Deleted struct {
	Deleted int `json:"deleted" doc:"How many existed: keys of a queue or a dirty list, fields of a hash." example:"3"`
}

// Paused reports whether reading is paused.
type Paused struct {
	Paused bool `json:"paused" doc:"Reading is paused."`
}
