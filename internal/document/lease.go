package document

import "github.com/millrace/millrace/lease"

// Acquired is a lease that was acquired.
type Acquired struct {
	Token    string `json:"token" doc:"Shows who holds the lease; keep it to refresh and to release." example:"ODZ4YB3RQJ5TKWUVHLCXNME7AI"`
	Fence    int64  `json:"fence" doc:"Grows with each acquisition of the name; below 2^53." example:"1795226400123456"`
	Deadline int64  `json:"deadline_ms" doc:"In Unix milliseconds, by the server's clock." example:"1795226400723"`
}

// Refreshed is a lease that is held longer.
type Refreshed struct {
	Fence    int64 `json:"fence" example:"1795226400123456"`
	Deadline int64 `json:"deadline_ms" doc:"In Unix milliseconds, by the server's clock." example:"1795226400999"`
}

// OfRefreshed makes a document of a lease that is held longer.
func OfRefreshed(info lease.Info) Refreshed { return Refreshed{info.Fence, info.Deadline.UnixMilli()} }

// Released is a lease that was ended.
type Released struct {
	Released bool `json:"released" doc:"Always true; what cannot be released is an error."`
}

// Lease is what there is of a lease. The fields behind the fence are absent when
// nobody holds it.
type Lease struct {
	Held      bool   `json:"held"`
	Fence     int64  `json:"fence" doc:"That of the last acquisition; 0 when none is known." example:"1795226400123456"`
	Token     *Text  `json:"token,omitempty" doc:"The holder's, which is as good as the lease."`
	Deadline  *int64 `json:"deadline_ms,omitempty" doc:"In Unix milliseconds, by the server's clock."`
	Remaining *int64 `json:"remaining_ms,omitempty" doc:"Until the deadline."`
	Metadata  *Text  `json:"metadata,omitempty" doc:"The holder's."`
}

// OfLease makes a document of what there is of a lease.
func OfLease(info lease.Info) Lease {
	doc := Lease{Held: info.Held, Fence: info.Fence}
	if info.Held {
		token, metadata := Text(info.Token), Text(info.Metadata)
		deadline, remaining := info.Deadline.UnixMilli(), info.Remaining.Milliseconds()
		doc.Token, doc.Deadline, doc.Remaining, doc.Metadata = &token, &deadline, &remaining, &metadata
	}
	return doc
}
