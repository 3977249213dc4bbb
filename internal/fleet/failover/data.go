package failover

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// Age is how old the data of one member is.
type Age struct {
	Addr    string `json:"addr"`
	Answers bool   `json:"answers"` // whether it answers
	Known   bool   `json:"known"`   // whether it has data of the partition, and said how old that is
	Beat    int64  `json:"beat"`    // the count of its beat, 0 for none
	Behind  int64  `json:"behind"`  // beats behind the newest that is known, about as many seconds
	Text    string `json:"text"`    // the same for people
}

// Data is the age of the members' data in a partition.
type Data struct {
	Members []Age        // the master first
	Newest  members.Beat // that they or the directory know
	Best    string       // the member with the newest data of those that answer, empty for none
	Least   string       // the member that answers and whose data is missed least, to load a file there
}

// Look asks all members of a partition how old their data is.
func Look(ctx context.Context, option rueidis.ClientOption, dir *directory.Directory, m *directory.Map, partition int) Data {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	members.Small(&option)
	pool := members.New(option, time.Second)
	defer pool.Close()
	p := m.Partitions[partition]
	var mu sync.Mutex
	reports := map[string]members.Report{}
	var asking sync.WaitGroup
	for _, m := range voters(p) {
		asking.Go(func() {
			for range 3 { // an agent that fences the member ends its connections
				if report, err := members.Ask(ctx, pool, m.Addr, members.ExamineFenced); err == nil {
					mu.Lock()
					defer mu.Unlock()
					reports[m.Addr] = report
					return
				}
			}
		})
	}
	known, _ := dir.Beats(ctx) // without it the members' own beats count
	asking.Wait()
	d := Data{Newest: known[p.ID]}
	for _, report := range reports {
		if report.Identity == members.Identity(m.Fleet, p.ID) {
			d.Newest = d.Newest.Newer(report.Beat)
		}
	}
	b := ballot{fleet: m.Fleet, p: p, reports: reports, newest: d.Newest}
	best, _, _ := b.best()
	d.Best = best.Addr
	for _, m := range voters(p) {
		report, answers := reports[m.Addr]
		age := Age{Addr: m.Addr, Answers: answers, Text: "does not answer"}
		switch {
		case !answers:
		case whole(report, b.fleet, p.ID):
			age.Known, age.Beat, age.Behind = true, report.Beat.Count, report.Beat.Behind(d.Newest)
			age.Text = d.Describe(report.Beat)
		case report.Loading, report.Copying:
			age.Text = "loads its data"
		default:
			age.Text = "has no data of the partition"
		}
		d.Members = append(d.Members, age)
		older := !reports[d.Least].Beat.Less(report.Beat) // of equally old ones a replica
		if answers && !report.Loading && (d.Least == "" || d.Least == d.Best || m.Addr != d.Best && older) {
			d.Least = m.Addr
		}
	}
	return d
}

// Describe says in words how old data with a beat is.
func (d Data) Describe(beat members.Beat) string {
	switch {
	case d.Newest == members.Beat{}:
		return "of unknown age: no agent has written beats"
	case beat == d.Newest:
		return "the newest that is known"
	default:
		return members.Age(beat.Behind(d.Newest)) + ", behind the newest that is known"
	}
}
