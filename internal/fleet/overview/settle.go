package overview

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
)

// betterTimeout is how long a partition has to become better, besides the Grace.
const betterTimeout = 5 * time.Second

// Settle waits until all partitions are healthy, or none has changed for a while and no
// member copies or loads data. It returns an error that names the partitions without a master then.
func Settle(ctx context.Context, f *fleet.Fleet) error {
	limit := directory.MapOf(f.Client()).Grace() + betterTimeout
	since, before := time.Now(), ""
	var last fleet.Status
	for {
		status, err := f.Status(ctx)
		if err == nil {
			last = status
		}
		states, busy := describeStates(last)
		if states != before || busy {
			since, before = time.Now(), states
		}
		if err == nil && last.State == fleet.Healthy || time.Since(since) > limit || !retry.Sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	var without []string
	for _, p := range last.Partitions {
		if p.State == fleet.ReadOnly || p.State == fleet.Out {
			without = append(without, strconv.Itoa(p.ID))
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(without) > 0:
		return errWithoutMaster.Errorf("without a master: partition %s", strings.Join(without, ", "))
	}
	return nil
}

// errWithoutMaster means that some partitions elect no master yet.
var errWithoutMaster = &millrace.Error{
	Code: "no_master",
	Hint: "Bring their members back with their data; millrace fleet show says more. Agents go on by themselves: start them with millrace fleet agent.",
}

// describeStates returns the states of all members, and whether one of them copies or loads
// data.
func describeStates(s fleet.Status) (states string, busy bool) {
	var b strings.Builder
	for _, p := range s.Partitions {
		fmt.Fprint(&b, p.State)
		for _, m := range append([]fleet.MemberStatus{p.Master}, p.Replicas...) {
			fmt.Fprint(&b, " ", m.Addr, " ", m.State)
			busy = busy || m.State == fleet.Copying || m.State == fleet.Loading
		}
	}
	return b.String(), busy
}
