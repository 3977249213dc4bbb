package ops

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
)

// channelPath is the path of a channel.
const channelPath = "/v1/channels/{name}"

// Channel names a channel of dirty lists.
type Channel struct {
	Name jsontype.Text `arg:"" path:"name" complete:"channel" doc:"The channel's name. Its dirty lists are NAME/0, NAME/1 and so on." example:"\"pages\""`
}

// Structure returns the name.
func (c Channel) Structure() string { return string(c.Name) }

// ListChannels lists the channels.
var ListChannels = Row{
	ID: "listChannels", Words: "ick channel ls", Method: http.MethodGet, Path: "/v1/channels", Class: Look,
	Summary:  "List the channels of dirty lists by name",
	Detail:   "All registered channels. Every program that uses a channel registers it.",
	Examples: []string{"ick channel ls", "ick channel ls --json"},
	Out:      reflect.TypeFor[Channels](),
}

// Channels are the names of channels.
type Channels struct {
	Channels []jsontype.Text `json:"channels" doc:"Their names, sorted by their bytes."`
	Incomplete
}

// AddToChannel marks members as dirty.
var AddToChannel = operation(Row{
	ID: "addToChannel", Words: "ick channel add", Method: http.MethodPost, Path: channelPath + "/marks", Statuses: []int{http.StatusInsufficientStorage}, Class: Work,
	Summary:  "Mark members as dirty, each in its list of the channel",
	Detail:   "Either members, with the server's time as score, or marks with scores. The CRC-32 of a member selects its list. The first marks create a channel, of 4 lists. If a list fails, the marks of the others stay, and adding all of them again does no harm.",
	Examples: []string{"ick channel add pages now page:17", "ick channel add pages 1700000000 page:17 1700000003.5 page:18"},
}, func(ctx context.Context, c *ick.Channel, in Marks) (Marked, error) { return in.add(ctx, c) })

// GetChannelStats shows the numbers of a channel.
var GetChannelStats = operation(Row{
	ID: "getChannelStats", Words: "ick channel stats", Method: http.MethodGet, Path: channelPath + "/stats", Statuses: []int{http.StatusNotFound}, Class: Look,
	Summary:  "Show the dirty lists of a channel with their sizes, ages and consumers",
	Detail:   "The lists are read one by one, so the sums are not of one moment.",
	Examples: []string{"ick channel stats pages", "ick channel stats pages --json"},
}, func(ctx context.Context, c *ick.Channel, _ Channel) (ChannelStats, error) {
	s, err := c.Stats(ctx)
	doc := ChannelStats{
		Name: jsontype.Text(s.Name), Size: s.Size, Consumers: s.Consumers, Waiting: s.Waiting, Reserved: s.Reserved, Distinct: s.Distinct,
		Parked: s.Parked, OldestAge: s.OldestAge.Seconds(), Counters: IckCounters(s.Counters), Icks: make([]ChannelIck, len(s.Icks)),
	}
	for i, k := range s.Icks {
		doc.Icks[i] = ChannelIck{jsontype.Text(k.Name), jsontype.Text(k.Owner), k.Waiting.Size, k.Reserved.Size, k.Parked, k.OldestAge.Seconds()}
	}
	return doc, err
})

// ChannelStats is the Out of [GetChannelStats].
type ChannelStats struct {
	Name      jsontype.Text `json:"name" example:"\"pages\""`
	Size      int           `json:"size" doc:"Lists that producers use." example:"4"`
	Consumers int           `json:"consumers" doc:"Live ones." example:"2"`
	Waiting   int           `json:"waiting" doc:"Marks that wait, in all lists." example:"17"`
	Reserved  int           `json:"reserved" doc:"Marks that are reserved, in all lists." example:"3"`
	Distinct  int           `json:"distinct" doc:"Both; a member that waits and is reserved counts once." example:"20"`
	Parked    int           `json:"parked" example:"0"`
	OldestAge float64       `json:"oldest_age_s" doc:"The age of the oldest mark in seconds; 0 without marks." example:"0.31"`
	Counters  IckCounters   `json:"counters" doc:"Of the lists that are served."`
	Icks      []ChannelIck  `json:"icks" doc:"All that are served, also those that producers no longer use."`
}

// ChannelIck is a dirty list of a channel.
type ChannelIck struct {
	Name      jsontype.Text `json:"name" example:"\"pages/0\""`
	Consumer  jsontype.Text `json:"consumer" doc:"The name of its consumer; empty for none." example:"\"app-3\""`
	Waiting   int           `json:"waiting" example:"17"`
	Reserved  int           `json:"reserved" example:"3"`
	Parked    int           `json:"parked" example:"0"`
	OldestAge float64       `json:"oldest_age_s" example:"0.31"`
}

// ResizeChannel changes the number of dirty lists.
var ResizeChannel = operation(Row{
	ID: "resizeChannel", Words: "ick channel resize", Method: http.MethodPost, Path: channelPath + "/resize", Statuses: []int{http.StatusInsufficientStorage},
	Class: Change, Action: "channel.resize", Only: "the pages show the lists of a channel; who resizes it starts or stops workers, too",
	Summary:  "Change the number of dirty lists of a channel",
	Detail:   "It creates a channel that does not exist. No mark is moved: producers learn the number within about a second, and lists that are no longer used are served until they are empty. A member that waits may be handled twice.",
	Examples: []string{"ick channel resize pages 8"},
}, func(ctx context.Context, c *ick.Channel, in Size) (Size, error) { return in, c.Resize(ctx, in.Size) })

