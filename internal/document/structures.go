package document

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/lease"
)

// Incomplete describes the missing parts of a list.
type Incomplete struct {
	Incomplete string `json:"incomplete,omitempty" doc:"What could not be read because servers did not answer. Absent if the list is complete." example:"5 of 16 parts of the registry could not be read"`
}

// OfList describes the missing parts of a list that ended with an error, and reports whether
// the list is still useful.
func OfList(err error) (i Incomplete, ok bool) {
	part, ok := errors.AsType[*millrace.Error](err)
	switch {
	case err == nil:
		return i, true
	case !ok || !errors.Is(err, millrace.ErrPartial):
		return i, false
	}
	return Incomplete{part.Message}, true
}

// CounterServers shows the remaining scattered values on each server.
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

// Counted is the sum of a counter over its servers.
type Counted struct {
	Value    int64 `json:"value" doc:"The sum." example:"20"`
	Servers  int   `json:"servers" doc:"How many servers there are." example:"3"`
	Answered int   `json:"answered" doc:"How many of them are in the sum." example:"3"`
}

// Counter is the result of an addition to a counter.
type Counter struct {
	Added  int64  `json:"added" example:"3"`
	Server string `json:"server" doc:"The server that received it." example:"10.0.0.1:6379"`
}

// Fields are fields of a hash.
type Fields struct {
	Fields []Field `json:"fields" doc:"Sorted by the bytes of their names."`
}

// Field is a field of a hash.
type Field struct {
	Field Text  `json:"field" example:"\"token\""`
	Value Text  `json:"value" example:"\"3f9a\""`
	TTL   int64 `json:"ttl_ms" doc:"The remaining time in milliseconds; -1 if it never expires." example:"1799912"`
}

// OfFields sorts and converts fields.
func OfFields(fields []expiry.Field) Fields {
	slices.SortFunc(fields, func(a, b expiry.Field) int { return cmp.Compare(a.Name, b.Name) })
	doc := Fields{make([]Field, len(fields))}
	for i, f := range fields {
		doc.Fields[i] = Field{Text(f.Name), Text(f.Value), Millis(f.TTL)}
	}
	return doc
}

// Millis returns the remaining time of a field in milliseconds: -1 if it never expires,
// and -2 if it does not exist.
func Millis(ttl time.Duration) int64 {
	if ttl < 0 {
		return int64(ttl)
	}
	return ttl.Milliseconds()
}

// Acquired is an acquired lease.
type Acquired struct {
	Token    string `json:"token" doc:"Identifies the holder; needed to refresh and to release." example:"ODZ4YB3RQJ5TKWUVHLCXNME7AI"`
	Fence    int64  `json:"fence" doc:"Grows with each acquisition of the name; below 2^53." example:"1795226400123456"`
	Deadline int64  `json:"deadline_ms" doc:"In Unix milliseconds, by the server's clock." example:"1795226400723"`
}

// Refreshed is a refreshed lease.
type Refreshed struct {
	Fence    int64 `json:"fence" example:"1795226400123456"`
	Deadline int64 `json:"deadline_ms" doc:"In Unix milliseconds, by the server's clock." example:"1795226400999"`
}

// OfRefreshed converts a refreshed lease.
func OfRefreshed(info lease.Info) Refreshed { return Refreshed{info.Fence, info.Deadline.UnixMilli()} }

// Released is a released lease.
type Released struct {
	Released bool `json:"released" doc:"Always true; a failure is an error."`
}

// Lease is the state of a lease. The fields after Fence are absent if it is free.
type Lease struct {
	Held      bool   `json:"held"`
	Fence     int64  `json:"fence" doc:"That of the last acquisition; 0 if unknown." example:"1795226400123456"`
	Token     *Text  `json:"token,omitempty" doc:"The holder's. With it any client can refresh and release the lease."`
	Deadline  *int64 `json:"deadline_ms,omitempty" doc:"In Unix milliseconds, by the server's clock."`
	Remaining *int64 `json:"remaining_ms,omitempty" doc:"Until the deadline."`
	Metadata  *Text  `json:"metadata,omitempty" doc:"The holder's."`
}

// OfLease converts the state of a lease.
func OfLease(info lease.Info) Lease {
	doc := Lease{Held: info.Held, Fence: info.Fence}
	if info.Held {
		token, metadata := Text(info.Token), Text(info.Metadata)
		deadline, remaining := info.Deadline.UnixMilli(), info.Remaining.Milliseconds()
		doc.Token, doc.Deadline, doc.Remaining, doc.Metadata = &token, &deadline, &remaining, &metadata
	}
	return doc
}
