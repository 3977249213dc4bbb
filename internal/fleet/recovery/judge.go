package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Found describes a fleet whose directory has lost maps.
type Found struct {
	Fleet    string
	Copies   []Copy   // of the map, the newest first
	From     Copy     // the one that was chosen, the newest unless Config.From names another one
	Members  []Member // by partition, in the order of the chosen map; others come last
	Known    int64    // the highest epoch that a map or a member has
	Findings []string // differences from the chosen map, and changes in progress, in sentences
	Unknown  []string // unknown facts, in sentences

	// Present is the map of the directory, nil if it has none. Behind says that it is not the
	// chosen one, or that members know of later ones.
	Present *directory.Map
	Behind  bool

	// Silent says that more than half of the members that are up by the chosen map do not
	// answer. Then the fault may be the caller's, and they may know a newer map.
	Silent bool

	// Map is the one to store: the chosen map, with servers that joined since, and an epoch
	// above all others. All partitions elect anew.
	Map *directory.Map

	directory *directory.Directory
}

// State is the state in which a server was found.
type State string

// States of a server.
const (
	Master   State = "master"   // it takes writes
	Replica  State = "replica"  // it has the data of its master
	Fenced   State = "fenced"   // it was restarted: it has the data of its disk
	Loading  State = "loading"  // it reads its data from disk
	Down     State = "down"     // it does not answer
	Stranger State = "stranger" // it belongs to another fleet or partition, or has no data
)

// Member is the server that was found at an address.
type Member struct {
	Partition int    `json:"partition"` // -1 for a server that belongs to none
	Addr      string `json:"addr"`
	Node      string `json:"node"`  // empty if it is not known
	Named     bool   `json:"named"` // whether the chosen map names it
	State     State  `json:"state"`
	Copy      int64  `json:"copy_epoch"` // of its copy of the map: it has data as of then at least; 0 for none
	Floor     int64  `json:"floor"`      // the epoch from which on it takes tags
	Error     string `json:"error,omitempty"`
}

// Ahead is how far members are ahead of the map if nothing is wrong: between a promotion and
// its map, or while partitions are added.
const Ahead = 2

// judge compares the newest copy with the reports of members, and makes the map to store.
func (s *search) judge() (*Found, error) {
	if err := s.lacks(); err != nil {
		return nil, err
	}
	chosen := s.from.m
	f := &Found{Fleet: s.fleet, Copies: s.copies, From: s.from, Known: s.copies[0].Epoch, Present: s.present, directory: s.cfg.Directory}
	for _, a := range s.answers {
		if a.partition(s.fleet) >= 0 {
			f.Known = max(f.Known, a.Floor, a.Held.Epoch)
		}
	}
	f.Behind = s.cfg.From != "" || s.present == nil || s.present.ID() != chosen.ID() || f.Known-Ahead > s.present.Epoch
	f.Map = chosen.Next().ElectAnew(max(f.Known+1, s.clock().UnixMilli()))
	if s.cfg.From != "" {
		f.Map.Parent = directory.ID{} // the other maps are not its history, and do not matter any more
	}
	listed := map[string]bool{} // by address
	runs := map[string]bool{}   // of members that answer
	down, up := 0, 0            // of those that are up by the map
	for _, p := range chosen.Partitions {
		for _, named := range p.Everyone() {
			if id := s.answers[named.Addr].partition(s.fleet); id >= 0 && id != p.ID && drop(&f.Map.Partitions[p.ID], named.Addr) {
				f.find("%s was a member of partition %d by the newest copy, and belongs to another one by now.", named.Addr, p.ID)
				continue
			}
			m := s.member(p.ID, named)
			m.Named = true
			listed[named.Addr], runs[s.answers[named.Addr].Run] = true, true
			if !named.Down {
				if up++; m.State == Down {
					down++
				}
			}
			f.Members = append(f.Members, m)
		}
	}
	f.Silent = 2*down > up
	for _, a := range s.inOrder() {
		if listed[a.addr] || runs[a.Run] {
			continue // it may be a member by another name
		}
		id := a.partition(s.fleet)
		other := s.member(id, directory.Member{Addr: a.addr})
		switch {
		case id >= 0 && s.joined(a, chosen.Partitions[id]):
			f.Map.Partitions[id].Replicas = append(f.Map.Partitions[id].Replicas, directory.Member{Addr: a.addr})
			f.find("%s has the data of partition %d, and the newest copy does not name it: it becomes a replica again.", a.addr, id)
		case other.State == Down:
			f.doubt("%s does not answer: whether it is a member that joined after the newest copy is not known.", a.addr)
		default:
			f.find("%s is no member by the newest copy, and stays as it is.", a.addr)
		}
		f.Members = append(f.Members, other)
	}
	slices.SortStableFunc(f.Members, func(a, b Member) int { return cmp.Compare(uint(a.Partition), uint(b.Partition)) })
	s.compare(f)
	return f, nil
}

