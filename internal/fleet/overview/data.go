package overview

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
)

// Data is how old the data of a partition's members is, and why the partition has no master, if
// that is so.
type Data struct {
	Partition int            `json:"partition"`
	Waits     string         `json:"waits,omitempty"`
	Members   []failover.Age `json:"members"`
}

// dataOf asks the members of all partitions how old their data is.
func dataOf(ctx context.Context, option rueidis.ClientOption, dir *directory.Directory, m *directory.Map, events []directory.Event) []Data {
	docs := make([]Data, len(m.Partitions))
	var asking sync.WaitGroup
	for i, p := range m.Partitions {
		docs[i].Partition = p.ID
		if p.ReadOnly {
			at := slices.IndexFunc(events, func(e directory.Event) bool {
				return e.Partition == p.ID && strings.HasPrefix(e.What, failover.NoMaster)
			})
			docs[i].Waits = "an agent is to give it a master"
			if at >= 0 {
				docs[i].Waits = strings.TrimPrefix(events[at].What, failover.NoMaster)
			}
		}
		asking.Go(func() { docs[i].Members = failover.Look(ctx, option, dir, m, p.ID).Members })
	}
	asking.Wait()
	return docs
}

// drawData writes the data of partitions that wait for a master.
func drawData(w io.Writer, data []Data) {
	for _, d := range data {
		if d.Waits != "" {
			fmt.Fprintf(w, "\nPartition %d is read-only: %s. Its data:\n%s\n", d.Partition, d.Waits, strings.Join(AgeLines(d.Members), "\n"))
		}
	}
}

// AgeLines writes how old the data of members is.
func AgeLines(ages []failover.Age) []string {
	lines := make([]string, len(ages))
	for i, age := range ages {
		lines[i] = fmt.Sprintf("    %s: %s", age.Addr, age.Text)
	}
	return lines
}
