package ops

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/lease"
)

// leasePath is the path of a lease.
const leasePath = "/v1/leases/{name}"

// Lease names a lease.
type Lease struct {
	Name jsontype.Text `arg:"" path:"name" complete:"lease" doc:"The lease's name." example:"\"nightly\""`
}

// Structure returns the name.
func (l Lease) Structure() string { return string(l.Name) }

// ListLeases lists the leases by name.
var ListLeases = Row{
	ID: "listLeases", Method: http.MethodGet, Path: "/v1/leases",
	Class: Look, Only: "the command shows who holds them, too, with a call for each: lease ls",
	Summary: "List the leases by name",
	Detail:  "Leases that are held, or were held within the last minute. Leases that were held only for a moment are left out.",
}

// LeaseNames are the names of leases.
type LeaseNames struct {
	Leases []jsontype.Text `json:"leases" doc:"Their names, sorted by their bytes."`
	Incomplete
}

// ShowLeases lists the leases with their holders.
var ShowLeases = Row{
	ID: "showLeases", Words: "lease ls",
	Class: Look, Only: "over HTTP a client asks for each lease of its list, as fast as it may: listLeases, getLease",
	Summary:  "List the leases: who holds them, and for how long",
	Detail:   "Leases that are held, by name. Each one that is shown is asked for: one call to Redis.",
	Examples: []string{"lease ls", "lease ls nightly --json"},
	Out:      reflect.TypeFor[HeldLeases](),
}

// HeldLeases are leases with their holders.
type HeldLeases struct {
	Leases []HeldLease   `json:"leases" doc:"By name."`
	Next   jsontype.Text `json:"next" doc:"Where to continue; empty at the end."`
	Incomplete
}

// HeldLease is a lease that is held.
type HeldLease struct {
	Name jsontype.Text `json:"name"`
	LeaseState
}

// GetLease shows a lease.
var GetLease = operation(Row{
	ID: "getLease", Words: "lease show", Method: http.MethodGet, Path: leasePath, Class: Look,
	Summary:  "Show who holds a lease, and for how long",
	Detail:   "A lease that was never held is not held. The answer contains the holder's token, with which any client can release the lease of a holder that will not return; the audit log then says who did.",
	Examples: []string{"lease show nightly", "lease show nightly --json"},
}, func(ctx context.Context, l OneLease, _ Lease) (LeaseState, error) {
	info, err := l.Of.Show(ctx, l.Name)
	doc := LeaseState{Held: info.Held, Fence: info.Fence}
	if info.Held {
		token, metadata := jsontype.Text(info.Token), jsontype.Text(info.Metadata)
		deadline, remaining := info.Deadline.UnixMilli(), info.Remaining.Milliseconds()
		doc.Token, doc.Deadline, doc.Remaining, doc.Metadata = &token, &deadline, &remaining, &metadata
	}
	return doc, err
})

// LeaseState is the Out of [GetLease]. The fields after Fence are absent if it is free.
type LeaseState struct {
	Held      bool           `json:"held"`
	Fence     int64          `json:"fence" doc:"That of the last acquisition; 0 if unknown." example:"1795226400123456"`
	Token     *jsontype.Text `json:"token,omitempty" doc:"The holder's. With it any client can refresh and release the lease."`
	Deadline  *int64         `json:"deadline_ms,omitempty" doc:"In Unix milliseconds, by the server's clock."`
	Remaining *int64         `json:"remaining_ms,omitempty" doc:"Until the deadline."`
	Metadata  *jsontype.Text `json:"metadata,omitempty" doc:"The holder's."`
}

// AcquireLease acquires a lease. What it does is written twice: the service seeds tokens, so that a
// repeat adopts its lease, and refreshes a lease that it need not remember; the command gives back a
// lease whose token it could not print.
var AcquireLease = Row{
	ID: "acquireLease", Words: "lease acquire", Method: http.MethodPost, Path: leasePath + "/acquire", Statuses: []int{http.StatusInsufficientStorage}, Class: Work,
	Summary:  "Acquire a lease, or wait for it",
	Detail:   "It is held until its deadline by the server's clock, or until it is released. While it has another holder, the request waits as long as wait says. Then it fails with the code held, which shows the remaining time and the holder's metadata. Waiters have no order.",
	Examples: []string{"lease acquire nightly --ttl 10m", `lease acquire nightly --ttl 10m --wait 1m --metadata "$HOSTNAME"`},
	Out:      reflect.TypeFor[Acquired](),
}