// drop removes a member from a partition, unless it is the only one. All elect anew, so any
// member can stand for the master.
func drop(p *directory.Partition, addr string) bool {
	is := func(m directory.Member) bool { return m.Addr == addr }
	if p.Leaving != nil && is(*p.Leaving) {
		p.Leaving = nil
		return true
	}
	left := slices.DeleteFunc(p.Members(), is)
	if len(left) == 0 {
		return false
	}
	p.Master, p.Replicas = left[0], left[1:]
	return true
}

func (f *Found) find(format string, args ...any) {
	f.Findings = append(f.Findings, fmt.Sprintf(format, args...))
}

func (f *Found) doubt(format string, args ...any) {
	f.Unknown = append(f.Unknown, fmt.Sprintf(format, args...))
}

// lacks returns ErrIncomplete if a server or a record of a tag shows that there is a
// partition that the newest copy does not have.
func (s *search) lacks() error {
	n := len(s.from.m.Partitions)
	for _, a := range s.inOrder() {
		id := a.partition(s.fleet)
		if id >= n {
			return ErrIncomplete.Errorf("%s is a member of partition %d, and the newest copy, of epoch %d, has %d partitions", a.addr, id, s.from.Epoch, n)
		}
		for _, home := range a.Homes {
			if id >= 0 && home >= n {
				return ErrIncomplete.Errorf("partition %d has tags on partition %d, and the newest copy, of epoch %d, has %d partitions", id, home, s.from.Epoch, n)
			}
		}
	}
	return nil
}

// member describes a server, as a member of a partition, -1 for none.
func (s *search) member(id int, named directory.Member) Member {
	a := s.answers[named.Addr]
	m := Member{Partition: id, Addr: named.Addr, Node: named.Node, Copy: a.Held.Epoch, Floor: a.Floor}
	if a.err != nil {
		m.Error = oneLine(a.err)
	}
	switch {
	case a.Run == "":
		m.State = Down
	case a.Loading:
		m.State = Loading
	case id < 0 || a.partition(s.fleet) != id:
		m.State = Stranger
	case a.Master:
		m.State = Master
	case a.Unread:
		m.State = Fenced
	default:
		m.State = Replica
	}
	return m
}

// joined reports whether a server that the newest copy does not name has become a member of
// a partition since: it follows one of its members and has all data, or it was made the
// master.
func (s *search) joined(a answer, p directory.Partition) bool {
	r := a.Report
	if a.err != nil || r.Loading || r.Copying {
		return false
	}
	follows, floor := false, p.Floor
	for _, m := range p.Members() {
		follows = follows || m.Addr == r.Follows
		floor = max(floor, s.answers[m.Addr].Floor)
	}
	return follows && r.Linked || r.Master && r.Floor > floor
}

// compare lists differences from the newest copy, changes in progress, and unknown facts.
func (s *search) compare(f *Found) {
	if f.Known > f.From.Epoch {
		f.doubt("The map was changed after the newest copy: members know the epoch %d, the copy has %d. What was changed is not known, except for what is listed above.", f.Known, f.From.Epoch)
	} else {
		f.doubt("Whether the map was changed after the newest copy, that of epoch %d: a server that joined since and is not listed is missing. Name it with --member.", f.From.Epoch)
	}
	if f.From.origin == ofArchive {
		f.doubt("The newest copy is the one in the archive: no member that answers has one that is as new.")
	}
	for _, p := range f.From.m.Partitions {
		var silent, leads []string
		readable := false
		for _, m := range f.Members {
			switch {
			case m.Partition != p.ID, m.State == Stranger:
			case m.State == Down, m.State == Loading:
				silent = append(silent, m.Addr)
			case m.State == Master:
				leads = append(leads, m.Addr)
				readable = true
			default:
				readable = true
			}
		}
		switch {
		case !readable:
			f.doubt("What partition %d has: no member answers that has its data. It stays out until one does; tags there cannot be used, and new tags that may be there are not placed.", p.ID)
		case len(silent) > 0:
			f.doubt("Whether %s of partition %d has newer data than the others: it does not answer. If writes may be missing without it, the partition stays read-only.", strings.Join(silent, ", "), p.ID)
		}
		if len(leads) > 0 && !slices.Equal(leads, []string{p.Master.Addr}) {
			f.find("Partition %d: the newest copy names %s as the master, and now writes are taken by %s.", p.ID, p.Master.Addr, strings.Join(leads, ", "))
		}
		if p.Task != nil || p.Leaving != nil {
			f.find("Partition %d: a change of its members had begun, and agents go on with it.", p.ID)
		}
	}
	if has, least := f.From.m.Settings.Effective().ViewTTL, s.cfg.Directory.ViewTTL; has < least {
		f.find("This directory confirms nothing while it elects a leader, and the fleet's view-life is %v: with less than %v the fleet is read-only then.", has, least)
	}
	if f.From.m.Adding() {
		f.find("An addition of partitions had begun, and agents finish it.")
	}
}
