package overview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
)

// Forced is a failover that a person forces.
type Forced struct {
	Partitions []ForcedPartition `json:"partitions"`
	Without    []int             `json:"without"` // partitions of which no member answers: they stay as they are
}

// ForcedPartition is a partition that goes on without its master.
type ForcedPartition struct {
	Partition int            `json:"partition"`
	From      string         `json:"from"`
	To        string         `json:"to"`
	Data      string         `json:"data"`    // how old that of the new master is, for people
	Behind    int64          `json:"behind"`  // in beats, about as many seconds
	Members   []failover.Age `json:"members"` // all members, with the age of their data
	Done      bool           `json:"done"`
	Took      int64          `json:"took_ms"`
}

// Force returns the consequences of going on without the members that do not answer: in these
// partitions, or in all whose master does not answer.
func Force(ctx context.Context, option rueidis.ClientOption, dir *directory.Directory, m *directory.Map, partitions []int, to string) (Forced, error) {
	all := len(partitions) == 0
	if all {
		for _, p := range m.Partitions {
			partitions = append(partitions, p.ID)
		}
	}
	looks := make([]failover.Data, len(partitions))
	var looking sync.WaitGroup
	for i, id := range partitions {
		looking.Go(func() { looks[i] = failover.Look(ctx, option, dir, m, id) })
	}
	looking.Wait()
	doc := Forced{Partitions: []ForcedPartition{}, Without: []int{}}
	for i, id := range partitions {
		d := looks[i]
		f := ForcedPartition{Partition: id, From: m.Partitions[id].Master.Addr, To: d.Best, Members: d.Members}
		if to != "" {
			f.To = to
		}
		for _, age := range d.Members {
			if age.Addr == f.To && age.Known {
				f.Data, f.Behind = age.Text, age.Behind
			}
		}
		serves := d.Members[0].Answers && !m.Partitions[id].ReadOnly
		switch {
		case serves && all:
		case serves:
			return doc, failover.ErrNotSwitched.Errorf("the master of partition %d answers", id).WithHint("Leave out --force: then nothing is lost.")
		case f.Data != "":
			doc.Partitions = append(doc.Partitions, f)
		case to != "":
			return doc, ErrNoData.Errorf("%s is not a member of partition %d that answers with its data", to, id)
		default:
			doc.Without = append(doc.Without, id)
		}
	}
	if len(doc.Without) > 0 && (!all || len(doc.Partitions) == 0) {
		return doc, ErrNoData.Errorf("no member of partition %d answers that has its data", doc.Without[0])
	}
	return doc, nil
}

// Do makes the members masters, whatever they lack, one partition after the other. It reports those that failed.
func (doc *Forced) Do(ctx context.Context, dir *directory.Directory, servers failover.Servers, log *slog.Logger, help failover.Help) error {
	defer help(ctx)()
	var failed []error
	for i := range doc.Partitions {
		p, began := &doc.Partitions[i], time.Now()
		err := failover.Restore(ctx, dir, servers, p.Partition, failover.Choice{Addr: p.To}, log, func(context.Context) func() { return func() {} })
		p.Took, p.Done = time.Since(began).Milliseconds(), err == nil
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// Loses writes the possible losses, for people.
func (doc Forced) Loses(w io.Writer) {
	for _, f := range doc.Partitions {
		fmt.Fprintf(w, "Partition %d: %s becomes the master, in place of %s.\n%s\n", f.Partition, f.To, f.From, strings.Join(AgeLines(f.Members), "\n"))
		lost := "the last moments before that, which it had not received"
		if f.Behind > 0 {
			lost = fmt.Sprintf("about the last %d seconds before that", f.Behind)
		}
		fmt.Fprintf(w, "    Lost: %s; of what replicas confirmed, what only a silent member has.\n", lost)
	}
	doc.without(w)
}

func (doc Forced) without(w io.Writer) {
	for _, id := range doc.Without {
		fmt.Fprintf(w, "Partition %d stays as it is: no member answers that has its data.\n", id)
	}
}

// Table writes the results, for people.
func (doc Forced) Table(w io.Writer) {
	for _, f := range doc.Partitions {
		if f.Done {
			fmt.Fprintf(w, "partition %d: %s is the master, in place of %s; its data is %s\n", f.Partition, f.To, f.From, f.Data)
		}
	}
	doc.without(w)
}
