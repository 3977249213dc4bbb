package recovery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// Found is what there is of a fleet whose directory has lost maps.
type Found struct {
	Fleet    string
	Copies   []Copy   // of the map, the newest first
	From     Copy     // the one that was chosen, the newest unless Config.From names another one
	Members  []Member // by partition, in the order of the chosen map; others come last
	Known    int64    // the highest epoch that a map or a member has
	Findings []string // what differs from the chosen map, or goes on, in sentences
	Unknown  []string // what is not known, in sentences

	// Present is the map of the directory, nil if it has none. Behind says that it is not the
	// chosen one, or that members know of later ones.
	Present *directory.Map
	Behind  bool

	// Silent says that more than half of the members do not answer. Then the fault may be the
	// caller's, and they may know a newer map.
	Silent bool

	// Map is the one to store: the chosen map, with servers that joined since, and an epoch
	// above all others. All partitions elect anew.
	Map *directory.Map

	directory *directory.Directory
}

// State is what a server was found to be.
type State string

// States of a server.
const (
	Master   State = "master"   // it takes writes
	Replica  State = "replica"  // it has the data of its master
	Fenced   State = "fenced"   // it was restarted: it has what was on its disk
	Loading  State = "loading"  // it reads its data from disk
	Down     State = "down"     // it does not answer
	Stranger State = "stranger" // it belongs to another fleet or partition, or has no data
)

// Member is what was found at an address.
type Member struct {
	Partition int // -1 for a server that belongs to none
	Addr      string
	Node      string // empty if it is not known
	Named     bool   // whether the newest copy names it
	State     State
	Copy      int64 // the epoch of its copy of the map: it has data as of then at least; 0 for none
	Floor     int64 // the epoch from which on it takes tags
	Error     string
}

// Ahead is how far members are ahead of the map if nothing is wrong: between a promotion and
// its map, or while partitions are added.
const Ahead = 2

// judge compares the newest copy with what members say, and makes the map to store.
func (s *search) judge() (*Found, error) {
	f := &Found{Fleet: s.fleet, Copies: s.copies, From: s.from, Known: s.copies[0].Epoch, Present: s.present, directory: s.cfg.Directory}
	if err := s.lacks(); err != nil {
		return nil, err
	}
	for _, a := range s.answers {
		if fleet, _, ok := identity(a.Report); ok && fleet == s.fleet {
			f.Known = max(f.Known, a.Floor, a.Held.Epoch)
		}
	}
	f.Behind = s.cfg.From != "" || s.present == nil || s.present.ID() != s.chosen.ID() || f.Known-Ahead > s.present.Epoch
	f.Silent = s.silent()
	next := s.chosen.Next()
	if s.cfg.From != "" {
		next.Parent = directory.ID{} // the other maps are not its history, and do not matter any more
	}
	listed := map[string]bool{} // by address
	runs := map[string]bool{}   // of members that answer
	for _, p := range s.chosen.Partitions {
		for _, named := range everyone(p) {
			if s.reused(named.Addr, p.ID) && drop(&next.Partitions[p.ID], named.Addr) {
				f.find("%s was a member of partition %d by the newest copy, and belongs to another one by now.", named.Addr, p.ID)
				continue
			}
			listed[named.Addr] = true
			runs[s.answers[named.Addr].Run] = true
			f.Members = append(f.Members, s.member(p.ID, named))
		}
	}
	for _, addr := range slices.Sorted(maps.Keys(s.answers)) {
		a := s.answers[addr]
		if listed[addr] || runs[a.Run] {
			continue // it may be a member by another name
		}
		fleet, id, ok := identity(a.Report)
		if !ok || fleet != s.fleet || id >= len(next.Partitions) {
			id = -1
		}
		other := s.member(id, directory.Member{Addr: addr})
		other.Named = false
		switch {
		case id >= 0 && s.joined(a, s.chosen.Partitions[id]):
			next.Partitions[id].Replicas = append(next.Partitions[id].Replicas, directory.Member{Addr: addr})
			f.find("%s has the data of partition %d, and the newest copy does not name it: it becomes a replica again.", addr, id)
		case other.State == Down:
			f.doubt("%s does not answer: whether it is a member that joined after the newest copy is not known.", addr)
		default:
			f.find("%s is no member by the newest copy, and stays as it is.", addr)
		}
		f.Members = append(f.Members, other)
	}
	slices.SortStableFunc(f.Members, func(a, b Member) int { return cmp.Compare(uint(a.Partition), uint(b.Partition)) })
	f.Map = next.ElectAnew(max(f.Known+1, s.clock().UnixMilli()))
	s.compare(f)
	return f, nil
}