// Acquire is the In of [AcquireLease].
type Acquire struct {
	TTL            jsontype.Duration `json:"ttl" name:"ttl" required:"true" placeholder:"DURATION" doc:"How long to hold it, from 10ms to 8784h." example:"10m"`
	Wait           jsontype.Duration `json:"wait,omitzero" placeholder:"DURATION" doc:"How long to wait while it has another holder. Defaults to 0s, no waiting." example:"30s"`
	Metadata       jsontype.Text     `json:"metadata,omitempty" placeholder:"TEXT" doc:"A description of the holder, shown to others; at most 4,096 bytes." example:"\"host a\""`
	AllowEvictable bool              `json:"allow_evictable,omitempty" doc:"Accept a server that may evict the lease when its memory is full: for leases that only avoid duplicate work."`
}

// Acquired is the Out of [AcquireLease].
type Acquired struct {
	Token    string `json:"token" doc:"Identifies the holder; needed to refresh and to release." example:"ODZ4YB3RQJ5TKWUVHLCXNME7AI"`
	Fence    int64  `json:"fence" doc:"Grows with each acquisition of the name; below 2^53." example:"1795226400123456"`
	Deadline int64  `json:"deadline_ms" doc:"In Unix milliseconds, by the server's clock." example:"1795226400723"`
}

// Grant returns the document of a lease that is held.
func Grant(held *lease.Lease) Acquired {
	return Acquired{Token: held.Token, Fence: held.Fence, Deadline: held.Until.UnixMilli()}
}

// Holder identifies the holder of a lease.
type Holder struct {
	Token jsontype.Text `json:"token" required:"true" placeholder:"TOKEN" doc:"The token that acquire returned." example:"\"ODZ4YB3RQJ5TKWUVHLCXNME7AI\""`
}

// RefreshLease holds a lease longer.
var RefreshLease = operation(Row{
	ID: "refreshLease", Words: "lease refresh", Method: http.MethodPost, Path: leasePath + "/refresh", Class: Work,
	Summary:  "Hold a lease longer",
	Detail:   "It never moves the deadline back. A lease that expired or was released is lost, even if it had no other holder.",
	Examples: []string{"lease refresh nightly --token TOKEN --ttl 10m"},
}, func(ctx context.Context, l OneLease, in Refresh) (Refreshed, error) {
	info, err := l.Of.Refresh(ctx, l.Name, string(in.Token), in.TTL.Duration)
	if err != nil {
		return Refreshed{}, err
	}
	return Refreshed{info.Fence, info.Deadline.UnixMilli(), info.Remaining}, nil
})

// Refresh is the In of [RefreshLease].
type Refresh struct {
	Holder

	TTL jsontype.Duration `json:"ttl" name:"ttl" required:"true" placeholder:"DURATION" doc:"How long to hold it from now on, from 10ms to 8784h." example:"10m"`
}

// Refreshed is the Out of [RefreshLease].
type Refreshed struct {
	Fence     int64         `json:"fence" example:"1795226400123456"`
	Deadline  int64         `json:"deadline_ms" doc:"In Unix milliseconds, by the server's clock." example:"1795226400999"`
	Remaining time.Duration `json:"-"`
}

// ReleaseLease ends a lease. It is an operator's where another client than the holder does it.
var ReleaseLease = operation(Row{
	ID: "releaseLease", Words: "lease release", Method: http.MethodPost, Path: leasePath + "/release",
	Class: Withdraw, Action: "lease.release", Only: "the pages show no tokens",
	Summary:  "Release a lease before its deadline",
	Detail:   "The last token that released a lease may release it again for a minute; any other token has lost it.",
	Examples: []string{"lease release nightly --token TOKEN"},
}, func(ctx context.Context, l OneLease, in Holder) (Released, error) {
	return Released{Released: true}, l.Of.Release(ctx, l.Name, string(in.Token))
})

// Released is the Out of [ReleaseLease].
type Released struct {
	Released bool `json:"released" doc:"Always true; a failure is an error."`
}
