package overview

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/readable"
)

// Restored is the data with which a partition goes on.
type Restored struct {
	Partition int             `json:"partition"`
	From      string          `json:"from"`           // the member, or the file
	Into      string          `json:"into"`           // the member that is the master now
	Data      string          `json:"data"`           // how old it is, for people
	Behind    int64           `json:"behind"`         // in beats, about as many seconds
	Saved     time.Time       `json:"saved,omitzero"` // when a file was saved
	Members   []failover.Age  `json:"members"`        // all members, with the age of their data
	Doubtful  int             `json:"doubtful"`       // how many tags have data of an earlier time, or none
	Tags      []jsontype.Text `json:"tags"`           // some of them
	Ick       string          `json:"ick,omitempty"`  // to which agents add them
	Took      int64           `json:"took_ms"`
}

// someTags is how many doubtful tags are shown.
const someTags = 20

// ErrNoData means that a partition cannot go on with the data that was named.
var ErrNoData = &millrace.Error{Code: "no_data", Hint: "Look at millrace fleet show. Start a member with its data, or go on with a snapshot: millrace fleet restore PARTITION --from FILE."}

// RestoreMember returns the consequences of going on with the data of a member.
func RestoreMember(partition int, from string, data failover.Data) (Restored, failover.Choice, error) {
	doc := Restored{Partition: partition, From: from, Into: from, Members: data.Members, Tags: []jsontype.Text{}}
	at := slices.IndexFunc(data.Members, func(age failover.Age) bool { return age.Addr == from })
	switch {
	case at < 0:
		return doc, failover.Choice{}, ErrNoData.Errorf("%s is not a member of partition %d", from, partition)
	case !data.Members[at].Known:
		return doc, failover.Choice{}, ErrNoData.Errorf("%s %s", from, data.Members[at].Text)
	}
	doc.Data, doc.Behind = data.Members[at].Text, data.Members[at].Behind
	return doc, failover.Choice{Addr: from}, nil
}

// RestoreFile returns the consequences of loading a file into the member whose data is missed least.
func RestoreFile(ctx context.Context, option rueidis.ClientOption, fleet string, partition int, path string, data failover.Data, log *slog.Logger) (Restored, failover.Choice, error) {
	log.InfoContext(ctx, "reading the file", "file", path)
	file, err := snapshot.Examine(ctx, path)
	doc := Restored{
		Partition: partition, From: path, Into: data.Least, Members: data.Members, Tags: []jsontype.Text{},
		Data: data.Describe(file.Beat), Behind: file.Beat.Behind(data.Newest), Saved: file.Saved.UTC(),
	}
	if (file.Beat == members.Beat{}) {
		doc.Data = "of unknown age: no agent had written beats"
	}
	switch {
	case err != nil:
		return doc, failover.Choice{}, err
	case file.Fleet != fleet || file.Partition != partition:
		return doc, failover.Choice{}, ErrNoData.Errorf("%s is of partition %d of fleet %s, not of partition %d of %s", path, file.Partition, file.Fleet, partition, fleet)
	case data.Least == "":
		return doc, failover.Choice{}, ErrNoData.Errorf("no member of partition %d answers", partition)
	}
	return doc, failover.Choice{Addr: doc.Into, Load: func(ctx context.Context, history string) error {
		return snapshot.Load{Option: option, Addr: doc.Into, Path: path, History: history, Logger: log}.Run(ctx)
	}}, nil
}

// Question asks whether to do it.
func (doc *Restored) Question() string {
	what := "the data of " + doc.From
	if !doc.Saved.IsZero() {
		what = fmt.Sprintf("%s, saved at %s, in place of what %s has", doc.From, doc.Saved.Format(time.DateTime), doc.Into)
	}
	return fmt.Sprintf("Go on in partition %d with %s? It is %s. What the partition had since is lost, also what replicas confirmed.", doc.Partition, what, doc.Data)
}

// Add notes doubtful tags.
func (doc *Restored) Add(tags []string) error {
	doc.Doubtful += len(tags)
	doc.Tags = append(doc.Tags, jsontype.Texts(tags[:min(len(tags), someTags-len(doc.Tags))])...)
	return nil
}

// Table writes it for people.
func (doc *Restored) Table(w io.Writer) {
	fmt.Fprintf(w, "Partition %d goes on with %s; %s is the master. The data is %s: what was written there since is lost.\n", doc.Partition, doc.From, doc.Into, doc.Data)
	if doc.Doubtful > 0 {
		fmt.Fprintf(w, "%s, whose data is of that time or missing:\n", readable.Count(doc.Doubtful, "doubtful tag"))
		for _, tag := range doc.Tags {
			fmt.Fprintf(w, "    %s\n", tag)
		}
		if more := doc.Doubtful - len(doc.Tags); more > 0 {
			fmt.Fprintf(w, "    and %d more: millrace fleet restore %d --doubtful\n", more, doc.Partition)
		}
	}
	next := fmt.Sprintf("To have agents add them to an Ick, whose consumers bring them in line: millrace fleet restore %d --from %s --ick NAME.", doc.Partition, doc.Into)
	if doc.Ick != "" {
		next = "Agents add them to the Ick " + doc.Ick + ", whose consumers bring them in line."
	}
	fmt.Fprintf(w, "%s Tags that were first used there since are in no list: find them in your database.\n", next)
}
