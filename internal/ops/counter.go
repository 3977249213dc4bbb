package ops

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace/millrace"
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
	Examples: []string{"counter add impressions 3 clicks 1", "counter add balance -- -5", "counter add impressions 1 --shard-key ad:17"},
}, func(ctx context.Context, c OneCounter, in Addition) (Added, error) {
	session := c.Of.Session(string(in.ShardKey))
	session.Add(c.Name, in.N)
	err := session.Flush(ctx)
	return Added{Added: in.N, Server: session.Server}, err
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

// AddToCounters adds to several counters at once.
var AddToCounters = operation(Row{
	ID: "addToCounters", Method: http.MethodPost, Path: "/v1/counters", Statuses: []int{http.StatusInsufficientStorage, http.StatusConflict},
	Class: Work, Only: "counter add takes pairs",
	Summary: "Add to several counters, on one server",
	Detail:  "A session: all of them or none, in one call to one server, whatever the number of servers. With every and keep, each is counted in a bucket of time that expires: a counter of its own with the name NAME:START, where START is when it begins in Unix seconds, a multiple of every.",
}, func(ctx context.Context, s *scatter.Scatter, in Counts) (doc CountsAdded, err error) {
	session := s.Session(string(in.ShardKey))
	into := session
	if in.Every.Duration != 0 || in.Keep.Duration != 0 {
		into = session.In(scatter.Bucket{Every: in.Every.Duration, Keep: in.Keep.Duration})
	}
	for name, n := range parsedNames("body.counts", in.Counts, &err) {
		into.Add(name, n)
		doc.Counters++
	}
	if err != nil {
		return doc, err
	}
	err = session.Flush(ctx)
	doc.Server = session.Server
	return doc, err
})

// Counts is the In of [AddToCounters].
type Counts struct {
	Counts   map[string]int64  `json:"counts" minProperties:"1" maxProperties:"1000" doc:"Their names, and how much to add to each; may be negative. A name that is not UTF-8 is the text of its base64 form." example:"{\"impressions\":3,\"clicks\":1}"`
	ShardKey jsontype.Text     `json:"shard_key,omitempty" doc:"Selects the server: the same key always selects the same one. Defaults to any server." example:"\"ad:17\""`
	Every    jsontype.Duration `json:"every,omitzero" doc:"How long a bucket is, in whole seconds. Defaults to 1m if keep is given, and else to no buckets." example:"1m"`
	Keep     jsontype.Duration `json:"keep,omitzero" doc:"How long a bucket stays after its end. Defaults to 4h if every is given." example:"4h"`
}

// Structures returns the names of the counters.
func (c Counts) Structures() (names []string) {
	for given := range c.Counts {
		name, err := jsontype.ParseText(given)
		if err != nil { // Do refuses it
			name = jsontype.Text(given)
		}
		names = append(names, string(name))
	}
	return names
}

// CountsAdded is the Out of [AddToCounters].
type CountsAdded struct {
	Counters int    `json:"counters" doc:"How many counters received something." example:"2"`
	Server   string `json:"server" doc:"The server that received it." example:"10.0.0.1:6379"`
}

// GetCounter reads a counter. With an error that is partial, the Out has the sum of the servers that answered.
var GetCounter = operation(Row{
	ID: "getCounter", Words: "counter get", Method: http.MethodGet, Path: counterPath, Statuses: []int{http.StatusConflict}, Class: Look,
	Summary:  "Read a counter: the sum over all servers",
	Detail:   "If servers do not answer, the error has the code partial and the sum of the others.",
	Examples: []string{"counter get impressions", "counter get impressions clicks --json"},
}, func(ctx context.Context, c OneCounter, in CounterQuery) (Counted, error) {
	gather := c.Of.Gather()
	sum := gather.Int(c.Name)
	err := in.accept(gather.Read(ctx), sum)
	return Counted{sum.Value, Answers{sum.Servers, sum.Answered, sum.Missing}}, err
})

// CounterQuery is the In of [GetCounter].
type CounterQuery struct {
	Counter
	Partial
}

// Partial says whether a part is enough.
type Partial struct {
	Partial bool `query:"partial" doc:"Answer with the sum of the servers that answer, unless none does; missing then names the others."`
}

// accept returns no error if a part is enough, and there is one.
func (p Partial) accept(err error, first *scatter.Result[int64]) error {
	if p.Partial && first.Answered > 0 && errors.Is(err, millrace.ErrPartial) {
		return nil
	}
	return err
}

// Counted is the Out of [GetCounter].
type Counted struct {
	Value int64 `json:"value" doc:"The sum." example:"20"`
	Answers
}

// Answers says which servers are in a sum.
type Answers struct {
	Servers  int      `json:"servers" doc:"How many servers there are." example:"3"`
	Answered int      `json:"answered" doc:"How many of them are in the sum." example:"3"`
	Missing  []string `json:"missing,omitempty" doc:"The names of the others. Absent if all answered." example:"[\"10.0.0.3:6379\"]"`
}

// GetCounters reads several counters at once. With an error that is partial, the Out has the sums of the servers that answered.
var GetCounters = operation(Row{
	ID: "getCounters", Method: http.MethodGet, Path: "/v1/counters", Statuses: []int{http.StatusConflict},
	Class: Look, Only: "counter get takes several names",
	Summary: "Read several counters: the sums over all servers",
	Detail:  "One call to each server for all of them, in a URL of at most 60 KiB. A counter that does not exist is 0.",
}, func(ctx context.Context, s *scatter.Scatter, in CounterNames) (doc Sums, err error) {
	gather := s.Gather()
	results := make([]*scatter.Result[int64], len(in.Names))
	for i, name := range in.Names {
		results[i] = gather.Int(name)
	}
	err = in.accept(gather.Read(ctx), results[0])
	doc.Counters = make([]CounterValue, len(results))
	for i, r := range results {
		doc.Counters[i] = CounterValue{jsontype.Text(in.Names[i]), r.Value}
		doc.Answers = Answers{r.Servers, r.Answered, r.Missing}
	}
	return doc, err
})

// CounterNames is the In of [GetCounters].
type CounterNames struct {
	Names []string `query:"name,explode" required:"true" nullable:"false" minItems:"1" maxItems:"1000" doc:"A counter to read; may be repeated." example:"[\"impressions\"]"`
	Partial
}

// Structures returns the names of the counters.
func (c CounterNames) Structures() []string { return c.Names }

// Sums is the Out of [GetCounters].
type Sums struct {
	Counters []CounterValue `json:"counters" doc:"In the order of the request."`
	Answers
}

// CounterValue is the sum of a counter.
type CounterValue struct {
	Name  jsontype.Text `json:"name" example:"\"impressions\""`
	Value int64         `json:"value" doc:"The sum." example:"20"`
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