// silent reports whether more than half of the members of the chosen map do not answer.
func (s *search) silent() bool {
	silent, all := 0, 0
	for _, p := range s.chosen.Partitions {
		for _, m := range p.Members() {
			all++
			if s.answers[m.Addr].Run == "" {
				silent++
			}
		}
	}
	return 2*silent > all
}

// reused reports whether a server that a copy names as a member of a partition is one of
// another partition of the fleet by now.
func (s *search) reused(addr string, partition int) bool {
	fleet, id, ok := identity(s.answers[addr].Report)
	return ok && fleet == s.fleet && id != partition && id < len(s.chosen.Partitions)
}

// drop removes a member from a partition, unless it is the only one. All elect anew, so any
// member can stand for the master.
func drop(p *directory.Partition, addr string) bool {
	is := func(m directory.Member) bool { return m.Addr == addr }
	switch {
	case p.Leaving != nil && is(*p.Leaving):
		p.Leaving = nil
	case p.Task != nil && p.Task.Add != nil && is(*p.Task.Add):
		p.Task.Add = nil
	case !is(p.Master):
		p.Replicas = slices.DeleteFunc(p.Replicas, is)
	case len(p.Replicas) > 0:
		p.Master, p.Replicas = p.Replicas[0], p.Replicas[1:]
	default:
		return false
	}
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
	n := len(s.chosen.Partitions)
	for _, addr := range slices.Sorted(maps.Keys(s.answers)) {
		a := s.answers[addr]
		fleet, id, ok := identity(a.Report)
		if !ok || fleet != s.fleet {
			continue
		}
		if id >= n {
			return ErrIncomplete.Errorf("%s is a member of partition %d, and the newest copy, of epoch %d, has %d partitions", addr, id, s.chosen.Epoch, n)
		}
		for _, home := range a.Homes {
			if home >= n {
				return ErrIncomplete.Errorf("partition %d has tags on partition %d, and the newest copy, of epoch %d, has %d partitions", id, home, s.chosen.Epoch, n)
			}
		}
	}
	return nil
}

// member describes a member of a partition.
func (s *search) member(id int, named directory.Member) Member {
	a := s.answers[named.Addr]
	m := Member{Partition: id, Addr: named.Addr, Node: named.Node, Named: true, Copy: a.Held.Epoch, Floor: a.Floor}
	if a.err != nil {
		m.Error = oneLine(a.err)
	}
	switch r := a.Report; {
	case r.Run == "":
		m.State = Down
	case r.Loading:
		m.State = Loading
	case id < 0 || r.Identity != members.Identity(s.fleet, id):
		m.State = Stranger
	case r.Master:
		m.State = Master
	case r.Unread:
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

// compare says what differs from the newest copy, what goes on, and what is not known.
func (s *search) compare(f *Found) {
	newest := f.From
	if f.Known > newest.Epoch {
		f.doubt("The map was changed after the newest copy: members know the epoch %d, the copy has %d. What was changed is not known, except for what is listed above.", f.Known, newest.Epoch)
	} else {
		f.doubt("Whether the map was changed after the newest copy, that of epoch %d: a server that joined since and is not listed is missing. Name it with --member.", newest.Epoch)
	}
	if _, member := s.answers[newest.From]; !member && newest.From != TheDirectory && newest.From != memory {
		f.doubt("The newest copy is the one in the archive: no member that answers has one that is as new.")
	}
	for _, p := range s.chosen.Partitions {
		var silent, leads []string
		var readable int
		for _, m := range f.Members {
			switch {
			case m.Partition != p.ID:
			case m.State == Down, m.State == Loading:
				silent = append(silent, m.Addr)
			case m.State != Stranger:
				readable++
			}
			if m.Partition == p.ID && m.State == Master {
				leads = append(leads, m.Addr)
			}
		}
		switch {
		case readable == 0:
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
	if s.chosen.Adding() {
		f.find("An addition of partitions had begun, and agents finish it.")
	}
}