// Size is the In and the Out of [ResizeChannel].
type Size struct {
	Size int `json:"size" arg:"" minimum:"1" maximum:"1024" doc:"The number of dirty lists: at least as many as there are workers." example:"8"`
}

// DeleteChannel deletes a channel.
var DeleteChannel = operation(Row{
	ID: "deleteChannel", Words: "ick channel rm", Method: http.MethodDelete, Path: channelPath,
	Class: Change, Action: "channel.delete", Only: "the pages drop parked members alone: of deleted marks no consumer ever learns",
	Summary:  "Delete a channel with all its dirty lists",
	Detail:   "Stop producers and consumers first, or they create it again. The answer counts the marks that are lost, parked ones included; it is 0 if there is no such channel.",
	Examples: []string{"ick channel rm pages"},
}, func(ctx context.Context, c *ick.Channel, _ Channel) (doc Lost, err error) {
	doc.Lost, err = c.Delete(ctx)
	return doc, err
})

// Lost is the Out of [DeleteChannel].
type Lost struct {
	Lost int `json:"lost" doc:"How many marks were there." example:"0"`
}

// WorkChannel is the round of a worker of a channel.
var WorkChannel = operation(Row{
	ID: "workChannel", Method: http.MethodPost, Path: channelPath + "/work", Class: Work,
	Only:    "ick channel work runs a program for each batch",
	Summary: "Settle batches of a channel, and take more",
	Detail: "A worker's round in one call. The dirty lists of the channel are divided among its workers, each list has one at a time, and workers may come and go, and the channel be resized, meanwhile. " +
		"It commits members that are done, parks those that failed, and takes a batch from each of the worker's lists, under a token; it waits only for marks. Members that were taken and not settled come again, so it settles all of a round, and a worker makes one call at a time. " +
		"A worker that needs longer than its lease asks for 0 members meanwhile, and keeps its lists. One that is silent loses them at the end of the lease; one that ends says that it leaves.",
}, func(ctx context.Context, c *ick.Channel, in ChannelRound) (ChannelTaken, error) {
	round := ick.Round{
		Worker: string(in.Worker), Max: in.Max, Block: in.Block.Duration, Lease: in.Lease.Duration, Leave: in.Leave,
		Done: make(map[string][]string), Failed: make(map[string]map[string]string),
	}
	for _, b := range in.Done {
		round.Done[b.Token] = append(round.Done[b.Token], jsontype.Strings(b.Members)...)
	}
	for _, b := range in.Failed {
		if round.Failed[b.Token] == nil {
			round.Failed[b.Token] = make(map[string]string)
		}
		for _, member := range b.Members {
			round.Failed[b.Token][string(member)] = string(b.Reason)
		}
	}
	for token, failed := range round.Failed {
		if slices.ContainsFunc(slices.Collect(maps.Keys(failed)), func(m string) bool { return slices.Contains(round.Done[token], m) }) {
			return ChannelTaken{}, ErrRequest.Errorf("a member of the batch %.60q is both done and failed", token)
		}
	}
	batches, done, err := c.Exchange(ctx, round)
	doc := ChannelTaken{make([]Reserved, len(batches)), Committed(done)}
	for i, b := range batches {
		doc.Batches[i] = reserved(b)
	}
	return doc, err
})

// ChannelRound is the In of [WorkChannel].
type ChannelRound struct {
	Worker   jsontype.Text     `json:"worker" minLength:"1" maxLength:"64" doc:"The name of the worker, which no other worker has: its host and process, in 64 bytes." example:"\"app-3/4711\""`
	Max      int               `json:"max" minimum:"0" maximum:"1000" doc:"The largest number of members of each list. 0 settles, and keeps the worker's lists for another lease." example:"100"`
	Block    jsontype.Duration `json:"block,omitzero" doc:"How long to wait for marks. Defaults to not at all." example:"20s"`
	Lease    jsontype.Duration `json:"lease,omitzero" doc:"How long the worker keeps its lists after the answer, from 1s to 1h: it calls again before that. Defaults to 30s." example:"30s"`
	Settle   jsontype.Duration `json:"settle,omitzero" doc:"Leave marks that are younger than this. Defaults to 0s." example:"5s"`
	Backwash bool              `json:"backwash,omitempty" doc:"Let older marks replace reserved ones."`
	Done     []Commit          `json:"done,omitempty" maxItems:"1024" doc:"Members that are done, by the token of their batch."`
	Failed   []FailedMembers   `json:"failed,omitempty" maxItems:"1000" doc:"Members that failed. They are parked: tried again after a second that doubles with each attempt, and after the fifth only when they are marked again."`
	Leave    bool              `json:"leave,omitempty" doc:"The worker ends, and others get its lists at once."`
}

// Config returns the settings of the lists that are reserved so.
func (r ChannelRound) Config() ick.Config {
	return Reserve{Settle: r.Settle, Backwash: r.Backwash}.Config()
}

// FailedMembers are members of a batch that failed.
type FailedMembers struct {
	Token   string          `json:"token" doc:"The token of their batch." example:"3/1-DV6JPA2Y"`
	Members []jsontype.Text `json:"members" minItems:"1" maxItems:"1000" doc:"Members that failed." example:"[\"page:18\"]"`
	Reason  jsontype.Text   `json:"reason,omitempty" doc:"Why, for people; 512 bytes of it are kept." example:"\"too large\""`
}

// ChannelTaken is the Out of [WorkChannel].
type ChannelTaken struct {
	Batches []Reserved `json:"batches" doc:"One from each of the worker's lists that has marks, the oldest mark first; empty if there is nothing."`
	Committed
}
