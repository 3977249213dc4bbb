package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/scatter"
)

// counterPath is the path of a counter.
const counterPath = "/v1/counters/{name}"

// Counter names a counter.
type Counter struct {
	Name jsontype.Text `arg:"" path:"name" doc:"The counter's name, which is its key on every server." example:"\"impressions\""`
}

// Structure returns the name.
func (c Counter) Structure() string { return string(c.Name) }

// AddToCounter adds to a counter.
var AddToCounter = operation(Row{
	ID: "addToCounter", Words: "counter add", Method: http.MethodPost, Path: counterPath + "/add", Statuses: []int{http.StatusInsufficientStorage}, Class: Work,
	Summary:  "Add to a counter, on one server",
	Detail:   "A counter starts at 0. On its server it is a plain Redis number under its own name.",
	Examples: []string{"counter add impressions 1", "counter add balance -- -5", "counter add impressions 1 --shard-key ad:17"},
}, func(ctx context.Context, c OneCounter, in Addition) (Added, error) {
	session := c.Of.Session(string(in.ShardKey))
	session.Add(c.Name, in.N)
	err := session.Flush(ctx)
	return Added{Added: in.N, Server: session.Server()}, err
})

// Addition is the In of [AddToCounter].
type Addition struct {
	N        int64         `json:"n" arg:"" name:"n" doc:"How much to add; may be negative." example:"3"`
	ShardKey jsontype.Text `json:"shard_key,omitempty" placeholder:"K" doc:"Selects the server: the same key always selects the same one. Defaults to any server." example:"\"ad:17\""`
}

// Added is the Out of [AddToCounter].
type Added struct {
	Added  int64  `json:"added" example:"3"`
	Server string `json:"server" doc:"The server that received it." example:"10.0.0.1:6379"`
}

// GetCounter reads a counter. With an error that is partial, the Out has the sum of the servers that answered.
var GetCounter = operation(Row{
	ID: "getCounter", Words: "counter get", Method: http.MethodGet, Path: counterPath, Statuses: []int{http.StatusConflict}, Class: Look,
	Summary:  "Read a counter: the sum over all servers",
	Detail:   "If servers do not answer, the error has the code partial and the sum of the others.",
	Examples: []string{"counter get impressions", "counter get impressions --json"},
}, func(ctx context.Context, c OneCounter, _ Counter) (Counted, error) {
	gather := c.Of.Gather()
	sum := gather.Int(c.Name)
	err := gather.Read(ctx)
	return Counted{sum.Value, sum.Servers, sum.Answered, sum.Missing}, err
})

// Counted is the Out of [GetCounter].
type Counted struct {
	Value    int64    `json:"value" doc:"The sum." example:"20"`
	Servers  int      `json:"servers" doc:"How many servers there are." example:"3"`
	Answered int      `json:"answered" doc:"How many of them are in the sum." example:"3"`
	Missing  []string `json:"-"` // the names of the others
}

// ShowCounterServers shows what servers have.
var ShowCounterServers = operation(Row{
	ID: "showCounterServers", Words: "counter servers",
	Class: Look, Only: "a service has its servers from its command line; who removes one asks with the group of the programs",
	Summary:  "Show what is left on each server, and until when",
	Detail:   "Of what the library wrote. It does not see what other programs write with their own commands.",
	Examples: []string{"counter servers", "counter servers --json"},
}, func(ctx context.Context, s *scatter.Scatter, _ Nothing) (doc CounterServers, err error) {
	lefts, err := s.Left(ctx)
	for _, l := range lefts {
		if l.Err == nil {
			doc.Servers = append(doc.Servers, CounterServer{l.Server, l.Flushes, jsontype.Time(l.Until), l.Forever, l.Empty})
		}
	}
	return doc, err
})

// CounterServers is the Out of [ShowCounterServers]. It has the servers that answered, also with an error.
type CounterServers struct {
	Servers []CounterServer `json:"servers"`
}

// CounterServer has the remaining values on one server.
type CounterServer struct {
	Server  string     `json:"server" example:"10.0.0.1:6379"`
	Flushes int64      `json:"flushes" doc:"How many flushes the server received. It grows while clients write there." example:"20"`
	Until   *time.Time `json:"until,omitempty" doc:"When the last time bucket expires, by the server's clock. Absent if there are none."`
	Forever bool       `json:"forever" doc:"Whether it received values that never expire."`
	Empty   bool       `json:"empty" doc:"Whether it received nothing, or everything has expired."`
}
